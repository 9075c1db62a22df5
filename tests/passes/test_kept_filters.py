"""low_weights keeps filters by the scale of a batch norm that fold_scales folds into them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.kept_weights import numbers, options, rewrites_in
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16

import npu_precision
from npu_precision import _library
from npu_precision.flight import tensor_watch

tf1 = tf.compat.v1
pytestmark = [
    pytest.mark.cpu("weights are kept on CPUs alone"),
    needs_functions_by_default,
    needs_onednn_in_bfloat16,
]
IMAGES = numbers(8, [2, 8, 8, 16])
FILTER = [3, 3, 16, 24]


def normalized(variables, images=IMAGES, **fields):
    """A function of a convolution and a batch norm, which fold_scales folds into the filter."""

    @tf.function
    def norm(x):
        convolution = tf.nn.conv2d(x, variables["filter"], 1, "SAME")
        scale = variables["gamma"] * tf.math.rsqrt(variables["variance"] + 1e-3)
        shift = variables["beta"] - variables["mean"] * scale
        return convolution * scale + shift

    def call():
        with npu_precision.autocast(options(**fields)):
            return norm(tf.constant(images)).numpy()

    return call


def batch_norm():
    shapes = {"filter": FILTER} | dict.fromkeys(["gamma", "beta", "mean", "variance"], [24])
    return {name: tf.Variable(np.abs(numbers(1, shape))) for name, shape in shapes.items()}


@pytest.mark.parametrize("changed", ["filter", "gamma", "beta", "mean", "variance"])
def test_a_folded_filter_follows_all_that_it_comes_of(changed):
    variables = batch_norm()
    kept, anew = normalized(variables), normalized(variables, rewrites="-low_weights")
    results = [kept()]
    for change in ("assign", "assign_add", "assign", "assign_add"):
        np.testing.assert_array_equal(results[-1], kept())
        np.testing.assert_array_equal(results[-1], anew())
        value = np.abs(numbers(10 + len(results), variables[changed].shape.as_list()))
        getattr(variables[changed], change)(value)
        results.append(kept())
    assert len({each.tobytes() for each in results}) == 5


def test_a_filter_of_more_weights_than_the_result_has_elements_is_folded_too(tmp_path):
    """Scaling takes no pass of its own."""
    images = IMAGES[:, :2, :2]
    assert np.prod(FILTER) > 4 * images[..., 0].size * FILTER[-1]
    normalized(batch_norm(), images, report_dir=str(tmp_path))()
    rewrites = rewrites_in(tmp_path)
    assert [by for by, _, _ in rewrites] == ["fold_scales", "low_weights"]
    assert " of " in rewrites[0][2]  # not a norm of its own


def test_without_low_weights_it_is_not(tmp_path):
    images = IMAGES[:, :2, :2]
    normalized(batch_norm(), images, report_dir=str(tmp_path), rewrites="-low_weights")()
    assert [after for _, _, after in rewrites_in(tmp_path)] == ["FusedBatchNormV3"]


def test_a_scale_that_is_not_a_number_is_kept_as_one():
    variables = batch_norm()
    variables["gamma"].assign(tf.fill([24], np.nan))
    kept = normalized(variables)
    made = _library.kept_casts()["made"]
    for _ in range(3):
        assert np.isnan(kept()).all()
    assert _library.kept_casts()["made"] == made + 1
    variables["gamma"].assign(tf.ones([24]))
    assert np.isfinite(kept()).all()


def folded_in_session(scale, change, rewrites):
    """What a session yields that folds `scale` into a filter and changes it after each step."""
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16", rewrites=rewrites, strict=True
    )
    with tf.Graph().as_default():
        weights = tf1.get_variable(
            "filter", initializer=tf.constant(numbers(1, FILTER)), use_resource=True
        )
        convolution = tf.nn.conv2d(tf.constant(IMAGES), weights, 1, "SAME")
        tensor, feeds = scale()
        norm = tf.nn.relu(convolution * tensor + tf.constant(numbers(2, [24])))
        changing = change(tensor)
        results = []
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            step = session.make_callable(norm, list(feeds))
            for _ in range(4):
                results.append(step(*feeds.values()))
                if changing is not None:
                    session.run(changing)
                for array in feeds.values():
                    array *= 2
    assert len({each.tobytes() for each in results}) == len(results)
    return results


def of_the_old_kind():
    initial = tf.ones([24])
    return tf1.get_variable("scale", initializer=initial, use_resource=False), {}


def fed_as_it_is():
    """The session reads the memory of an array that is aligned so."""
    bytes_of_more = np.zeros(24 * 4 + 64, np.uint8)
    start = -bytes_of_more.ctypes.data % 64
    array = bytes_of_more[start : start + 24 * 4].view(np.float32)
    array[:] = 1
    placeholder = tf1.placeholder(tf.float32, [24])
    return placeholder, {placeholder: array}


@pytest.mark.parametrize(
    ("scale", "change"),
    [
        (of_the_old_kind, lambda scale: scale.assign_add(tf.ones([24])).op),
        (fed_as_it_is, lambda scale: None),
    ],
)
def test_a_scale_may_be_written_in_place(scale, change):
    kept, anew = (folded_in_session(scale, change, each) for each in ("all", "-low_weights"))
    np.testing.assert_array_equal(kept, anew)


def test_a_recorder_sees_what_is_rounded_and_changes_nothing():
    variables = batch_norm()
    steps = []
    with tensor_watch.TensorWatch("lowered", 1, steps.append):
        recorded = normalized(variables)()
    np.testing.assert_array_equal(recorded, normalized(variables)())
    (step,) = steps
    rounded = {tensor.op for tensor in step.graph.tensors if tensor.dtype != tensor.low_type}
    assert "Mul" in rounded  # of filter and scale

"""The ops and scopes of npu_bridge that compute the same here as on an NPU."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import tensorflow as tf

import npu_precision
from npu_precision import _no_effect, npu_ops
from npu_precision.npu_bridge import (
    npu_cpu_ops,
    npu_hook,
    npu_plugin,
    npu_scope,
    npu_unary_ops,
    util,
)

tf1 = tf.compat.v1


def computed(make, **feeds):
    """The value of the tensor that make(placeholders) returns, in a session."""
    with tf.Graph().as_default(), tf1.Session() as session:
        given = {name: tf1.placeholder(tf.float32, np.shape(v)) for name, v in feeds.items()}
        return session.run(make(**given), {given[name]: value for name, value in feeds.items()})


def test_gelu_is_that_of_the_normal_distribution():
    x = np.linspace(-5, 5, 101).astype(np.float32)
    exact = [each * 0.5 * (1 + math.erf(each / math.sqrt(2))) for each in x.tolist()]
    # The largest error of the approximation by tanh.
    np.testing.assert_allclose(computed(npu_unary_ops.gelu, x=x), exact, rtol=0, atol=5e-4)


def test_gelu_has_the_dtype_of_its_input():
    with tf.Graph().as_default():
        assert npu_unary_ops.gelu(tf.constant([1.0], tf.float16)).dtype == tf.float16


@pytest.mark.parametrize("fed", [False, True], ids=["a number", "a tensor"])
def test_dropout_keeps_with_a_probability_and_divides_by_it(fed):
    x = np.full([100, 100], 3.0, np.float32)
    if fed:
        made = computed(lambda x, p: npu_ops.dropout(x, p, seed=1), x=x, p=np.float32(0.25))
    else:
        made = computed(lambda x: npu_ops.dropout(x, keep_prob=0.25, seed=1), x=x)
    kept = made != 0
    np.testing.assert_allclose(made[kept], 12.0, rtol=1e-6)
    # Four standard deviations of the number that is kept.
    assert abs(kept.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / x.size)


def test_dropout_may_decide_for_rows():
    x = np.ones([50, 8], np.float32)
    made = computed(lambda x: npu_ops.dropout(x, 0.5, noise_shape=[50, 1], seed=1), x=x)
    assert set(map(tuple, made)) == {(0.0,) * 8, (2.0,) * 8}


def scaled(w, g, decay, trust=0.001, epsilon=1e-5, learning_rate=None):
    """LARS in NumPy."""
    length = np.linalg.norm(w)
    ratio = trust * length / (np.linalg.norm(g) + decay * length + epsilon)
    if learning_rate is not None:
        ratio = min(ratio / learning_rate, 1)
    return ratio * (g + decay * w)


@pytest.fixture
def weight_and_gradient():
    random = np.random.default_rng(0)
    return random.normal(size=[6, 4]).astype(np.float32), random.normal(size=[6, 4]).astype(
        np.float32
    )


@pytest.mark.parametrize(
    ("given", "learning_rate"),
    [
        ({}, None),
        ({"hyperpara": 0.02, "epsilon": 0.1}, None),
        ({"hyperpara": 0.02, "use_clip": True}, 0.5),
        # Clipped: the ratio, 0.02, is above the learning rate.
        ({"hyperpara": 0.02, "use_clip": True}, 1e-3),
    ],
)
def test_lars_scales_a_gradient_by_the_lengths_of_weight_and_gradient(
    weight_and_gradient, given, learning_rate
):
    w, g = weight_and_gradient
    made = computed(
        lambda w, g: npu_ops.LARSV2(w, g, 0.01, learning_rate or 1.0, **given), w=w, g=g
    )
    expected = scaled(
        w, g, 0.01, given.get("hyperpara", 0.001), given.get("epsilon", 1e-5), learning_rate
    )
    np.testing.assert_allclose(made, expected, rtol=1e-5)


def test_lars_of_lists_scales_each_for_itself(weight_and_gradient):
    w, g = weight_and_gradient
    made = computed(lambda w, g: npu_ops.LARS([w, 2 * w], [g, -g], 0.01), w=w, g=g)
    np.testing.assert_allclose(made[0], scaled(w, g, 0.01), rtol=1e-5)
    np.testing.assert_allclose(made[1], scaled(2 * w, -g, 0.01), rtol=1e-5)
    with pytest.raises(ValueError, match="got 1 weights and 2 gradients"):
        npu_ops.LARS([w], [g, g], 0.01)


def test_lars_keeps_float32_in_a_mode_that_lowers():
    """The squares of a large gradient do not fit into float16."""
    g = np.full([64, 64], 300.0, np.float32)
    config = npu_precision.npu_config_proto(precision_mode="force_fp16")
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        w = tf1.placeholder(tf.float32, [64, 64])
        product = tf.matmul(w, tf.eye(64))
        made = session.run(npu_ops.LARSV2(w, product, 0.0, 1.0), {w: g})
    np.testing.assert_allclose(made, scaled(g, g, 0.0), rtol=2e-3)


def test_a_sparse_gradient_is_refused():
    with tf.Graph().as_default():
        sparse = tf.IndexedSlices(tf.ones([1, 4]), tf.constant([0]))
        with pytest.raises(ValueError, match="input_grad: got .*, expected a dense tensor"):
            npu_ops.LARSV2(tf.ones([6, 4]), sparse, 0.01, 0.1)


def test_an_image_is_warped_by_a_flow():
    image = np.random.default_rng(0).normal(size=[1, 5, 4, 2]).astype(np.float32)
    flow = np.zeros([1, 5, 4, 2], np.float32)
    flow[0, 2, 1] = [1.0, -1.0]  # From a pixel.
    flow[0, 3, 2] = [0.25, 0.5]  # From between four.
    flow[0, 0, 0] = [9.0, 9.0]  # From beyond a corner.
    made = computed(npu_cpu_ops.dense_image_warp, image=image, flow=flow)
    expected = image.copy()
    expected[0, 2, 1] = image[0, 1, 2]
    around = 0.5 * (image[0, 2:4, 1] + image[0, 2:4, 2])
    expected[0, 3, 2] = 0.25 * around[0] + 0.75 * around[1]
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_what_steers_an_npu_changes_nothing_and_is_named_once(caplog, monkeypatch):
    monkeypatch.setattr(_no_effect, "_named", set())
    with caplog.at_level(logging.WARNING, "npu_precision"), tf.Graph().as_default():
        for _ in range(2):
            with npu_scope.without_npu_compile_scope(), npu_scope.npu_weight_prefetch_scope(
                1
            ), npu_scope.npu_scope(0):
                constant = tf.constant(1.0)
            npu_plugin.npu_resource_init()
            npu_plugin.set_device_sat_mode(1)
            npu_plugin.npu_close()
            assert util.set_graph_exec_config(constant, dynamic_input=True) is constant
            npu_hook.SetIterationsVarHook(10)
    assert not [name for name in constant.op.node_def.attr if name.startswith("_")]
    assert [record.getMessage() for record in caplog.records] == [
        "without_npu_compile_scope has no effect on stock TensorFlow",
        "npu_weight_prefetch_scope has no effect on stock TensorFlow",
        "npu_scope has no effect on stock TensorFlow",
        "npu_plugin.npu_resource_init has no effect on stock TensorFlow",
        "npu_plugin.set_device_sat_mode has no effect on stock TensorFlow",
        "util.set_graph_exec_config: dynamic_input has no effect on stock TensorFlow",
        "SetIterationsVarHook has no effect on stock TensorFlow",
    ]
    with pytest.raises(ValueError, match="mode: got 2 .int., expected 0 or 1"):
        npu_plugin.set_device_sat_mode(2)

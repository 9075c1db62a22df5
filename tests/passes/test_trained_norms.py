"""trained_norms: a batch norm in training, written as single ops, becomes the fused op."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.devices import decided_for
from support.norm_graphs import (
    FETCHES,
    FUSED,
    SHAPE,
    assert_exact,
    fetches_of,
    graph_of,
    moments,
    ran,
    values_of,
)
from support.tf_versions import (
    need_kernels,
    needs_gpu_kernels,
    needs_gradients_of_means_by_shape,
)

import npu_precision

tf1 = tf.compat.v1
pytestmark = needs_gradients_of_means_by_shape
MODES = {"allow_mix_precision_bf16": "bfloat16", "allow_mix_precision_fp16": "float16"}


def keras3(x, gamma, beta, axes=(0, 1, 2), epsilon=1e-3):
    """As Keras 3 computes it; and its mean and variance."""
    mean, variance = (tf.squeeze(each, axes) for each in moments(x, axes))
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon), mean, variance


def through_mean(x, gamma, beta):
    """The gradient goes through the mean in the variance, too."""
    mean = tf.reduce_mean(x, [0, 1, 2], keepdims=True)
    squares = tf1.squared_difference(x, mean)
    variance = tf.reduce_mean(squares, [0, 1, 2], keepdims=True)
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in (mean, variance))
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3), mean, variance


def by_hand(x, gamma, beta):
    mean = tf.reduce_mean(x, [0, 1, 2], keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), [0, 1, 2], keepdims=True)
    return (x - mean) * tf1.rsqrt(variance + 1e-3) * gamma + beta, mean, variance


def moments_by_squares(x, gamma, beta):
    """The variance as the mean of squares less the square of the mean."""
    mean = tf.reduce_mean(x, [0, 1, 2])
    variance = tf.reduce_mean(tf.square(x), [0, 1, 2]) - tf.square(mean)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3), mean, variance


def divided_by_root(x, gamma, beta):
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    return (x - mean) / tf.sqrt(variance + 1e-3) * gamma + beta, mean, variance


def rewritten(graph, mode="allow_mix_precision_bf16", fetches=None, **options):
    fetches = fetches or fetches_of(graph)
    options = {"rewrites": "none,fold_constants,trained_norms", **options}
    low, ledger = npu_precision.rewrite_graph_def(graph, fetches, precision_mode=mode, **options)
    after = [entry.after for entry in ledger.rewrites if entry.by == "trained_norms"]
    return low, sorted(after)


def whys(graph, fetches=None, **options):
    """Why norms stay single ops, by the types of their roots."""
    options = {"rewrites": "none,trained_norms", **options}
    _, ledger = npu_precision.rewrite_graph_def(
        graph,
        fetches or fetches_of(graph),
        precision_mode="allow_mix_precision_bf16",
        **options,
    )
    ops = {node.name: node.op for node in graph.node}
    assert {entry.by for entry in ledger.missed} <= {"trained_norms"}
    return [(ops[entry.node], entry.why) for entry in ledger.missed]


def with_vectors_of_rank_4(x, gamma, beta):
    """As Keras 3 computes it if an axis is given."""
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    flat = [tf.reshape(each, [1, 1, 1, -1]) for each in (mean, variance, beta, gamma)]
    return tf.nn.batch_normalization(x, *flat, 1e-3), mean, variance


def without_gamma(x, gamma, beta):
    return keras3(x, None, beta)


def without_beta(x, gamma, beta):
    return keras3(x, gamma, None)


def without_both(x, gamma, beta):
    return keras3(x, None, None)


def with_reordered_factors(x, gamma, beta):
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    return beta + gamma * ((x - mean) / tf.sqrt(1e-3 + variance)), mean, variance


def with_axes_from_the_last(x, gamma, beta):
    return keras3(x, gamma, beta, (-4, -3, -2))


def with_scale_of_one_more(x, gamma, beta):
    """As in models whose scales begin at zero."""
    return keras3(x, 1.0 + gamma, beta)


NORMS = [
    keras3,
    with_vectors_of_rank_4,
    without_gamma,
    without_beta,
    without_both,
    through_mean,
    by_hand,
    moments_by_squares,
    divided_by_root,
    with_reordered_factors,
    with_axes_from_the_last,
    with_scale_of_one_more,
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("unknown", [False, True], ids=["batch of 3", "any batch"])
def test_values_and_gradients_are_those_of_float64(norm, unknown, mode, tmp_path):
    """Without a product nothing is lowered, so the fused ops run in float32."""
    need_kernels(MODES[mode], *FUSED)
    graph = graph_of(norm, unknown=unknown)
    found = ran(graph, tmp_path, mode=mode)
    assert sorted(entry.after for entry in found.rewrites) == FUSED
    assert not {"SquaredDifference", "RsqrtGrad"} & set(found.ops().values())
    assert unknown or "Sum" not in found.ops().values()
    assert_exact(graph, norm, found.values, unknown)


@pytest.mark.parametrize("mode", MODES)
def test_between_convolutions_the_fused_ops_are_lowered(mode, tmp_path):
    need_kernels(MODES[mode], "Conv2D", *FUSED)
    shape = [*SHAPE[:3], 16]
    graph = graph_of(keras3, shape=shape, layer=True)
    found = ran(graph, tmp_path, shape, mode)
    assert sorted(entry.after for entry in found.rewrites) == FUSED
    types = [
        node.attr["T"].type
        for node in found.nodes.values()
        if node.op.replace("_MklNative", "").replace("_Mkl", "") in FUSED
    ]
    assert types == 2 * [tf.as_dtype(MODES[mode])]
    for want, got in zip(values_of(graph, shape=shape), found.values):
        np.testing.assert_allclose(got, want, rtol=0, atol=0.03 * np.abs(want).max())


def test_a_norm_without_a_gradient_is_fused():
    need_kernels("bfloat16", *FUSED)
    whole = graph_of(keras3)
    graph = tf1.graph_util.extract_sub_graph(whole, ["y", "of_mean", "of_variance"])
    low, after = rewritten(graph)
    assert after == ["FusedBatchNormV3"]
    for want, got in zip(values_of(graph), values_of(low)):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_powers_are_read_where_no_other_optimizer_has_replaced_them():
    need_kernels("bfloat16", *FUSED)

    def of_powers(x, gamma, beta):
        mean = tf.reduce_mean(x, [0, 1, 2])
        variance = tf.reduce_mean((x - mean) ** 2, [0, 1, 2])
        return (x - mean) * tf1.rsqrt(variance + 1e-3) * gamma + beta, mean, variance

    graph = graph_of(of_powers)
    assert "Pow" in {node.op for node in graph.node}
    low, after = rewritten(tf1.graph_util.extract_sub_graph(graph, ["y", "of_variance"]))
    assert after == ["FusedBatchNormV3"]
    for want, got in zip(values_of(graph)[:1], values_of(low)):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_the_factor_of_the_gradient_that_waits_for_another_part_goes_too():
    """TensorFlow makes the 2 of 2 * (x - m) after what the gradient was so far."""
    need_kernels("bfloat16", *FUSED)
    whole = graph_of(keras3)
    graph = tf1.graph_util.extract_sub_graph(whole, fetches_of(whole))
    (two,) = (n for n in graph.node if n.name.endswith("SquaredDifference_grad/scalar"))
    assert [name[0] for name in two.input] == ["^"]
    low, after = rewritten(graph)
    assert after == FUSED
    assert two.name not in {node.name for node in low.node}


def in_a_variable(graph):
    """As TensorFlow's memory optimizer writes the sum of a gradient's three terms."""
    changed = tf1.GraphDef()
    changed.CopyFrom(graph)
    (total,) = (node for node in changed.node if node.op == "AddN" and len(node.input) == 3)
    terms, name = list(total.input), total.name
    with tf.Graph().as_default() as built:
        like = tf1.placeholder(tf.float32, SHAPE, name="like")
        variable = tf.raw_ops.TemporaryVariable(
            shape=SHAPE, dtype=tf.float32, var_name=name, name="variable"
        )
        begin = tf.raw_ops.Assign(
            ref=variable, value=tf.zeros_like(like, name="zeros"), name="begin"
        )
        added = [
            tf.raw_ops.AssignAdd(ref=begin, value=like, name=f"part_{k}") for k in range(len(terms))
        ]
        with tf.control_dependencies(added):
            tf.raw_ops.DestroyTemporaryVariable(ref=begin, var_name=name, name="total")
    changed.node.remove(total)
    for node in built.as_graph_def().node:
        if node.name == "like":
            continue
        for place, of in enumerate(node.input):
            if of == "like":
                node.input[place] = terms[int(node.name[-1]) if node.op == "AssignAdd" else 0]
        if node.name == "total":
            node.name = name
        changed.node.add().CopyFrom(node)
    return changed


def with_sums_that_drop_axes(graph):
    """As older versions of TensorFlow write the sums of a gradient: a Reshape follows each."""
    changed = tf1.GraphDef()
    changed.CopyFrom(graph)
    reshaped = {node.input[0] for node in changed.node if node.op == "Reshape"}
    sums = [node for node in changed.node if node.op == "Sum" and node.name in reshaped]
    assert sums
    for node in sums:
        node.attr["keep_dims"].b = False
    return changed


@pytest.mark.parametrize("written", [in_a_variable, with_sums_that_drop_axes])
def test_a_gradient_that_is_written_in_another_way_is_fused(written):
    need_kernels("bfloat16", *FUSED)
    low, after = rewritten(written(graph_of(keras3)))
    assert after == FUSED
    assert not {"TemporaryVariable", "Assign", "AssignAdd"} & {node.op for node in low.node}
    assert_exact(low, keras3, values_of(low))


@pytest.mark.parametrize("unknown", [False, True], ids=["a batch", "any batch"])
@pytest.mark.parametrize(("shape", "after"), [([2, 2, 2, 4], FUSED), ([1, 1, 1, 4], [])])
def test_the_variance_of_few_places_is_biased(unknown, shape, after, tmp_path):
    """The fused op divides by n - 1. A gradient without sums has another form."""
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(keras3, shape=shape, unknown=unknown)
    found = ran(graph, tmp_path, shape)
    assert sorted(entry.after for entry in found.rewrites) == after
    assert_exact(graph, keras3, found.values, unknown, shape)


def terms(x, gamma, beta):
    """x * s and beta - m * s; and the mean and the variance."""
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    scale = tf1.rsqrt(variance + 1e-3) * gamma
    return x * scale, beta - mean * scale, mean, variance


def residual(x, gamma, beta):
    """TensorFlow's arithmetic optimizer writes (x * s + t) + u as (x * s + u) + t."""
    scaled, shift, mean, variance = terms(x, gamma, beta)
    return (scaled + tf.sigmoid(tf.stop_gradient(x))) + shift, mean, variance


def beside(x, gamma, beta):
    """Something else reads x, too, as in a DenseNet: its gradient is one of four terms."""
    y, mean, variance = keras3(x, gamma, beta)
    return y + tf.sigmoid(x), mean, variance


def shortcut(x, gamma, beta):
    """And the sum of two norms as (x * s + u * r) + (t + v)."""
    scaled, shift, mean, variance = terms(x, gamma, beta)
    other, of_other, _, _ = terms(tf.square(x), beta, gamma)
    return (scaled + other) + (shift + of_other), mean, variance


def twice(x, gamma, beta):
    """Two norms of one tensor, whose gradients are six terms of one sum."""
    y, mean, variance = keras3(x, gamma, beta)
    return y * tf.sigmoid(keras3(x, beta, gamma, epsilon=0.1)[0]), mean, variance


@pytest.mark.parametrize("unknown", [False, True], ids=["batch of 3", "any batch"])
def test_of_two_norms_of_one_tensor_one_is_fused(unknown, tmp_path):
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(twice, unknown=unknown)
    found = ran(graph, tmp_path)
    assert sorted(entry.after for entry in found.rewrites) == FUSED
    assert_exact(graph, twice, found.values, unknown)


def test_of_the_norm_that_stays_beside_another_one_the_ledger_says_why():
    need_kernels("bfloat16", *FUSED)
    assert whys(graph_of(twice)) == [("Rsqrt", "another norm of the same tensor is fused")]


@pytest.mark.parametrize(("norm", "count"), [(residual, 1), (beside, 1), (shortcut, 2)])
def test_a_norm_whose_terms_were_added_to_others_is_fused(norm, count, tmp_path):
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(norm)
    found = ran(graph, tmp_path)
    assert sorted(entry.after for entry in found.rewrites) == sorted(count * FUSED)
    assert_exact(graph, norm, found.values)


def second(x, y, gradient):
    tf.identity(tf.gradients(tf.reduce_sum(tf.square(gradient)), x)[0], "second")


def test_a_scale_that_comes_from_the_mean_is_not_taken_in():
    """The fused op would need what it yields."""
    need_kernels("bfloat16", *FUSED)

    def of_its_mean(x, gamma, beta):
        mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
        return (x - mean) * tf1.rsqrt(variance + 1e-3) * tf.exp(mean) + beta, mean, variance

    graph = tf1.graph_util.extract_sub_graph(graph_of(of_its_mean), ["y"])
    assert rewritten(graph)[1] == []
    assert whys(graph) == [("Rsqrt", "gamma or beta comes from its mean or variance")]


def test_a_second_derivative_reads_the_same_values():
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(keras3, more=second)
    low, after = rewritten(graph)
    assert after == FUSED
    exact = values_of(graph_of(keras3, tf.float64, more=second), np.float64)
    assert len(exact) == len(FETCHES)
    for want, got in zip(exact, values_of(low)):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def constant_variance(x, gamma, beta):
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    constant = tf.stop_gradient(variance)
    return tf.nn.batch_normalization(x, mean, constant, beta, gamma, 1e-3), mean, variance


def mean_of_deviations(x, gamma, beta):
    mean = tf.reduce_mean(x, [0, 1, 2])
    deviation = tf.reduce_mean(tf.square(tf.abs(x - mean)) * 2.0, [0, 1, 2])
    return tf.nn.batch_normalization(x, mean, deviation, beta, gamma, 1e-3), mean, deviation


def of_one_scale_for_each_image(x, gamma, beta):
    mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
    scale = tf.reduce_max(x, [1, 2, 3], keepdims=True)
    return (x * scale - mean) * tf1.rsqrt(variance + 1e-3) * gamma + beta, mean, variance


@pytest.mark.parametrize(
    ("norm", "why"),
    {
        "no gradient of the variance": (constant_variance, "its gradient has another form"),
        "deviation": (mean_of_deviations, "its root is not that of the variance of x"),
        "no epsilon": (
            lambda x, gamma, beta: keras3(x, gamma, beta, epsilon=0.0),
            "its root is not that of the variance of x, plus an epsilon above 0",
        ),
        "no number for each channel": (of_one_scale_for_each_image, "its result is not gamma * (x"),
        "channels first": (
            lambda x, gamma, beta: keras3(x, gamma[:, None, None], None, (0, 2, 3)),
            "its mean is not that of all axes but the last of a float32 tensor",
        ),
        # The vectors of other axes count as if they were of the channels.
        "other axes": (
            lambda x, gamma, beta: keras3(x, gamma, beta, (0, 2, 3)),
            "its mean is not that of all axes but the last of a float32 tensor",
        ),
    }.values(),
    ids=lambda value: value[4:16] if isinstance(value, str) else "",
)
def test_other_forms_stay_as_they_are_and_the_ledger_says_why(norm, why):
    need_kernels("bfloat16", *FUSED)
    shape = [3, 4, 4, 4]
    graph = graph_of(norm, shape=shape)
    low, after = rewritten(graph)
    assert after == []
    ((root, found),) = whys(graph)
    assert root == "Rsqrt"
    assert found.startswith(why)
    for want, got in zip(values_of(graph, shape=shape), values_of(low, shape=shape)):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max() + 1e-6)


def test_nodes_that_a_file_names_or_the_caller_fetches_stay():
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(keras3)
    ends = [node.name for node in graph.node if node.name.endswith("batchnorm/add_1")]
    assert len(ends) == 1
    fetches = [*fetches_of(graph), *ends]
    assert rewritten(graph, fetches=fetches)[1] == []
    assert whys(graph, fetches) == [("Rsqrt", f"{ends[0]} is fetched")]
    edits = json.dumps({"black-list": {"to-add": [f"node:{ends[0]}"]}})
    assert rewritten(graph, mixlist_edits=edits)[1] == []
    kept = f"{ends[0]} keeps its op or dtype"
    assert whys(graph, mixlist_edits=edits) == [("Rsqrt", kept)]


def test_a_node_that_another_one_is_colocated_with_stays():
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(keras3)
    (squares,) = (node.name for node in graph.node if node.op == "SquaredDifference")
    (mean,) = (node for node in graph.node if node.name == "of_mean")
    mean.attr["_class"].list.s.append(f"loc:@{squares}".encode())
    low, after = rewritten(graph)
    assert after == FUSED
    assert squares in {node.name for node in low.node}
    assert_exact(low, keras3, values_of(low))


def test_a_second_application_changes_nothing():
    need_kernels("bfloat16", *FUSED)
    low, _ = rewritten(graph_of(keras3, layer=True))
    again, after = rewritten(low)
    assert after == []
    assert again == low


def test_a_sum_in_place_of_a_difference_is_no_norm():
    need_kernels("bfloat16", *FUSED)

    def added(x, gamma, beta):
        mean, variance = (tf.squeeze(each, [0, 1, 2]) for each in moments(x, [0, 1, 2]))
        scale = tf1.rsqrt(variance + 1e-3) * gamma
        return x * scale + (beta - -mean * scale), mean, variance

    fetches = ["y", "of_mean", "of_variance"]
    assert rewritten(graph_of(added), fetches=fetches)[1] == []
    expected = "its result is not gamma * (x - mean) * root + beta"
    assert whys(graph_of(added), fetches) == [("Rsqrt", expected)]


@pytest.mark.parametrize(
    "other",
    [
        lambda x: tf.nn.batch_normalization(x, *moments(x, [-1]), None, None, 1e-3),
        lambda x: x * tf1.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6),
        lambda x: x * tf1.rsqrt(tf.reduce_mean(tf.square(x)) + 1e-6),
        lambda x: tf.nn.conv2d(x, standardized([1, 1, 4, 4]), 1, "SAME"),
    ],
    ids=["layer norm", "RMS norm", "norm of all", "standardized weights"],
)
def test_what_is_no_batch_norm_is_not_told_of(other):
    with tf.Graph().as_default() as graph:
        tf.identity(other(tf1.placeholder(tf.float32, [3, 4, 4, 4])), "y")
    assert any(node.op == "Rsqrt" for node in graph.as_graph_def().node)
    assert whys(graph.as_graph_def(), ["y"]) == []


def standardized(shape):
    weights = tf1.get_variable("weights", shape, use_resource=True)
    mean = tf.reduce_mean(weights, [0, 1, 2], keepdims=True)
    variance = tf.reduce_mean(tf1.squared_difference(weights, mean), [0, 1, 2], keepdims=True)
    return (weights - mean) * tf1.rsqrt(variance + 1e-3)


def test_a_gradient_of_another_factor_is_another_form():
    """The gradient of the square is 6 (x - m) in place of 2 (x - m)."""
    need_kernels("bfloat16", *FUSED)
    graph = graph_of(keras3)
    changed = tf1.GraphDef()
    changed.CopyFrom(graph)
    (two,) = (n for n in changed.node if n.name.endswith("SquaredDifference_grad/scalar"))
    two.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(6.0))
    assert rewritten(graph)[1] == FUSED
    assert rewritten(changed)[1] == []


@needs_gpu_kernels
@pytest.mark.parametrize(("mode", "low"), sorted(MODES.items()))
def test_on_a_gpu_it_is_written_so_too(mode, low):
    graph = graph_of(keras3, layer=True)
    with decided_for(["CPU:0", "GPU:0"]):
        on_gpu, after = rewritten(graph, mode)
    assert after == FUSED
    assert {tf.as_dtype(node.attr["T"].type).name for node in on_gpu.node if node.op in FUSED} == {
        low
    }
    expected = values_of(graph)
    for name, got, exact in zip(fetches_of(graph), values_of(on_gpu), expected):
        np.testing.assert_allclose(
            got, exact, rtol=0, atol=0.05 * np.abs(exact).max(), err_msg=name
        )

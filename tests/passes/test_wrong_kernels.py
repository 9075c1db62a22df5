"""Ops whose kernel in the low type is registered, and gives wrong values, stay in float32."""

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import run
from support.tf_versions import needs_onednn_in_bfloat16

import npu_precision

WHITE = ["MaxPool", "MaxPoolGrad", "MaxPool3D", "MaxPool3DGrad"]


def pooled(window, strides):
    """A graph with the gradient of a max pool behind a product, as the node "end"."""
    dims = len(window)
    size = [2, *(edge + 3 if edge > 1 else 1 for edge in window), 4]
    values = np.random.default_rng(0).normal(size=size).astype("f")
    with tf.Graph().as_default() as graph:
        x = tf.constant(values)
        product = tf.reshape(tf.matmul(tf.reshape(x, [-1, 4]), tf.eye(4)), size)
        pool = tf.nn.max_pool2d if dims == 2 else tf.nn.max_pool3d
        y = pool(product, window, strides, "VALID")
        tf.identity(tf.gradients(tf.matmul(tf.reshape(y, [-1, 4]), tf.ones([4, 1])), x)[0], "end")
    return graph.as_graph_def()


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    ("window", "strides"),
    [
        ([1, 255], 1),
        ([1, 256], 1),
        ([1, 300], 1),
        ([300, 1], 300),
        ([16, 16], 1),
        ([15, 17], 2),
        ([6, 6, 7], 1),
        ([7, 7, 6], 1),
    ],
    ids=str,
)
def test_a_max_pool_over_256_places_stays_float32_in_bfloat16(window, strides):
    graph = pooled(window, strides)
    low, ledger = npu_precision.rewrite_graph_def(
        graph,
        "end",
        precision_mode="allow_mix_precision_bf16",
        modify_mixlist={"white-list": {"to-add": WHITE}},
    )
    pools = [(node.decision, node.reason) for node in ledger.nodes if node.op in WHITE]
    is_right = np.prod(window) < 256
    assert pools == [("lowered", "white_list") if is_right else ("kept", "no_kernel")] * 2
    # Rounding may make two maxima one: then the gradient goes to the first.
    (want,), (got,) = run(graph, ["end"]), run(low, ["end"])
    assert np.mean(np.abs(got - want) > 0.01) < 0.02
    np.testing.assert_allclose(got.sum(), want.sum(), rtol=1e-2)


def test_in_float16_such_a_pool_is_right_and_lowered():
    graph = pooled([1, 300], 1)
    low, ledger = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="allow_mix_precision_fp16"
    )
    assert {node.decision for node in ledger.nodes if "MaxPool" in node.op} == {"lowered"}
    (want,), (got,) = run(graph, ["end"]), run(low, ["end"])
    assert np.mean(np.abs(got - want) > 0.01) < 0.02


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("size", [(14, 14), (15, 2), (2, 15), (1, 15), (15, 15), (3, 31)], ids=str)
def test_a_depthwise_convolution_with_a_wide_filter_stays(size):
    """With oneDNN in TensorFlow 2.19, it never returns in bfloat16."""
    values = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x = tf.constant(values.random([2, 40, 40, 8], "f"))
        filters = tf.constant(values.random([*size, 8, 1], "f"))
        y = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME", name="conv")
        tf.identity(y, "end")
    low, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16", rewrites="none"
    )
    (conv,) = (node for node in ledger.nodes if node.op == "DepthwiseConv2dNative")
    expected = ("kept", "no_kernel") if size[1] > 14 else ("lowered", "white_list")
    assert (conv.decision, conv.reason) == expected
    (want,), (got,) = run(graph.as_graph_def(), ["end"]), run(low, ["end"])
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-2)


@needs_onednn_in_bfloat16
def test_one_filter_does_not_decide_for_another():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 40, 40, 8], "x")
        for width in (3, 15):
            filters = tf.ones([3, width, 8, 1])
            tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME", name=f"conv{width}")
    _, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(),
        ["conv3", "conv15"],
        precision_mode="allow_mix_precision_bf16",
        rewrites="none",
    )
    decided = {n.name: n.decision for n in ledger.nodes if n.op == "DepthwiseConv2dNative"}
    assert decided == {"conv3": "lowered", "conv15": "kept"}

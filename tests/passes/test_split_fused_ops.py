"""split_fused_ops: an entry by hand, which runs after the remapper, does as those of the helpers.

The remapper fuses in float32 before such an entry. Split, the ops are folded, lowered and fused
anew as if it had not.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
from support.sessions_by_hand import by_hand
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_kernels, needs_onednn_in_bfloat16
from tensorflow.core.protobuf import rewriter_config_pb2

import npu_precision

pytestmark = [
    needs_onednn_in_bfloat16,
    needs_kernels("bfloat16", "_FusedMatMul"),
    pytest.mark.cpu("ops are split on CPUs alone"),
]
tf1 = tf.compat.v1
BF16 = "allow_mix_precision_bf16"
IMAGE = f"""
    x = Placeholder(shape=2x8x8x3)
    f = Const(shape=3x3x3x16)
    d = Const(shape=3x3x16x1)
    b = Const(shape=16)
    s = Const(value={4 * [1.0, 0.5, 1.5, 2.0]})
    conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
    """
NETWORKS = {
    "a convolution, its bias and activation": "bias = BiasAdd(conv, b)\n end = Relu(bias)",
    "a convolution and its batch norm": (
        "norm = FusedBatchNormV3(conv, s, b, b, s, is_training=False)\n end = Relu6(norm)"
    ),
    "a depthwise convolution": (
        "relu = Relu(conv)\n"
        "depth = DepthwiseConv2dNative(relu, d, strides=[1, 1, 1, 1], padding=SAME)\n"
        "norm = FusedBatchNormV3(depth, s, b, b, s, is_training=False)\n end = Relu(norm)"
    ),
    "a residual sum": (
        "bias = BiasAdd(conv, b)\n first = Relu(bias)\n"
        "g = Const(shape=3x3x16x16)\n"
        "next = Conv2D(first, g, strides=[1, 1, 1, 1], padding=SAME)\n"
        "offset = BiasAdd(next, b)\n sum = AddV2(offset, first)\n end = Relu(sum)"
    ),
    "a product": (
        "shape = Const[int32](value=[24, 16])\n w = Const(shape=16x16)\n y = Reshape(x, shape)\n"
        "product = MatMul(y, w)\n offset = BiasAdd(product, b)\n end = Relu(offset)"
    ),
}


def run(text, config, executed_nodes, shape=(2, 8, 8, 3)):
    """The value of "end", and the number of executed nodes by op."""
    feeds = {"x:0": random_values("x", shape)}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(read_graph(text), name="")
        with tf1.Session(graph=graph, config=config) as session:
            nodes = executed_nodes(session, "end:0", feeds)
            value = session.run("end:0", feeds)
    ops = collections.Counter(
        (node.op.replace("_MklNative", "").lstrip("_"), tuple(node.attr["fused_ops"].list.s))
        for node in nodes.values()
    )
    return value, ops


@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_nodes_run_as_with_the_helper(network, executed_nodes):
    options = npu_precision.PrecisionOptions(precision_mode=BF16, strict=True)
    text = IMAGE + NETWORKS[network]
    value, ops = run(text, by_hand(options), executed_nodes)
    expected, expected_ops = run(
        text, npu_precision.npu_config_proto(None, options), executed_nodes
    )
    assert ops == expected_ops
    np.testing.assert_array_equal(value, expected)


def test_batch_norms_without_an_activation_are_folded_too(executed_nodes):
    """The remapper writes them as a Mul and an Add of constants that are computed."""
    text = f"""
        x = Placeholder(shape=?x?x?x16)
        f = Const(shape=1x1x16x64)
        g = Const(shape=1x1x64x64)
        b = Const(shape=64)
        c = Const(shape=64)
        v = Const(value={16 * [1.0, 0.5, 1.5, 2.0]})
        first = Conv2D(x, f, strides=[1, 1, 1, 1], padding=VALID)
        relu = Relu(first)
        next = Conv2D(relu, g, strides=[1, 1, 1, 1], padding=VALID)
        bias = BiasAdd(next, b)
        norm = FusedBatchNormV3(bias, v, b, c, v, is_training=False)
        sum = AddV2(relu, norm)
        end = Relu(sum)
        """
    options = npu_precision.PrecisionOptions(precision_mode=BF16, strict=True)
    value, ops = run(text, by_hand(options), executed_nodes, [2, 2, 2, 16])
    expected, expected_ops = run(
        text, npu_precision.npu_config_proto(None, options), executed_nodes, [2, 2, 2, 16]
    )
    assert ops == expected_ops
    assert ("FusedConv2D", (b"BiasAdd", b"Add", b"Relu")) in ops
    # Scales are computed by other ops, and weights rounded after that.
    np.testing.assert_allclose(value, expected, rtol=0, atol=1e-2 * np.abs(expected).max())


def test_a_graph_that_runs_elsewhere_stays_fused():
    graph = read_graph("""
        x = Placeholder(shape=4x3)
        w = Const(shape=3x5)
        b = Const(shape=5)
        end = _FusedMatMul(x, w, b, num_args=1, fused_ops=['BiasAdd', 'Relu'])
        """)
    rewritten, ledger = npu_precision.rewrite_graph_def(graph, ["end"], precision_mode=BF16)
    assert "_FusedMatMul" in {node.op for node in rewritten.node}
    assert not [each for each in ledger.rewrites if each.by == "split_fused_ops"]


def test_what_is_split_is_in_the_ledger(executed_nodes, ledgers, tmp_path):
    options = npu_precision.PrecisionOptions(precision_mode=BF16, report_dir=str(tmp_path))
    run(IMAGE + NETWORKS["a convolution and its batch norm"], by_hand(options), executed_nodes)
    (ledger,) = ledgers(tmp_path)
    (split,) = [each for each in ledger.rewrites if each.by == "split_fused_ops"]
    assert (split.node, split.before) == ("end", "_FusedConv2D")
    assert split.after == "Conv2D+FusedBatchNormV3+Relu6"
    assert "fold_batch_norms" in {each.by for each in ledger.rewrites}
    assert "the remapper fused nodes before NpuOptimizer ran" in "".join(ledger.warnings)


KEPT = {
    "kept by a mixlist": {"modify_mixlist": {"black-list": {"to-add": ["Conv2D", "Relu"]}}},
    "left whole": {"rewrites": "-split_fused_ops"},
}


@pytest.mark.parametrize("options", KEPT.values(), ids=KEPT)
def test_what_stays_float32_is_one_node_again(options, executed_nodes, tmp_path):
    options = npu_precision.PrecisionOptions(
        precision_mode=BF16, report_dir=str(tmp_path), **options
    )
    text = IMAGE + NETWORKS["a convolution, its bias and activation"]
    _, ops = run(text, by_hand(options), executed_nodes)
    assert ("FusedConv2D", (b"BiasAdd", b"Relu")) in ops


def test_with_one_iteration_of_grappler_the_result_is_right(executed_nodes):
    # Nothing fuses the parts then.
    options = npu_precision.PrecisionOptions(precision_mode=BF16, strict=True)
    one = rewriter_config_pb2.RewriterConfig.ONE
    text = IMAGE + NETWORKS["a residual sum"]
    value, _ = run(text, by_hand(options, meta_optimizer_iterations=one), executed_nodes)
    exact, _ = run(text, tf1.ConfigProto(), executed_nodes)
    np.testing.assert_allclose(value, exact, rtol=0, atol=2e-2 * np.abs(exact).max())

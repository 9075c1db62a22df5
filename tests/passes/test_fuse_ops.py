"""fuse_ops: a config with the remapper off, as for Ascend, is as fast as one with it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.sessions_by_hand import by_hand
from support.text_graph import random_values, read_graph
from support.tf_versions import needs_kernels, needs_onednn_in_bfloat16
from tensorflow.core.protobuf import rewriter_config_pb2

import npu_precision
from npu_precision.session import rewriter_config

pytestmark = [needs_onednn_in_bfloat16, needs_kernels("bfloat16", "_FusedMatMul")]
tf1 = tf.compat.v1
BF16 = "allow_mix_precision_bf16"
OFF = rewriter_config_pb2.RewriterConfig.OFF
NETWORK = """
    x = Placeholder(shape=8x16)
    w = Const(shape=16x16)
    b = Const(shape=16)
    product = MatMul(x, w)
    sum = BiasAdd(product, b)
    end = Relu(sum)
    """


def helper(options, **fields):
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.MergeFrom(rewriter_config_pb2.RewriterConfig(**fields))
    return npu_precision.npu_config_proto(config, options)


WAYS = {"npu_config_proto": helper, "an entry by hand": by_hand}


def run(config, executed_nodes):
    """The value of "end", and the executed ops with the ops fused into them."""
    feeds = {"x:0": random_values("x", [8, 16])}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(read_graph(NETWORK), name="")
        with tf1.Session(graph=graph, config=config) as session:
            nodes = executed_nodes(session, "end:0", feeds)
            value = session.run("end:0", feeds)
    return value, {
        (node.op.replace("_MklNative", "").lstrip("_"), tuple(node.attr["fused_ops"].list.s))
        for node in nodes.values()
    }


FUSED = ("FusedMatMul", (b"BiasAdd", b"Relu"))
SINGLE = {("BiasAdd", ()), ("Relu", ())}


@pytest.mark.parametrize("way", WAYS)
def test_ops_are_fused_where_the_config_has_the_remapper_off(way, executed_nodes):
    options = npu_precision.PrecisionOptions(precision_mode=BF16, strict=True)
    value, ops = run(WAYS[way](options, remapping=OFF), executed_nodes)
    expected, _ = run(helper(options), executed_nodes)
    assert FUSED in ops
    np.testing.assert_array_equal(value, expected)


SINGLE_OPS = {
    "rewrites": {"precision_mode": BF16, "rewrites": "-fuse_ops"},
    "a mode that lowers nothing": {"precision_mode": "must_keep_origin_dtype"},
    "force_fp32": {"precision_mode": "force_fp32"},
    "emulation": {"precision_mode": BF16, "emulate": True},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", SINGLE_OPS)
def test_off_stays_off(case, way, executed_nodes):
    options = npu_precision.PrecisionOptions(**SINGLE_OPS[case])
    _, ops = run(WAYS[way](options, remapping=OFF), executed_nodes)
    assert ops >= SINGLE


@pytest.mark.parametrize("rewrites", [None, "all", "fuse_ops", "none,+fuse_ops", " +fuse_ops"])
def test_a_diagnosis_sees_single_ops(rewrites, executed_nodes):
    config = helper(npu_precision.PrecisionOptions(precision_mode=BF16, rewrites=rewrites))
    rewriter_config.leave_out_remapper(config.graph_options.rewrite_options)
    _, ops = run(config, executed_nodes)
    assert ops >= SINGLE

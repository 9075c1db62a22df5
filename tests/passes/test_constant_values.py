"""Large constants, whose values the passes store separately: constants that stay do not change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import run
from support.text_graph import random_values, read_graph
from tensorflow.python.framework import tensor_util

import npu_precision

SHAPE = [64, 64]


def large_constant(graph_def, name):
    """Gives a Const a value of 16 KB, and all other fields of a node."""
    node = next(node for node in graph_def.node if node.name == name)
    proto = tensor_util.make_tensor_proto(random_values(name, SHAPE))
    node.attr["value"].tensor.CopyFrom(proto)
    assert node.attr["value"].tensor.tensor_content
    node.attr["_note"].s = b"kept"
    node.device = "/cpu:0"
    node.experimental_debug_info.original_node_names.append("before")
    node.input.append("^first")
    return node


def graph_with_large_constants():
    graph_def = read_graph(
        """
        first = NoOp()
        lowered = Const(shape=64x64)
        kept = Const(shape=64x64)
        both = Const(shape=64x64)
        x = Placeholder(shape=64x64)
        white = MatMul(x, lowered)
        black = Softmax(kept)
        white_too = MatMul(white, both)
        black_too = Softmax(both)
        sum = AddN(black, white_too, black_too)
        """
    )
    originals = [large_constant(graph_def, name) for name in ("lowered", "kept", "both")]
    graph_def.versions.min_consumer = 12
    return graph_def, {node.name: node for node in originals}


@pytest.mark.parametrize("fold_constants", [False, True])
@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "must_keep_origin_dtype"])
def test_what_is_still_read_in_float32_is_as_it_was(mode, fold_constants):
    before, originals = graph_with_large_constants()
    after, _ = npu_precision.rewrite_graph_def(
        before, "sum", precision_mode=mode, fold_constants=fold_constants
    )
    nodes = {node.name: node for node in after.node}
    assert nodes["kept"] == originals["kept"]
    assert nodes["both"] == originals["both"]
    gone = fold_constants and mode != "must_keep_origin_dtype"
    assert ("lowered" not in nodes) == gone
    assert gone or nodes["lowered"] == originals["lowered"]
    assert after.versions == before.versions
    assert after.HasField("library") == before.HasField("library")


def test_values_rounded_in_place_are_those_of_a_cast():
    before, _ = graph_with_large_constants()
    for node in before.node:
        if node.name == "both":
            special = random_values("both", SHAPE)
            special.flat[:8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.4e38, 1 + 2.0**-8]
            node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(special))
    after, _ = npu_precision.rewrite_graph_def(
        before, "sum", precision_mode="allow_mix_precision_bf16", fold_constants=True
    )
    folded = next(node for node in after.node if node.name == "both/npu_cast_0_bfloat16")
    stored = tensor_util.MakeNdarray(folded.attr["value"].tensor)
    with tf.Graph().as_default() as graph:
        tf.cast(tf.constant(special), tf.bfloat16, name="cast")
    (expected,) = run(graph.as_graph_def(), ["cast"])
    np.testing.assert_array_equal(stored.view(np.uint16), expected.view(np.uint16))

"""restore_float16: a later run decides about float16 nodes, not their form in float32."""

from __future__ import annotations

import dataclasses

import pytest
from google.protobuf import text_format
from support.check_ledger import IN_FLOAT32_MARK
from support.check_rewrite import assert_same_text, to_bytes
from support.text_graph import read_graph, write_graph
from support.tf_versions import need_kernels
from tensorflow.core.framework import graph_pb2

from npu_precision import PrecisionOptions, rewrite_graph_def

MIXED = PrecisionOptions(precision_mode="allow_mix_precision")
IN_FLOAT32 = dataclasses.replace(MIXED, float16_compute="float32")
GRAPH = """
    x = Placeholder(shape=4x4)
    w = Placeholder(shape=4x4)
    product = MatMul(x, w)
    hidden = Tanh(product)
    again = MatMul(hidden, w)
    end = Softmax(again)
    """


def in_float32(text=GRAPH):
    graph = read_graph(text)
    return graph, rewrite_graph_def(graph, "end", IN_FLOAT32)[0]


@pytest.mark.parametrize("compute", [None, "native"])
def test_a_run_that_computes_in_float16_gives_what_it_gives_of_the_original(compute):
    graph, result = in_float32()
    options = dataclasses.replace(MIXED, float16_compute=compute)
    expected, ledger = rewrite_graph_def(graph, "end", options)
    restored, ledger_of_it = rewrite_graph_def(result, "end", options)
    assert_same_text(write_graph(restored), write_graph(expected), "of the graph in float32")
    assert {node.name: node.decision for node in ledger_of_it.nodes} == {
        node.name: node.decision for node in ledger.nodes
    }


def test_a_run_of_native_nodes_can_be_followed_by_one_in_float32():
    graph, result = in_float32()
    native, _ = rewrite_graph_def(graph, "end", MIXED)
    again, ledger = rewrite_graph_def(native, "end", IN_FLOAT32)
    assert_same_text(write_graph(again), write_graph(result), "of the graph in float16")
    assert ledger.node("product").computes_in == "float32"


@pytest.mark.parametrize("mode", ["must_keep_origin_dtype", "force_fp32", "cube_fp16in_fp32out"])
def test_a_mode_that_lowers_nothing_leaves_it_in_float32(mode):
    _, result = in_float32()
    later, _ = rewrite_graph_def(result, "end", precision_mode=mode)
    assert all(node.attr["T"].type == 1 for node in later.node if node.op in ("MatMul", "Tanh")), (
        "DT_FLOAT is 1"
    )


def test_casts_connect_what_another_optimizer_changed():
    """For example, constant folding replaces a Cast that rounds by a float32 constant."""
    _, result = in_float32()
    for node in result.node:
        if node.name == "product":
            node.input[1] = "w"
    restored, _ = rewrite_graph_def(result, "end", MIXED)
    nodes = {node.name: node for node in restored.node}
    cast = nodes[nodes["product"].input[1]]
    assert (cast.op, list(cast.input)) == ("Cast", ["w"])


def test_a_rounding_cast_that_is_fetched_stays():
    _, result = in_float32()
    name = "hidden/npu_rounded_0_float16"
    fetches = ["end", name]
    restored, _ = rewrite_graph_def(result, fetches, MIXED)
    assert name in {node.name for node in restored.node}
    # Fetched nodes yield their dtype, and the next run changes nothing.
    again, _ = rewrite_graph_def(restored, fetches, MIXED)
    assert to_bytes(again) == to_bytes(restored)


def test_bfloat16_comes_back_as_bfloat16():
    """On a CPU whose kernels truncate, products of bfloat16 compute in float32."""
    options = {"precision_mode": "allow_mix_precision_bf16"}
    need_kernels("bfloat16", "MatMul", "Tanh")
    graph, result = in_float32()
    text = str(result).replace("DT_HALF", "DT_BFLOAT16").replace("float16", "bfloat16")
    result = text_format.Parse(text, graph_pb2.GraphDef())
    for node in result.node:
        if IN_FLOAT32_MARK in node.attr:
            node.attr[IN_FLOAT32_MARK].s += b"=bfloat16"
    expected, _ = rewrite_graph_def(graph, "end", **options)
    restored, ledger = rewrite_graph_def(result, "end", **options)
    assert_same_text(write_graph(restored), write_graph(expected), "of the graph in float32")
    assert ledger.node("product").computes_in == "bfloat16"

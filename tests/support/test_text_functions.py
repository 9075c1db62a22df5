"""Tests of the text form of functions, which other tests are written in."""

from __future__ import annotations

import pytest

from support.node_dtypes import output_dtypes
from support.text_functions import read_graph_with_functions, write_graph_with_functions
from support.text_graph import text_lines

TEXT = """
    x = Placeholder(shape=4x4)
    n = Const[int32](value=1)
    call = PartitionedCall(x, n, f=outer)
    end = Relu(call:1)
    def outer(x, n[int32]) -> (n, parts:1, x):
        axis = Const[int32](value=0)
        white = MatMul(x, x)
        parts = Split(axis, white, num_split=2)
        inner = PartitionedCall(parts:1, f=inner, ^parts)
    def inner(x) -> (power):
        power = Exp(x)
    """


def test_a_text_with_functions_comes_back_with_what_follows_from_it():
    graph = read_graph_with_functions(TEXT)
    assert text_lines(write_graph_with_functions(graph, graph)) == [
        "call = PartitionedCall[float32,int32,int32,float32,float32](x, n)",
        "end = Relu[float32](call:1)",
        "def outer(x, n[int32]) -> (n, parts:1, x):",
        "white = MatMul[float32](x, x)",
        "parts = Split[float32](axis, white)",
        "inner = PartitionedCall[float32,float32](parts:1, ^parts)",
        "def inner(x) -> (power):",
        "power = Exp[float32](x)",
    ]


def test_a_function_names_tensors_by_output_argument_and_a_result_has_its_dtype():
    graph = read_graph_with_functions(TEXT)
    outer, inner = graph.library.function
    assert dict(outer.ret) == {"result0": "n", "result1": "parts:output:1", "result2": "x"}
    assert list(outer.node_def[-1].input) == ["parts:output:1", "^parts"]
    assert [argument.type for argument in outer.signature.output_arg] == output_dtypes(
        graph.node[2]
    )
    assert dict(inner.ret) == {"result0": "power:y:0"}


def test_a_head_that_is_none_is_refused():
    with pytest.raises(AssertionError, match="not the head of a function: 'def f\\(x\\):'"):
        read_graph_with_functions("y = Const(value=1.0)\ndef f(x):")

"""keep_io_types=False: inputs and outputs get the low type if only a Cast is between."""

from __future__ import annotations

import numpy as np
from support.check_rewrite import TOLERANCE, assert_same_text
from support.text_graph import read_graph, write_graph

import npu_precision

MODE = "allow_mix_precision"


def check(text, expected, fetches, run_graph, feeds=("x",)):
    """Compares the text of the result with `expected`, and its values with the original's."""
    before = read_graph(text)
    after, ledger = npu_precision.rewrite_graph_def(
        before, fetches, precision_mode=MODE, keep_io_types=False, fold_constants=False, strict=True
    )
    assert_same_text(write_graph(after), expected, "the rewritten graph")
    values = {name: np.linspace(-1, 1, 4).reshape(2, 2) for name in feeds}
    dtypes = {node.name: node.attr["dtype"].type for node in after.node if "dtype" in node.attr}
    low = {name: np.float16 if dtypes[name] == 19 else np.float32 for name in feeds}
    names = [f"{name}:0" for name in fetches]
    want = run_graph(before, names, {f"{name}:0": value for name, value in values.items()})
    got = run_graph(after, names, {f"{n}:0": value.astype(low[n]) for n, value in values.items()})
    for one, other in zip(want, got):
        error = np.abs(other.astype(np.float64) - one)
        assert error.max() <= TOLERANCE["float16"] * np.abs(one).max()
    return {(row.by, row.node, row.before, row.after) for row in ledger.rewrites}


BOTH = {
    ("keep_io_types", "x", "float32", "float16"),
    ("keep_io_types", "y", "float32", "float16"),
}


def test_an_input_and_an_output_that_are_only_cast_get_the_low_type(run_graph):
    rewrites = check(
        """
        x = Placeholder(shape=2x2)
        y = MatMul(x, x)
        """,
        """
        x = Placeholder[float16]()
        y = MatMul[float16](x, x)
        """,
        ["y"],
        run_graph,
    )
    assert rewrites == BOTH


def test_an_input_that_is_read_in_float32_keeps_it(run_graph):
    rewrites = check(
        """
        x = Placeholder(shape=2x2)
        e = Exp(x)
        y = MatMul(x, x)
        """,
        """
        x = Placeholder[float32]()
        e = Exp[float32](x)
        y = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        """,
        ["e", "y"],
        run_graph,
    )
    assert rewrites == {("keep_io_types", "y", "float32", "float16")}


def test_an_input_whose_cast_has_a_control_input_keeps_float32(run_graph):
    """A consumer that bypassed the Cast would no longer run after `first`."""
    rewrites = check(
        """
        x = Placeholder(shape=2x2)
        z = Placeholder(shape=2x2)
        first = Exp(z)
        low = Cast[float32,float16](x, ^first)
        y = Relu(low)
        """,
        """
        x = Placeholder[float32]()
        z = Placeholder[float32]()
        first = Exp[float32](z)
        low = Cast[float32,float16](x, ^first)
        y = Relu[float16](low)
        """,
        ["y"],
        run_graph,
        ["x", "z"],
    )
    assert rewrites == set()


def test_an_output_that_was_not_lowered_keeps_float32(run_graph):
    rewrites = check(
        """
        x = Placeholder(shape=2x2)
        a = MatMul(x, x)
        y = Exp(a)
        """,
        """
        x = Placeholder[float16]()
        a = MatMul[float16](x, x)
        y = Exp[float32](a/npu_cast_0_float32)
        """,
        ["y"],
        run_graph,
    )
    assert rewrites == {("keep_io_types", "x", "float32", "float16")}


def test_an_output_that_another_node_reads_in_float32_keeps_a_cast_for_it(run_graph):
    rewrites = check(
        """
        x = Placeholder(shape=2x2)
        y = MatMul(x, x)
        e = Exp(y)
        """,
        """
        x = Placeholder[float16]()
        y = MatMul[float16](x, x)
        y/npu_changed = Cast[float16,float32](y)
        e = Exp[float32](y/npu_changed)
        """,
        ["y", "e"],
        run_graph,
    )
    assert rewrites == BOTH

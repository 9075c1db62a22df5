"""compute_in_float32: nodes of float16 compute in float32, on values rounded to float16."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given
from hypothesis import strategies as st
from support.check_rewrite import check_rewrite, to_bytes
from support.error_bounds import ErrorBounds
from support.loop_text import loop
from support.random_graphs import random_graph
from support.rewritten_graph import RewrittenGraph
from support.text_graph import read_graph
from support.tf_versions import ADDS_PRODUCTS_IN_FLOAT16, need_kernels, needs_kernels
from support.tiers import corpus_settings

from npu_precision import PrecisionOptions, rewrite_graph_def

check = functools.partial(check_rewrite, float16_compute="float32")
MIXED = PrecisionOptions(precision_mode="allow_mix_precision")
IN_FLOAT32 = dataclasses.replace(MIXED, float16_compute="float32")
tf1 = tf.compat.v1


def computes_in(result):
    return {node.name: node.computes_in for node in result.ledger.nodes if node.computes_in}


def test_a_chain_is_rounded_where_a_product_or_what_is_kept_reads_it():
    """A compiler that fuses bias and activation into the product also rounds only the end."""
    result = check(
        """
        x = Placeholder(shape=4x8)
        w = Placeholder(shape=8x4)
        b = Placeholder(shape=4)
        product = MatMul(x, w)
        biased = BiasAdd(product, b)
        hidden = Tanh(biased)
        again = MatMul(hidden, hidden)
        end = Softmax(again)
        """,
        """
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        w/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](w/npu_cast_0_float16)
        product = MatMul[float32](x/npu_cast_0_float16/npu_rounded_0_float32,
            w/npu_cast_0_float16/npu_rounded_0_float32)
        b/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](b/npu_cast_0_float16)
        biased = BiasAdd[float32](product, b/npu_cast_0_float16/npu_rounded_0_float32)
        hidden = Tanh[float32](biased)
        hidden/npu_rounded_0_float16 = Cast[float32,float16](hidden)
        hidden/npu_rounded_0_float32 = Cast[float16,float32](hidden/npu_rounded_0_float16)
        again = MatMul[float32](hidden/npu_rounded_0_float32, hidden/npu_rounded_0_float32)
        again/npu_rounded_0_float16 = Cast[float32,float16](again)
        again/npu_cast_0_float32 = Cast[float16,float32](again/npu_rounded_0_float16)
        end = Softmax[float32](again/npu_cast_0_float32)
        """,
    )
    assert computes_in(result) == dict.fromkeys(["product", "biased", "hidden", "again"], "float32")
    assert {node.decision for node in result.ledger.nodes if node.computes_in} == {"lowered"}


def test_all_readers_of_a_tensor_read_the_same_rounded_values():
    check(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        left = MatMul(product, product)
        right = Tanh(product)
        sum = AddV2(left, right)
        end = Softmax(sum)
        """,
        """
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        product = MatMul[float32](x/npu_cast_0_float16/npu_rounded_0_float32,
            x/npu_cast_0_float16/npu_rounded_0_float32)
        product/npu_rounded_0_float16 = Cast[float32,float16](product)
        product/npu_rounded_0_float32 = Cast[float16,float32](product/npu_rounded_0_float16)
        left = MatMul[float32](product/npu_rounded_0_float32, product/npu_rounded_0_float32)
        right = Tanh[float32](product/npu_rounded_0_float32)
        sum = AddV2[float32](left, right)
        sum/npu_rounded_0_float16 = Cast[float32,float16](sum)
        sum/npu_cast_0_float32 = Cast[float16,float32](sum/npu_rounded_0_float16)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )


@needs_kernels("float16", "MaxPool", "ConcatV2")
def test_what_selects_rounded_values_is_not_rounded_again():
    """The Cast to float32 is not needed either."""
    check(
        """
        x = Placeholder(shape=2x4x4x3)
        w = Placeholder(shape=1x1x3x4)
        axis = Const[int32](value=3)
        conv = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
        pool = MaxPool(conv, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
        both = ConcatV2(pool, pool, axis)
        end = Softmax(both)
        """,
        """
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        w/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](w/npu_cast_0_float16)
        conv = Conv2D[float32](x/npu_cast_0_float16/npu_rounded_0_float32,
            w/npu_cast_0_float16/npu_rounded_0_float32)
        conv/npu_rounded_0_float16 = Cast[float32,float16](conv)
        conv/npu_rounded_0_float32 = Cast[float16,float32](conv/npu_rounded_0_float16)
        pool = MaxPool(conv/npu_rounded_0_float32)
        both = ConcatV2[float32](pool, pool, axis)
        end = Softmax[float32](both/npu_cast_0_float32)
        """,
    )


def test_an_activation_of_unrounded_values_is_rounded():
    """Relu selects values, but here from the unrounded float32 result of the product."""
    result = check(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        hidden = Relu(product)
        end = Softmax(hidden)
        """,
        None,
    )
    nodes = {node.name: node for node in result.graph.node}
    assert list(nodes["hidden"].input) == ["product"]
    assert list(nodes["end"].input) == ["hidden/npu_cast_0_float32"]
    assert list(nodes["hidden/npu_cast_0_float32"].input) == ["hidden/npu_rounded_0_float16"]


def test_a_constant_that_nothing_else_reads_holds_rounded_values():
    result = check(
        """
        x = Placeholder(shape=4x8)
        w = Const(shape=8x4)
        product = MatMul(x, w)
        end = Softmax(product)
        """,
        """
        w = Const[float32]()
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        w/npu_cast_0_float16 = Cast[float32,float32](w)
        product = MatMul[float32](x/npu_cast_0_float16/npu_rounded_0_float32, w/npu_cast_0_float16)
        product/npu_rounded_0_float16 = Cast[float32,float16](product)
        product/npu_cast_0_float32 = Cast[float16,float32](product/npu_rounded_0_float16)
        end = Softmax[float32](product/npu_cast_0_float32)
        """,
    )
    values = constant(result.graph, "w")
    np.testing.assert_array_equal(values, values.astype(np.float16).astype(np.float32))


def constant(graph, name):
    (node,) = (node for node in graph.node if node.name == name)
    return tf.make_ndarray(node.attr["value"].tensor)


@pytest.mark.parametrize("reader", ["Softmax(w)", "Identity(w)"])
def test_a_constant_that_others_read_in_float32_stays(reader):
    graph = read_graph(
        f"""
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        product = MatMul(x, w)
        other = {reader}
        end = AddN(product, other)
        """
    )
    result = check(graph, None)
    np.testing.assert_array_equal(constant(result.graph, "w"), constant(graph, "w"))


def test_a_constant_that_is_fetched_stays():
    graph = read_graph(
        "x = Placeholder(shape=4x4)\nw = Const(shape=4x4)\np = MatMul(x, w)\nend = Softmax(p)"
    )
    result = check(graph, None, ["end", "w"])
    np.testing.assert_array_equal(constant(result.graph, "w"), constant(graph, "w"))


def test_a_fetched_product_is_rounded_under_its_name():
    check(
        "x = Placeholder(shape=4x4)\nend = MatMul(x, x)",
        """
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        end/npu_changed = MatMul[float32](x/npu_cast_0_float16/npu_rounded_0_float32,
            x/npu_cast_0_float16/npu_rounded_0_float32)
        end/npu_changed/npu_rounded_0_float16 = Cast[float32,float16](end/npu_changed)
        end = Cast[float16,float32](end/npu_changed/npu_rounded_0_float16)
        """,
    )


def test_a_loop_variable_is_rounded_where_it_is_stored():
    check(
        loop("start = MatMul(x, x)", "turn = Tanh(switch:1)"),
        """
        x/npu_cast_0_float16/npu_rounded_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        start = MatMul[float32](x/npu_cast_0_float16/npu_rounded_0_float32,
            x/npu_cast_0_float16/npu_rounded_0_float32)
        start/npu_rounded_0_float16 = Cast[float32,float16](start)
        start/npu_rounded_0_float32 = Cast[float16,float32](start/npu_rounded_0_float16)
        enter = Enter[float32](start/npu_rounded_0_float32)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = Tanh[float32](switch:1)
        turn/npu_rounded_0_float16 = Cast[float32,float16](turn)
        turn/npu_rounded_0_float32 = Cast[float16,float32](turn/npu_rounded_0_float16)
        next = NextIteration[float32](turn/npu_rounded_0_float32)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )


def test_float16_of_the_graph_itself_stays():
    check(
        """
        h = Placeholder[float16](shape=4x4)
        x = Placeholder(shape=4x4)
        own = Neg(h)
        wide = Cast[float16,float32](own)
        product = MatMul(wide, x)
        end = Softmax(product)
        """,
        None,
        run=False,
    )


def test_bfloat16_computes_in_bfloat16(run_graph):
    graph = read_graph("x = Placeholder(shape=4x4)\nend = MatMul(x, x)")
    need_kernels("bfloat16", "MatMul")
    options = {"precision_mode": "allow_mix_precision_bf16", "float16_compute": "auto"}
    _, ledger = rewrite_graph_def(graph, "end", **options)
    assert ledger.node("end").computes_in == "bfloat16"


@pytest.mark.parametrize("compute", [None, "auto", "native"])
def test_a_graph_that_is_converted_computes_in_float16(compute):
    """The device is unknown, unless the caller sets float16_compute."""
    graph = "x = Placeholder(shape=4x4)\np = MatMul(x, x) @ /device:CPU:0\nend = Softmax(p)"
    result = check_rewrite(graph, None, float16_compute=compute)
    assert computes_in(result) == {"p": "float16"}


TERMS = 16384
SUMS = {
    "a matrix product": f"""
        x = Placeholder(shape=1x{TERMS})
        w = Placeholder(shape={TERMS}x1)
        end = MatMul(x, w)
        """,
    "a reduction": f"""
        x = Placeholder(shape=1x{TERMS})
        axis = Const[int32](value=[1])
        end = Sum(x, axis)
        """,
    "a mean": f"""
        x = Placeholder(shape=1x{TERMS})
        axis = Const[int32](value=[1])
        end = Mean(x, axis)
        """,
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_many_terms_is_right(name, run_graph):
    graph = read_graph(SUMS[name])
    need_kernels("float16", graph.node[-1].op)
    edits = '{"white-list": {"to-add": ["MatMul", "Sum", "Mean"]}}'
    options = dataclasses.replace(IN_FLOAT32, mixlist_edits=edits)
    x = np.random.default_rng(0).uniform(0, 1, [1, TERMS]).astype(np.float32)
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    feeds = {"x:0": x}
    if name == "a matrix product":
        feeds["w:0"] = np.ones([TERMS, 1], np.float32)
    expected = run_graph(graph, "end:0", feeds, config)
    result, ledger = rewrite_graph_def(graph, "end", options)
    assert ledger.node("end").computes_in == "float32"
    got = run_graph(result, "end:0", feeds, config)
    np.testing.assert_allclose(got, expected, rtol=2.0**-10)
    native, _ = rewrite_graph_def(graph, "end", dataclasses.replace(options, float16_compute=None))
    if ADDS_PRODUCTS_IN_FLOAT16 and name == "a matrix product":
        assert run_graph(native, "end:0", feeds, config) < 0.7 * expected


def test_random_graphs_are_within_the_bounds_of_the_real_rewrite():
    compared = [0]

    @corpus_settings(300)
    @given(seed=st.integers(0, 2**31), size=st.integers(5, 80), loops=st.booleans())
    def check_one(seed, size, loops):
        graph = random_graph(seed, size, control_flow=loops)
        real, ledger = graph.rewrite(MIXED)
        result, ledger_of_it = graph.rewrite(IN_FLOAT32)
        decisions = [
            [dataclasses.replace(node, computes_in="") for part in each for node in part.nodes]
            for each in (ledger, ledger_of_it)
        ]
        assert decisions[0] == decisions[1]
        again, _ = graph.rewrite(IN_FLOAT32, result)
        assert to_bytes(again) == to_bytes(result)
        restored, _ = graph.rewrite(MIXED, result)
        assert operations(restored) == operations(real)
        values, got = graph.run(), graph.run(result)
        assume(all(fetch in got for fetch in graph.fetches))
        compared[0] += 1
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, real))
        assert not list(bounds.violations({name: got[name] for name in got}))

    check_one()
    assert compared[0] > 0


def operations(graph):
    """By node name: op and inputs, of the graph and its functions."""
    nodes = [(node.name, node.op, tuple(node.input)) for node in graph.node]
    for function in graph.library.function:
        nodes += [(n.name, n.op, tuple(n.input)) for n in function.node_def]
    return sorted(nodes)


@pytest.mark.parametrize(
    ("value", "suggestion"), [("flaot32", "'float32'"), ("naitve", "'native'"), ("fp32", "")]
)
def test_an_unknown_value_is_an_error_that_suggests_one(value, suggestion):
    text = "float16_compute: got .*, expected one of auto, native, float32"
    with pytest.raises(ValueError, match=text) as error:
        PrecisionOptions(precision_mode="allow_mix_precision", float16_compute=value)
    assert (f"did you mean {suggestion}?" in str(error.value)) == bool(suggestion)


@pytest.mark.parametrize("value", ["native", "float32"])
def test_with_emulate_it_is_an_error(value):
    with pytest.raises(ValueError, match=f"float16_compute: got '{value}' with emulate"):
        PrecisionOptions(precision_mode="allow_mix_precision", float16_compute=value, emulate=True)


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "force_fp32", "cube_fp16in_fp32out"])
def test_a_mode_that_lowers_nothing_to_float16_has_nothing_to_compute_so(mode):
    graph = read_graph("x = Placeholder(shape=4x4)\np = MatMul(x, x)\nend = Softmax(p)")
    need_kernels("bfloat16", "MatMul")
    expected, _ = rewrite_graph_def(graph, "end", precision_mode=mode)
    for value in ("auto", "native", "float32"):
        got, _ = rewrite_graph_def(graph, "end", precision_mode=mode, float16_compute=value)
        assert to_bytes(got) == to_bytes(expected)

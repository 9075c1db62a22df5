"""emulate: float32 kernels and rounded values in place of kernels of a low type."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given
from hypothesis import strategies as st
from support.check_rewrite import to_bytes
from support.error_bounds import ErrorBounds
from support.loop_text import loop
from support.random_graphs import random_graph
from support.rewritten_graph import RewrittenGraph
from support.text_graph import read_graph, text_lines, write_graph
from support.tf_versions import has_kernel, needs_exact_float32_kernels
from support.tiers import corpus_settings

import npu_precision
from npu_precision import PrecisionOptions, rewrite_graph_def

tf1 = tf.compat.v1
FORCED = PrecisionOptions(precision_mode="force_fp16")
MIXED = PrecisionOptions(precision_mode="allow_mix_precision")
BFLOAT16 = PrecisionOptions(precision_mode="allow_mix_precision_bf16")
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}

# Ops whose half kernels round the result of the float32 kernel once.
ELEMENTWISE = (
    "Neg Abs Relu Relu6 Tanh Exp Log Log1p Square Reciprocal Sin Cos Erf Erfc Floor Ceil Round Sign"
).split()
OF_TWO = "AddV2 Sub Mul RealDiv Maximum Minimum Pow FloorMod DivNoNan Xdivy".split()
# Ops whose half kernels round in several steps, or use another formula.
OF_STEPS = "Sigmoid Elu Selu Softplus Softsign LeakyRelu".split()
SIZE = 4000


def emulated(graph, options, fetches="end"):
    return rewrite_graph_def(graph, fetches, dataclasses.replace(options, emulate=True))


def run_both(run_graph, graph, options, feeds, fetch="end"):
    """The values of real kernels, and the emulated values."""
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    real, ledger = rewrite_graph_def(graph, fetch, options)
    imitated, ledger_of_it = emulated(graph, options, fetch)
    assert [node.decision for node in ledger.nodes] == [
        node.decision for node in ledger_of_it.nodes
    ]
    return [run_graph(each, f"{fetch}:0", feeds, config) for each in (real, imitated)]


def values_of_all_kinds():
    """Values around one, large, tiny, beyond float16's range on both sides, infinities and NaN."""
    random = np.random.default_rng(0)
    part = SIZE // 4
    signs = random.choice([-1, 1], part)
    values = [
        random.normal(size=part),
        random.normal(size=part) * 100,
        random.normal(size=part) * 1e-5,
        10.0 ** random.uniform(-9, 6, part) * signs,
    ]
    x = np.concatenate(values).astype(np.float32)
    x[:4] = [np.nan, np.inf, -np.inf, 0]
    return {"x:0": x, "y:0": random.permutation(x)}


def lowering(op, dtype):
    """Options that lower every node of the op."""
    mode = "allow_mix_precision" if dtype == "float16" else "allow_mix_precision_bf16"
    edits = f'{{"white-list": {{"to-add": ["{op}"]}}}}'
    return PrecisionOptions(precision_mode=mode, mixlist_edits=edits)


def elementwise(op):
    arguments = "x, y" if op in OF_TWO else "x"
    return read_graph(
        f"x = Placeholder(shape={SIZE})\ny = Placeholder(shape={SIZE})\nend = {op}({arguments})"
    )


@pytest.mark.parametrize(
    "op",
    [
        *ELEMENTWISE,
        *OF_TWO,
        *(pytest.param(op, marks=needs_exact_float32_kernels) for op in ("Expm1", "Sqrt", "Rsqrt")),
    ],
)
def test_an_elementwise_op_agrees_with_its_float16_kernel_to_the_last_bit(op, run_graph):
    if not has_kernel(op, "float16"):
        pytest.skip(f"TensorFlow {tf.__version__} has no float16 kernel of {op}")
    feeds = values_of_all_kinds()
    real, imitated = run_both(run_graph, elementwise(op), lowering(op, "float16"), feeds)
    np.testing.assert_array_equal(imitated, real)
    assert not np.array_equal(imitated, imitated.astype(np.float32) + 1)


@pytest.mark.parametrize("op", OF_STEPS)
def test_an_elementwise_op_of_several_steps_agrees_within_their_rounding(op, run_graph):
    feeds = values_of_all_kinds()
    real, imitated = run_both(run_graph, elementwise(op), lowering(op, "float16"), feeds)
    unit = UNIT["float16"]
    np.testing.assert_allclose(imitated, real, rtol=4 * unit, atol=4 * unit)


@pytest.mark.parametrize("op", ["AddV2", "Mul", "Sub", "Maximum", "Relu", "Neg"])
def test_bfloat16_is_rounded_as_its_kernels_round(op, run_graph):
    if not has_kernel(op, "bfloat16"):
        pytest.skip(f"TensorFlow {tf.__version__} has no bfloat16 kernel of {op}")
    feeds = values_of_all_kinds()
    real, imitated = run_both(run_graph, elementwise(op), lowering(op, "bfloat16"), feeds)
    np.testing.assert_array_equal(imitated, real)


SUMS = {
    "matmul": (
        "x = Placeholder(shape=16x256)\nw = Const(shape=256x32)\nend = MatMul(x, w)",
        [16, 256],
        256,
    ),
    "convolution": (
        "x = Placeholder(shape=2x9x9x8)\nw = Const(shape=3x3x8x16)\n"
        "end = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)",
        [2, 9, 9, 8],
        72,
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_products_agrees_within_the_rounding_of_its_accumulation(name, run_graph):
    text, shape, terms = SUMS[name]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    graph = read_graph(text)
    real, imitated = run_both(run_graph, graph, MIXED, {"x:0": x})
    magnitudes = read_graph(text)
    for node in magnitudes.node:
        if node.op == "Const":
            values = abs(tf.make_ndarray(node.attr["value"].tensor))
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values))
    total = run_graph(magnitudes, "end:0", {"x:0": abs(x)})
    assert (abs(real - imitated) <= terms * UNIT["float16"] * total).all()
    assert not np.array_equal(imitated, run_graph(graph, "end:0", {"x:0": x}))


def test_each_lowered_op_reads_and_yields_rounded_values():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[16])
        product = MatMul(x, x)
        hidden = Tanh(product)
        turned = Reshape(hidden, shape)
        scale = Exp(turned)
        end = Neg(scale)
        """
    )
    result, ledger = emulated(graph, MIXED)
    assert text_lines(write_graph(result)) == text_lines(
        """
        x = Placeholder[float32]()
        shape = Const[int32]()
        x/npu_cast_0_float16/npu_emulated_0_float32 = Cast[float16,float32](x/npu_cast_0_float16)
        product = MatMul[float32](x/npu_cast_0_float16/npu_emulated_0_float32,
            x/npu_cast_0_float16/npu_emulated_0_float32)
        product/npu_emulated_0_float16 = Cast[float32,float16](product)
        product/npu_emulated_0_float32 = Cast[float16,float32](product/npu_emulated_0_float16)
        hidden = Tanh[float32](product/npu_emulated_0_float32)
        hidden/npu_emulated_0_float16 = Cast[float32,float16](hidden)
        hidden/npu_emulated_0_float32 = Cast[float16,float32](hidden/npu_emulated_0_float16)
        turned = Reshape[float32](hidden/npu_emulated_0_float32, shape)
        turned/npu_emulated_0_float16 = Cast[float32,float16](turned)
        turned/npu_cast_0_float32 = Cast[float16,float32](turned/npu_emulated_0_float16)
        scale = Exp[float32](turned/npu_cast_0_float32)
        end = Neg[float32](scale)
        """
    )
    # The ledger describes the emulated rewrite.
    _, of_real = rewrite_graph_def(graph, "end", MIXED)
    assert ledger.nodes == of_real.nodes
    assert ledger.casts == of_real.casts


def test_an_op_without_a_kernel_is_emulated_as_on_a_device_that_has_one(run_graph):
    graph = read_graph("x = Placeholder(shape=4)\nend = Rint(x)")
    options = lowering("Rint", "bfloat16")
    if has_kernel("Rint", "bfloat16"):
        pytest.skip(f"TensorFlow {tf.__version__} has a bfloat16 kernel of Rint")
    assert rewrite_graph_def(graph, "end", options)[1].node("end").reason == "no_kernel"
    result, ledger = emulated(graph, options)
    assert ledger.node("end").decision == "lowered"
    x = np.array([1.2, 255.5, 1000.4, 3e38], np.float32)
    expected = tf.cast(tf.math.rint(tf.cast(tf.cast(x, tf.bfloat16), tf.float32)), tf.bfloat16)
    got = run_graph(result, "end:0", {"x:0": x})
    np.testing.assert_array_equal(got, tf.cast(expected, tf.float32).numpy())


def test_what_leaves_float16_s_range_is_infinite(run_graph):
    graph = read_graph("x = Placeholder(shape=1x4)\nw = Placeholder(shape=4x1)\nend = MatMul(x, w)")
    for value, expected in ((10000.0, 40000.0), (20000.0, np.inf), (70000.0, np.inf)):
        x = np.full([1, 4], value, np.float32)
        result, _ = emulated(graph, FORCED)
        feeds = {"x:0": x, "w:0": np.ones([4, 1], np.float32)}
        assert run_graph(result, "end:0", feeds) == expected


def test_a_loop_is_emulated_within_it(run_graph):
    text = loop("start = MatMul(x, x)", "turn = Tanh(switch:1)")
    x = np.random.default_rng(2).normal(size=[4, 4]).astype(np.float32) / 2
    real, imitated = run_both(run_graph, read_graph(text), MIXED, {"x:0": x})
    np.testing.assert_allclose(imitated, real, rtol=8 * UNIT["float16"])
    assert not np.array_equal(imitated, run_graph(read_graph(text), "end:0", {"x:0": x}))


@pytest.mark.parametrize("options", [MIXED, BFLOAT16, FORCED], ids=lambda o: o.precision_mode)
def test_random_graphs_are_within_the_bounds_of_the_real_rewrite(options):
    compared = [0]

    @corpus_settings(300)
    @given(seed=st.integers(0, 2**31), size=st.integers(5, 80), loops=st.booleans())
    def check(seed, size, loops):
        graph = random_graph(seed, size, control_flow=loops)
        real, ledger = graph.rewrite(options)
        result, ledger_of_it = graph.rewrite(dataclasses.replace(options, emulate=True))
        assert to_bytes(graph.rewrite(dataclasses.replace(options, emulate=True))[0]) == to_bytes(
            result
        )
        values, imitated = graph.run(), graph.run(result)
        for fetch in graph.fetches:
            assert np.asarray(imitated[fetch]).dtype == np.asarray(values[fetch]).dtype
        # If the device lacks a kernel, the real rewrite lowers other ops.
        assume(
            [part.to_dict()["nodes"] for part in ledger]
            == [part.to_dict()["nodes"] for part in ledger_of_it]
        )
        compared[0] += 1
        bounds = ErrorBounds(graph, values, RewrittenGraph(graph.graph_def, real))
        assert not list(bounds.violations(imitated))

    check()
    assert compared[0] > 0


def test_a_session_emulates_too():
    config = npu_precision.npu_config_proto()
    entry = config.graph_options.rewrite_options.custom_optimizers[0]
    entry.parameter_map["precision_mode"].s = b"force_fp16"
    entry.parameter_map["emulate"].b = True
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2, 2])
        out = tf.exp(tf.matmul(x, x, name="product"))
        with tf1.Session(config=config) as session:
            got = session.run(out, {x: [[1.0, 2.0], [3.0, 4.001]]})
    half = np.array([[1.0, 2.0], [3.0, 4.001]], np.float16).astype(np.float32)
    product = (half @ half).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(got, np.exp(product).astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("mode", ["force_fp32", "must_keep_origin_dtype"])
def test_a_mode_that_lowers_nothing_is_no_mode_to_emulate(mode):
    with pytest.raises(ValueError, match="emulate: got true with precision_mode .*lowers nothing"):
        PrecisionOptions(precision_mode=mode, emulate=True)

"""overflow: an emulated device saturates values that are too large for float16."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.text_graph import read_graph, text_lines, write_graph

import npu_precision
from npu_precision import PrecisionOptions, _library, rewrite_graph_def

tf1 = tf.compat.v1
LARGEST = 65504.0
GRAPH = "x = Placeholder(shape=8)\nend = Square(x)"
SATURATING = PrecisionOptions(precision_mode="force_fp16", emulate=True, overflow="saturate")
# Roots of values around the largest float16, infinities and NaN. 65519 rounds to 65504.
ROOTS = np.array([2.0, 255.93, 255.965, 256.0, 300.0, np.inf, -np.inf, np.nan], np.float32)


@pytest.fixture(autouse=True)
def _nothing_seen_before():
    _library.take_overflow()
    _library.take_saturations()


def run(graph_def, x, fetch="end:0"):
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(fetch, {"x:0": x})


def test_what_rounds_to_infinity_is_the_largest_number_and_counted():
    result, _ = rewrite_graph_def(read_graph(GRAPH), "end", SATURATING)
    got = run(result, ROOTS)
    half = ROOTS.astype(np.float16).astype(np.float32)
    with np.errstate(over="ignore"):
        rounded = np.square(half).astype(np.float16).astype(np.float32)
    expected = np.where(np.isinf(rounded), LARGEST, rounded)
    np.testing.assert_array_equal(got, expected)
    assert np.isnan(got[-1])
    assert (got[4:7] == LARGEST).all()
    infinite = int(np.isinf(rounded).sum())
    # The input has two infinities, which are saturated; their squares are large but finite.
    counts = {"x/npu_cast_0_float16": 2, "end/npu_changed/npu_emulated_0_float16": infinite}
    assert _library.take_saturations() == counts
    assert _library.take_overflow()
    assert not _library.take_overflow()
    assert _library.take_saturations() == {}


@pytest.mark.parametrize("largest", [65504.0, 65519.0])
def test_what_rounds_to_the_largest_number_is_no_overflow(largest):
    text = "x = Placeholder(shape=8)\nend = Neg(x)"
    result, _ = rewrite_graph_def(read_graph(text), "end", SATURATING)
    np.testing.assert_array_equal(run(result, np.full(8, largest, np.float32)), -LARGEST)
    assert not _library.take_overflow()


def test_a_negative_value_keeps_its_sign():
    text = "x = Placeholder(shape=8)\nend = Neg(x)"
    result, _ = rewrite_graph_def(read_graph(text), "end", SATURATING)
    np.testing.assert_array_equal(run(result, np.full(8, 65520.0, np.float32)), -LARGEST)
    assert _library.take_overflow()


@pytest.mark.parametrize(
    ("options", "finite"),
    [
        ({"overflow": "saturate"}, True),
        ({"overflow": "inf"}, False),
        ({}, False),
        ({"target": "ascend910"}, True),
        ({"target": "ascend910", "overflow": "saturate"}, True),
        ({"target": "ascend910", "overflow": "inf"}, False),
    ],
)
def test_a_910_saturates_by_default_and_no_other_target(options, finite):
    options = PrecisionOptions(precision_mode="force_fp16", emulate=True, **options)
    result, _ = rewrite_graph_def(read_graph(GRAPH), "end", options)
    got = run(result, np.full(8, 1000.0, np.float32))
    np.testing.assert_array_equal(got, LARGEST if finite else np.inf)
    assert _library.take_overflow() == finite


def test_bfloat16_does_not_saturate():
    options = PrecisionOptions(
        precision_mode="allow_mix_precision_bf16", target="ascend910", emulate=True
    )
    result, _ = rewrite_graph_def(read_graph(GRAPH.replace("Square", "Relu")), "end", options)
    assert "NpuPrecisionSaturate" not in {node.op for node in result.node}


def test_only_casts_of_the_optimizer_saturate():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        own = Cast[float32,float16](product)
        back = Cast[float16,float32](own)
        end = Exp(back)
        """
    )
    options = PrecisionOptions(
        precision_mode="allow_mix_precision", emulate=True, overflow="saturate"
    )
    result, _ = rewrite_graph_def(graph, "end", options)
    ops = {node.name: node.op for node in result.node}
    assert ops["x/npu_cast_0_float16"] == "NpuPrecisionSaturate"
    assert ops["product/npu_emulated_0_float16"] == "NpuPrecisionSaturate"
    assert ops["own"] == "Cast"


def test_a_constant_that_does_not_fit_raises_no_flag():
    """A constant is the same in each step, so steps that it skips would be skipped forever."""
    text = """
        x = Placeholder(shape=8)
        mask = Const(value=[-1e9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        end = AddV2(x, mask)
        """
    result, _ = rewrite_graph_def(read_graph(text), "end", SATURATING)
    got = run(result, np.ones(8, np.float32))
    np.testing.assert_array_equal(got, [-LARGEST, *[1.0] * 7])
    assert _library.take_saturations() == {"mask/npu_cast_0_float16": 1}
    assert not _library.take_overflow()


def test_a_check_of_gradients_asks_the_flag_too():
    graph = read_graph(
        """
        x = Placeholder(shape=8)
        square = Square(x)
        finite = IsFinite(square)
        axis = Const[int32](value=[0])
        end = All(finite, axis, _npu_precision_overflow_check=1)
        """
    )
    result, _ = rewrite_graph_def(graph, "end", SATURATING)
    lines = text_lines(write_graph(result))
    assert [line for line in lines if line.startswith("end")] == text_lines(
        """
        end/npu_gradients = All(finite, axis)
        end/npu_no_overflow = NpuPrecisionNoOverflow(^end/npu_gradients)
        end = LogicalAnd(end/npu_gradients, end/npu_no_overflow)
        """
    )
    assert run(result, np.full(8, 2.0, np.float32))
    assert not run(result, np.full(8, 1000.0, np.float32))
    assert run(result, np.full(8, 2.0, np.float32))


def test_without_saturation_the_check_stays():
    graph = read_graph(
        """
        x = Placeholder[bool](shape=8)
        axis = Const[int32](value=[0])
        end = All(x, axis, _npu_precision_overflow_check=1)
        """
    )
    result, _ = rewrite_graph_def(graph, "end", SATURATING, overflow="inf")
    assert result == graph


def test_in_a_loop_it_saturates_too():
    @tf.function
    def doubled(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x)
        return x

    if tf1 is tf:
        pytest.skip("TensorFlow 1.15 runs a tf.function only after tf.enable_v2_behavior()")
    x = tf.constant(np.full([2, 2], 8.0, np.float32))
    with npu_precision.autocast(
        precision_mode="allow_mix_precision", emulate=True, overflow="saturate"
    ):
        np.testing.assert_array_equal(doubled(x).numpy(), LARGEST)
    assert _library.take_overflow()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overflow": "saturate"}, "overflow: got 'saturate' without emulate"),
        ({"overflow": "inf", "target": "ascend910"}, "overflow: got 'inf' without emulate"),
        (
            {"overflow": "saturates", "emulate": True},
            "expected one of inf, saturate; did you mean 'saturate'",
        ),
        (
            {
                "overflow": "saturate",
                "emulate": True,
                "precision_mode": "allow_mix_precision_bf16",
            },
            "with precision_mode 'allow_mix_precision_bf16', which lowers to bfloat16",
        ),
    ],
)
def test_where_there_is_nothing_to_choose_it_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        PrecisionOptions(**{"precision_mode": "force_fp16", **options})

"""A product whose values cancel with another term of a sum keeps float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite, run
from support.loop_text import counter
from support.tf_versions import needs_kernels

import npu_precision

tf1 = tf.compat.v1
KEPT = ("kept", "before_magnifier", "end")
LOWERED = ("lowered", "white_list", "")
GIVEN = """
    x = Placeholder(shape=8x32)
    y = Placeholder(shape=32x8)
    a = Placeholder(shape=8x8)
    b = Placeholder(shape=8x8)
    w = Placeholder(shape=32x32)
    two = Const(value=2.0)
    minus_two = Const(value=-2.0)
    axis = Const[int32](value=[1])
    first = Const[int32](value=[0])
    """
HIDDEN = "product = MatMul(x, w) \n hidden = Tanh(product) \n"
SQUARES = "square = Square(x) \n of_x = Sum(square, axis, keep_dims=True) \n"
MEANS = "m = Mean(x, axis, keep_dims=True) \n n = Mean(y, first, keep_dims=True) \n"


def decided(lines, mode="allow_mix_precision_bf16", **options):
    return check_rewrite(GIVEN + lines, None, ["end"], mode=mode, run=False, **options).reasons


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
@pytest.mark.parametrize(
    "lines",
    [
        "xy = MatMul(x, y) \n twice = Mul(xy, two) \n end = Sub(of_x, twice)",
        "xy = MatMul(x, y) \n twice = Mul(minus_two, xy) \n end = AddV2(twice, of_x)",
        "twice = Mul(two, x) \n xy = MatMul(twice, y) \n end = Sub(of_x, xy)",
        "xy = MatMul(x, y) \n turned = Neg(xy) \n end = AddN(turned, of_x)",
        "xy = MatMul(x, y) \n half = RealDiv(of_x, two) \n end = Sub(half, xy)",
        # y² comes first: the sum of sums is one sum.
        "sum = AddV2(of_x, a) \n xy = MatMul(x, y) \n twice = Mul(xy, two) \nend = Sub(sum, twice)",
    ],
)
def test_squares_less_a_product_keep_the_product(lines, mode):
    assert decided(SQUARES + lines, mode)["xy"] == KEPT


@pytest.mark.parametrize(
    "squares",
    [
        "square = Mul(x, x) \n of_x = Sum(square, axis, keep_dims=True)",
        "square = Pow(x, two) \n of_x = Sum(square, axis, keep_dims=True)",
        "xx = MatMul(x, x, transpose_b=True) \n of_x = DiagPart(xx)",
        "ones = Const(shape=32x1) \n square = Square(x) \n of_x = MatMul(square, ones)",
    ],
)
def test_squares_are_known_however_they_are_written(squares):
    found = decided(f"{squares} \n xy = MatMul(x, y) \n end = Sub(of_x, xy)")
    assert found["xy"] == KEPT


def test_an_einsum_adds_up_squares_too():
    with tf.Graph().as_default() as graph:
        x, y = (tf1.placeholder(tf.float32, [8, 32], name=name) for name in "xy")
        squares = tf.einsum("ij,ij->i", x, x, name="squares")
        product = tf.matmul(x, y, transpose_b=True, name="xy")
        tf.subtract(squares[:, None], product, name="end")
    _, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(),
        "end",
        precision_mode="allow_mix_precision_bf16",
        rewrites="none",
    )
    kept = {node.name for node in ledger.nodes if node.reason == "before_magnifier"}
    assert {"xy", "end"} <= kept
    assert any(name.startswith("squares") for name in kept)


@needs_kernels("bfloat16", "Tanh")
def test_what_squares_a_lowered_tensor_does_so_in_float32_but_the_layer_stays_lowered():
    lines = HIDDEN + (
        "square = Mul(hidden, hidden) \n of_x = Sum(square, axis, keep_dims=True) \n"
        "xy = MatMul(hidden, y) \n twice = Mul(xy, two) \n end = Sub(of_x, twice)"
    )
    found = decided(lines)
    assert found["square"] == found["xy"] == found["twice"] == KEPT
    assert found["product"] == LOWERED
    assert found["hidden"][0] == "lowered"


def test_an_offset_before_the_squares_is_added_in_float32():
    lines = (
        "product = MatMul(x, w) \n moved = AddV2(product, two) \n square = Mul(moved, moved) \n"
        "of_x = Sum(square, axis, keep_dims=True) \n xy = MatMul(moved, y) \n end = Sub(of_x, xy)"
    )
    found = decided(lines)
    assert found["moved"] == found["square"] == KEPT
    assert found["product"] == LOWERED


@pytest.mark.parametrize(
    "means",
    [
        "means = MatMul(m, n)",
        "means = Mul(m, n)",
        "sum = Sum(x, axis, keep_dims=True) \n mean = RealDiv(sum, two) \n means = MatMul(mean, n)",
    ],
)
def test_a_product_less_the_product_of_the_means_keeps_both(means):
    lines = f"{MEANS}{means} \n xy = MatMul(x, y) \n mean_xy = RealDiv(xy, two) \n"
    found = decided(f"{lines} end = Sub(mean_xy, means)")
    assert found["xy"] == found["means"] == KEPT


@pytest.mark.parametrize(
    "lines",
    [
        "ax = MatMul(a, x) \n end = Sub(x, ax)",
        "ax = MatMul(a, x) \n bx = MatMul(b, x) \n end = Sub(ax, bx)",
        "ax = MatMul(a, x) \n sum = Sum(x, axis, keep_dims=True) \n scaled = Mul(sum, two) \n"
        "end = Sub(ax, scaled)",
        "ax = MatMul(a, x) \n begin = Const[int32](value=[0, 0]) \n"
        "size = Const[int32](value=[4, 8]) \n part = Slice(x, begin, size) \n"
        "of_ax = Slice(ax, begin, size) \n"
        "end = Sub(part, of_ax)",
        "ax = MatMul(x, y) \n begin = Const[int32](value=[0, 0]) \n"
        "after = Const[int32](value=[1, 0]) \n size = Const[int32](value=[4, 8]) \n"
        "part = Slice(ax, begin, size) \n next = Slice(ax, after, size) \n end = Sub(next, part)",
        "of_bytes = Placeholder[uint8](shape=8x8) \n u = Cast[uint8,float32](of_bytes) \n"
        "ax = MatMul(a, u) \n end = Sub(ax, u)",
    ],
)
def test_two_linear_maps_of_what_was_measured_keep_float32(lines):
    assert decided(lines)["ax"] == KEPT


@pytest.mark.parametrize(
    "lines",
    [
        "xy = MatMul(x, y) \n end = AddV2(xy, a)",
        # The residual sum of a network, and one that subtracts.
        "ax = MatMul(a, x) \n end = AddV2(x, ax)",
        HIDDEN + "ax = MatMul(a, hidden) \n end = Sub(hidden, ax)",
        HIDDEN + "ax = MatMul(a, hidden) \n bx = MatMul(a, x) \n end = Sub(ax, bx)",
        # A gate times a layer, of one input.
        "ax = MatMul(a, x) \n bx = MatMul(b, x) \n end = Mul(ax, bx)",
        # One weight for two inputs.
        "w1 = Const(shape=32x8) \n v = Placeholder(shape=8x32) \n ax = MatMul(x, w1) \n"
        "bx = MatMul(v, w1) \n end = Sub(ax, bx)",
        # A moving average, two steps of it.
        "w1 = Const(shape=32x8) \n v = Placeholder(shape=8x32) \n ax = MatMul(v, w1) \n"
        "late = Mul(ax, two) \n end = Sub(ax, late)",
        # The squares of something else; the gradient of a weight's decay.
        "square = Square(w) \n of_x = Sum(square, axis) \n ax = MatMul(x, y) \nend = Sub(ax, of_x)",
        MEANS + "means = MatMul(n, m, transpose_a=True, transpose_b=True) \n"
        "ax = MatMul(a, b) \n end = Sub(ax, means)",
    ],
)
def test_other_sums_of_products_are_lowered(lines):
    found = decided(lines)
    product = "xy" if "xy" in found else "ax"
    assert found[product] == LOWERED


def test_two_parts_of_a_tensor_are_not_one():
    lines = (
        "product = MatMul(x, w) \n dim = Const[int32](value=1) \n"
        "part = Split(dim, product, num_split=2) \n square = Square(part:0) \n"
        "of_x = Sum(square, axis) \n v = Placeholder(shape=16x8) \n xy = MatMul(part:1, v) \n"
        "end = Sub(of_x, xy)"
    )
    assert decided(lines)["xy"] == LOWERED


def test_the_state_of_a_loop_is_no_measurement():
    lines = f"""
        {counter(3)}
        enter = Enter(a, frame_name=loop)
        b_enter = Enter(b, frame_name=loop, is_constant=True)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        bx = MatMul(switch:1, b_enter)
        change = Sub(bx, switch:1)
        turn = Tanh(change)
        next = NextIteration(turn)
        end = Exit(switch)
        """
    assert decided(lines)["bx"] == LOWERED


@pytest.mark.parametrize("entry", ["MatMul", "node:xy"])
def test_a_mixlist_entry_beats_it(entry):
    edits = json.dumps({"white-list": {"to-add": [entry]}})
    found = decided(SQUARES + "xy = MatMul(x, y) \n end = Sub(of_x, xy)", mixlist_edits=edits)
    assert found["xy"][0] == "lowered"


def test_distances_are_those_of_float32():
    with tf.Graph().as_default() as graph:
        x = 50.0 + tf1.placeholder(tf.float32, [20, 64], name="x")
        squares = tf.reduce_sum(x * x, 1)
        product = tf.matmul(x, x, transpose_b=True)
        tf.identity(squares[:, None] + squares - 2.0 * product, "end")
    low, _ = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16"
    )
    (want,), (got,) = (run(each, ["end"]) for each in (graph.as_graph_def(), low))
    np.testing.assert_array_equal(got, want)

"""What decides that a loop has converged keeps float32; loops that end otherwise are lowered."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_graph import random_values

import npu_precision

tf1 = tf.compat.v1

STEP = "product = MatMul(switch:1, w_enter) \n sum = AddV2(product, b_enter) \n turn = Tanh(sum)"


def loop(condition, step=STEP):
    """A loop of at most 7 iterations applies a layer to `merge`; `old` is the value before."""
    return f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        b = Placeholder(shape=4x4)
        small = Const(value=0.00001)
        whole = Const[int32](value=7)
        all = Const[int32](value=[0, 1])
        enter = Enter(x, frame_name=loop)
        old_enter = Enter(b, frame_name=loop)
        w_enter = Enter(w, frame_name=loop, is_constant=True)
        b_enter = Enter(b, frame_name=loop, is_constant=True)
        small_enter = Enter(small, frame_name=loop, is_constant=True)
        whole_enter = Enter(whole, frame_name=loop, is_constant=True)
        all_enter = Enter(all, frame_name=loop, is_constant=True)
        merge = Merge(enter, next)
        old = Merge(old_enter, old_next)
        {condition}
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        one_enter = Enter(one, frame_name=loop, is_constant=True)
        i_enter = Enter(zero, frame_name=loop)
        i = Merge(i_enter, i_next)
        counts = Less(i, whole_enter)
        both = LogicalAnd(counts, goes_on)
        cond = LoopCond(both)
        i_switch = Switch(i, cond)
        i_add = AddV2(i_switch:1, one_enter)
        i_next = NextIteration(i_add)
        switch = Switch(merge, cond)
        old_switch = Switch(old, cond)
        old_next = NextIteration(switch:1)
        {step}
        next = NextIteration(turn)
        exit = Exit(switch)
        """


MOVES = """
        moved = Sub(merge, old)
        size = Abs(moved)
        largest = Max(size, all_enter)
        goes_on = Greater(largest, small_enter)
        """


def decisions(text, *names, **options):
    reasons = check_rewrite(text, None, **options).reasons
    return {name: reasons[name] for name in names}


def test_a_loop_that_runs_until_a_value_rests_keeps_its_layer():
    found = decisions(loop(MOVES), "product", "sum", "turn", "merge")
    assert set(found.values()) == {("kept", "before_magnifier", "goes_on")}


@pytest.mark.parametrize(
    "condition",
    [
        "moved = SquaredDifference(merge, old) \n size = Sum(moved, all_enter) \n"
        "goes_on = Greater(size, small_enter)",
        "moved = Sub(merge, old) \n square = Square(moved) \n mean = Mean(square, all_enter) \n"
        "size = Sqrt(mean) \n goes_on = Less(small_enter, size)",
        # In parts of the size of the value.
        "moved = Sub(merge, old) \n size = EuclideanNorm(moved, all_enter) \n"
        "whole_size = EuclideanNorm(merge, all_enter) \n share = RealDiv(size, whole_size) \n"
        "goes_on = GreaterEqual(share, small_enter)",
        "moved = Sub(merge, old) \n size = Abs(moved) \n whole_size = Abs(merge) \n"
        "allowed = Mul(whole_size, small_enter) \n close = LessEqual(size, allowed) \n"
        "rests = All(close, all_enter) \n goes_on = LogicalNot(rests)",
        # The rest of an equation.
        "image = MatMul(merge, w_enter) \n moved = Sub(image, b_enter) \n size = Abs(moved) \n"
        "largest = Max(size, all_enter) \n goes_on = Greater(largest, small_enter)",
    ],
)
def test_whatever_the_condition_looks_like(condition):
    found = decisions(loop(condition), "product", "turn")
    assert found["product"] == found["turn"] == ("kept", "before_magnifier", found["turn"][2])


def test_a_product_that_only_the_condition_reads_is_kept():
    """The residual of an equation, whose solver is not on the way."""
    image = """
        image = MatMul(merge, w_enter)
        moved = Sub(image, b_enter)
        size = Abs(moved)
        largest = Max(size, all_enter)
        goes_on = Greater(largest, small_enter)
        """
    kept = ("kept", "before_magnifier", "goes_on")
    assert decisions(loop(image), "image")["image"] == kept


@pytest.mark.parametrize(
    "condition",
    [
        "goes_on = GreaterEqual(whole_enter, one_enter)",
        # Greedy decoding, until an end token.
        "place = Const[int32](value=1) \n place_enter = Enter(place, frame_name=loop, "
        "is_constant=True) \n token = ArgMax(merge, place_enter, output_type=int32) \n"
        "ends = Equal(token, whole_enter) \n first = Const[int32](value=[0]) \n first_enter = "
        "Enter(first, frame_name=loop, is_constant=True) \n all_end = All(ends, first_enter) \n"
        "goes_on = LogicalNot(all_end)",
        # A decoder of speech, until a gate says so.
        "stop = Sigmoid(merge) \n largest = Max(stop, all_enter) \n"
        "goes_on = Less(largest, small_enter)",
        # What is left of a probability of one.
        "one_float = Const(value=1.0) \n one_f = Enter(one_float, frame_name=loop, "
        "is_constant=True) \n left = Sub(one_f, merge) \n largest = Max(left, all_enter) \n"
        "goes_on = Greater(largest, small_enter)",
        # The difference of two outputs of a network.
        "p = Softmax(merge) \n q = Softmax(old) \n moved = Sub(p, q) \n size = Abs(moved) \n"
        "largest = Max(size, all_enter) \n goes_on = Greater(largest, small_enter)",
    ],
)
def test_a_layer_of_a_loop_that_ends_otherwise_is_lowered(condition):
    found = decisions(loop(condition), "product", "sum", "turn")
    assert {decision[0] for decision in found.values()} == {"lowered"}


def test_a_layer_that_computes_what_a_sum_takes_away_is_lowered():
    """left -= p, until it is small: adaptive computation time. The sum itself is exact."""
    condition = "largest = Max(old, all_enter) \n goes_on = Greater(largest, small_enter)"
    text = loop(condition).replace(
        "old_next = NextIteration(switch:1)",
        "left = Sub(old_switch:1, turn) \n old_next = NextIteration(left)",
    )
    found = decisions(text, "product", "left")
    assert found["product"] == ("lowered", "white_list", "")
    assert found["left"] == ("kept", "sums_iterations", "")


def test_a_condition_that_the_body_computes_counts():
    condition = """
        true = Const[bool](value=True)
        true_enter = Enter(true, frame_name=loop)
        goes_on = Merge(true_enter, goes_on_next)
        """
    step = f"""{STEP}
        moved = Sub(turn, switch:1)
        size = Abs(moved)
        largest = Max(size, all_enter)
        does_move = Greater(largest, small_enter)
        goes_on_next = NextIteration(does_move)
        """
    found = decisions(loop(condition, step), "product", "turn")
    assert set(found.values()) == {("kept", "before_magnifier", "does_move")}


def test_a_mixlist_entry_lowers_the_layer():
    options = {"modify_mixlist": {"white-list": {"to-add": ["node:turn"]}}}
    found = decisions(loop(MOVES), "product", "turn", **options)
    assert found["turn"][0] == "lowered"


def in_functions(text):
    ledger = check_rewrite(text, None).ledger
    return {
        (function.graph, node.name): (node.decision, node.reason)
        for function in ledger.functions
        for node in function.nodes
    }


WHILE = """
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        loop = While(zero, x, w, x, cond=goes_on, body=step)
        end = Relu(loop:1)
        def goes_on(n[int32], x, w, old) -> (result):
            all = Const[int32](value=[0, 1])
            small = Const(value=0.00001)
            {condition}
        def step(n[int32], x, w, old) -> (next, turn, w, x):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, w)
            turn = Tanh(product)
        """


@pytest.mark.parametrize(
    "moved", ["moved = Sub(x, old)", "y = MatMul(x, w) \n moved = Sub(y, old)"]
)
def test_the_body_of_a_while_whose_condition_asks_for_a_difference_is_kept(moved):
    condition = f"{moved} \n size = Abs(moved) \n most = Max(size, all) \n"
    found = in_functions(WHILE.format(condition=condition + "result = Greater(most, small)"))
    assert found["step", "product"] == ("kept", "before_magnifier")
    assert found["step", "turn"] == ("kept", "before_magnifier")
    assert found.get(("goes_on", "y"), ("kept", "before_magnifier")) == (
        "kept",
        "before_magnifier",
    )


def test_the_body_of_a_while_that_counts_is_lowered():
    found = in_functions(
        WHILE.format(condition="three = Const[int32](value=3) \n result = Less(n, three)")
    )
    assert found["step", "product"] == ("lowered", "white_list")


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
def test_a_fixed_point_is_found_in_as_many_iterations(mode):
    """In a low type the loop would run until the limit."""

    def run(x, w):
        def body(i, z, _):
            return i + 1, tf.tanh(tf.matmul(z, w) + x), z

        def condition(i, z, old):
            return (i < 500) & (tf.reduce_max(tf.abs(z - old)) > 1e-5)

        return tf.while_loop(condition, body, (0, tf.zeros_like(x), tf.ones_like(x)))[:2]

    x, w = random_values("x", [8, 16]), np.float32(0.3) * random_values("w", [16, 16])
    want = tf.function(run)(x, w)
    with npu_precision.autocast(precision_mode=mode):
        got = tf.function(run)(x, w)
    assert got[0] == want[0] < 500
    np.testing.assert_allclose(got[1], want[1], atol=1e-6)

"""Loops and conditions of TensorFlow 1 within one another."""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import counter, loop


def nested(inner_turn, turn):
    """A loop of two iterations in a loop of two; the inner one starts with the outer variable."""
    return f"""
        x = Placeholder(shape=4x4)
        {counter(2)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        pivot = Identity(i_switch:1)
        {counter(2, "inner_", "inner", "pivot")}
        inner_enter = Enter(switch:1, frame_name=inner)
        inner_merge = Merge(inner_enter, inner_next)
        inner_switch = Switch(inner_merge, inner_cond)
        inner_turn = {inner_turn}
        inner_next = NextIteration(inner_turn)
        inner_exit = Exit(inner_switch)
        turn = {turn}
        next = NextIteration(turn)
        exit = Exit(switch)
        end = Softmax(exit)
        """


def test_a_white_op_in_an_inner_loop_lowers_the_outer_loop_too():
    check_rewrite(
        nested("MatMul(inner_switch:1, inner_switch:1)", "Relu(inner_exit)"),
        """
        enter = Enter[float16](x/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        inner_enter = Enter[float16](switch:1)
        inner_merge = Merge[float16](inner_enter, inner_next)
        inner_switch = Switch[float16](inner_merge, inner_cond)
        inner_turn = MatMul[float16](inner_switch:1, inner_switch:1)
        inner_next = NextIteration[float16](inner_turn)
        inner_exit = Exit[float16](inner_switch)
        turn = Relu[float16](inner_exit)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )


def test_a_black_op_in_the_outer_loop_keeps_both_loops_in_float32():
    """The outer variable is kept and enters the inner loop, whose product then casts."""
    check_rewrite(
        nested("MatMul(inner_switch:1, inner_switch:1)", "Softmax(inner_exit)"),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        inner_enter = Enter[float32](switch:1)
        inner_merge = Merge[float32](inner_enter, inner_next)
        inner_switch = Switch[float32](inner_merge, inner_cond)
        inner_turn = MatMul[float16](inner_switch/npu_cast_1_float16,
            inner_switch/npu_cast_1_float16)
        inner_next = NextIteration[float32](inner_turn/npu_cast_0_float32)
        inner_exit = Exit[float32](inner_switch)
        turn = Softmax[float32](inner_exit)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
    )


def test_a_black_op_in_the_inner_loop_keeps_the_outer_one_that_only_passes_on():
    check_rewrite(nested("Softmax(inner_switch:1)", "Relu(inner_exit)"), UNCHANGED)


def test_a_condition_in_a_loop():
    """Every other iteration takes the white branch; the branches meet in float32."""
    check_rewrite(
        loop(
            "start = Identity(x)",
            """pivot = Identity(i_switch:1)
            two = Const[int32](^pivot, value=2)
            remainder = FloorMod(pivot, two)
            unit = Const[int32](^pivot, value=1)
            odd = Equal(remainder, unit)
            fork = Switch(switch:1, odd)
            no = Softmax(fork)
            yes = MatMul(fork:1, fork:1)
            turn = Merge(no, yes)""",
        ),
        """
        start = Identity[float32](x)
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        fork = Switch[float32](switch:1, odd)
        no = Softmax[float32](fork)
        yes = MatMul[float16](fork/npu_cast_1_float16, fork/npu_cast_1_float16)
        turn = Merge[float32](no, yes/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
    )


@pytest.mark.parametrize("taken", [True, False])
def test_a_loop_in_a_branch_of_a_condition(taken):
    """The value that enters the loop may be dead: then no iteration runs, and no Cast for it."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = Const[bool](value={taken})
        fork = Switch(x, p)
        pivot = Identity(fork:1)
        {counter(2, inside="pivot")}
        enter = Enter(fork:1, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        turn = MatMul(switch:1, switch:1)
        next = NextIteration(turn)
        exit = Exit(switch)
        no = Relu(fork)
        join = Merge(no, exit)
        end = Softmax(join)
        """,
        """
        fork = Switch[float32](x, p)
        pivot = Identity[float32](fork:1)
        enter = Enter[float16](fork/npu_cast_1_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        no = Relu[float32](fork)
        join = Merge[float16](no/npu_cast_0_float16, exit)
        end = Softmax[float32](join/npu_cast_0_float32)
        """,
    )

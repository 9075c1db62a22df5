"""Loops of TensorFlow 1: Enter, Merge, Switch, NextIteration and Exit around a body.

Some cases are also in TensorFlow's tests: the simple loop, the loop with intertwined variables, and
two Merges of different colours on one NextIteration. The mixes of a body are in test_loop_mixes.py,
nested loops in test_nested_control_flow.py, values that enter as a constant in
test_loop_invariants.py, gradients in test_loop_gradients.py.
"""

from __future__ import annotations

import json

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import counter, loop


def test_a_loop_around_a_white_op_is_lowered_as_one():
    """The back edge votes "lowered" before this is known: the fixpoint is optimistic."""
    result = check_rewrite(
        loop("start = Identity(x)", "turn = MatMul(switch:1, switch:1)"),
        """
        start = Identity[float32](x)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )
    assert result.reasons["next"] == ("lowered", "gray_follows_lowered", "turn")
    assert result.reasons["enter"] == ("lowered", "shares_dtype", "merge")
    assert result.reasons["exit"] == ("lowered", "gray_follows_lowered", "switch")


def test_a_loop_around_a_black_op_keeps_float32_as_one():
    check_rewrite(
        loop(
            "start = MatMul(x, x)",
            """white = MatMul(switch:1, switch:1)
            turn = Softmax(white)""",
        ),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        enter = Enter[float32](start/npu_cast_0_float32)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        white = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        turn = Softmax[float32](white/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
    )


def test_a_gray_loop_follows_what_enters_it():
    check_rewrite(
        loop("start = MatMul(x, x)", "turn = Relu(switch:1)"),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        enter = Enter[float16](start)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = Relu[float16](switch:1)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
    )


def test_a_loop_that_a_black_op_enters_keeps_float32():
    check_rewrite(
        loop("start = Exp(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
    )


def test_a_gray_loop_that_nothing_white_reaches_keeps_float32():
    check_rewrite(
        loop("start = Identity(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
    )


@pytest.mark.parametrize("member", ["enter", "merge", "next"])
def test_a_list_entry_about_one_member_of_a_loop_is_about_all(mixlist, member):
    result = check_rewrite(
        loop("start = Identity(x)", "turn = MatMul(switch:1, switch:1)"),
        """
        start = Identity[float32](x)
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = MatMul[float16](switch/npu_cast_1_float16, switch/npu_cast_1_float16)
        next = NextIteration[float32](turn/npu_cast_0_float32)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
        modify_mixlist=mixlist(black=[f"node:{member}"]),
    )
    assert result.reasons[member] == ("kept", "black_list", "")
    for other in {"enter", "merge", "next"} - {member}:
        decision, _, cause = result.reasons[other]
        assert decision == "kept"
        assert cause in ("enter", "merge", "next")


def test_white_and_black_members_of_a_loop_keep_float32(mixlist):
    check_rewrite(
        loop("start = Identity(x)", "turn = Relu(switch:1)"),
        UNCHANGED,
        modify_mixlist=mixlist(black=["node:enter"], white=["node:next", "node:merge"]),
    )


def test_a_white_member_of_a_loop_next_to_one_that_cannot_change_votes_kept(tmp_path):
    """A white op without a kernel votes so, also if no other node votes on the loop."""
    white, black = ({"precision_reduce": {"flag": flag}} for flag in ("true", "false"))
    only_float32 = {"input0": {"dtype": "float32"}}
    lists = {"MatMul": white, "Merge": white, "Softmax": black, "Enter": only_float32}
    gray = dict.fromkeys(["AddV2", "Exit", "Identity", "NextIteration", "Relu", "Switch"], {})
    (tmp_path / "ops_info.json").write_text(json.dumps({**lists, **gray}))
    result = check_rewrite(
        loop("start = Identity(x)", "turn = Relu(switch:1)")
        + """
        product = MatMul(x, x)
        sum = AddV2(exit, product)
        last = Softmax(sum)
        """,
        """
        start = Identity[float32](x)
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = Relu[float32](switch:1)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        sum = AddV2[float32](exit, product/npu_cast_0_float32)
        last = Softmax[float32](sum)
        """,
        ["end", "last"],
        ops_info_dir=tmp_path,
    )
    assert result.reasons["merge"] == ("kept", "shares_dtype", "enter")
    assert result.reasons["sum"] == ("kept", "gray_follows_kept", "exit")


def test_two_loop_variables_decide_apart():
    """A white accumulator next to a black one, both fed by the same op of the body."""
    check_rewrite(
        loop(
            """start = Identity(x)
            sum_enter = Enter(x, frame_name=loop)
            sum_merge = Merge(sum_enter, sum_next)""",
            """sum_switch = Switch(sum_merge, cond)
            turn = MatMul(switch:1, switch:1)
            black = Softmax(turn)
            sum = AddV2(sum_switch:1, black)
            sum_next = NextIteration(sum)
            sum_exit = Exit(sum_switch)""",
        ),
        """
        start = Identity[float32](x)
        sum_enter = Enter[float32](x)
        sum_merge = Merge[float32](sum_enter, sum_next)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        sum_switch = Switch[float32](sum_merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        black = Softmax[float32](turn/npu_cast_0_float32)
        sum = AddV2[float32](sum_switch:1, black)
        sum_next = NextIteration[float32](sum)
        sum_exit = Exit[float32](sum_switch)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        """,
        ["end", "sum_exit"],
    )


def test_two_merges_on_one_next_iteration_share_a_dtype():
    """TensorFlow's own pass colours the two Merges apart and breaks the graph."""
    check_rewrite(
        loop(
            """start = MatMul(x, x)
            black = Exp(x)
            other_enter = Enter(black, frame_name=loop)
            other_merge = Merge(other_enter, next)
            other_switch = Switch(other_merge, cond)
            other_exit = Exit(other_switch)""",
            "turn = Relu(switch:1)",
        ),
        """
        start = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        other_enter = Enter[float32](black)
        other_merge = Merge[float32](other_enter, next)
        other_switch = Switch[float32](other_merge, cond)
        other_exit = Exit[float32](other_switch)
        enter = Enter[float32](start/npu_cast_0_float32)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        turn = Relu[float32](switch:1)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        end = Softmax[float32](exit)
        """,
        ["end", "other_exit"],
    )


def intertwined(turn_a, turn_b):
    """Two variables that each read the other one's last value."""
    return f"""
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        {counter(3)}
        a_enter = Enter(x, frame_name=loop)
        b_enter = Enter(y, frame_name=loop)
        a = Merge(a_enter, a_next)
        b = Merge(b_enter, b_next)
        a_switch = Switch(a, cond)
        b_switch = Switch(b, cond)
        turn_a = {turn_a}(b_switch:1)
        turn_b = {turn_b}
        a_next = NextIteration(turn_a)
        b_next = NextIteration(turn_b)
        a_exit = Exit(a_switch)
        b_exit = Exit(b_switch)
        """


def test_intertwined_variables_are_lowered_where_one_is():
    """The product makes b float16 and, an iteration later, a."""
    check_rewrite(
        intertwined("Tanh", "MatMul(a_switch:1, b_switch:1)"),
        """
        a_enter = Enter[float16](x/npu_cast_0_float16)
        b_enter = Enter[float16](y/npu_cast_0_float16)
        a = Merge[float16](a_enter, a_next)
        b = Merge[float16](b_enter, b_next)
        a_switch = Switch[float16](a, cond)
        b_switch = Switch[float16](b, cond)
        turn_a = Tanh[float16](b_switch:1)
        turn_b = MatMul[float16](a_switch:1, b_switch:1)
        a_next = NextIteration[float16](turn_a)
        b_next = NextIteration[float16](turn_b)
        a_exit/npu_changed = Exit[float16](a_switch)
        a_exit = Cast[float16,float32](a_exit/npu_changed)
        b_exit/npu_changed = Exit[float16](b_switch)
        b_exit = Cast[float16,float32](b_exit/npu_changed)
        """,
        ["a_exit", "b_exit"],
    )


def test_intertwined_variables_keep_float32_where_a_black_op_is_between():
    """Softmax keeps a in float32; b, which reads both, has the dtype of its product."""
    check_rewrite(
        intertwined("Softmax", "MatMul(a_switch:1, b_switch:1)"),
        """
        a_enter = Enter[float32](x)
        b_enter = Enter[float16](y/npu_cast_0_float16)
        a = Merge[float32](a_enter, a_next)
        b = Merge[float16](b_enter, b_next)
        a_switch = Switch[float32](a, cond)
        b_switch = Switch[float16](b, cond)
        turn_a = Softmax[float32](b_switch/npu_cast_1_float32)
        turn_b = MatMul[float16](a_switch/npu_cast_1_float16, b_switch:1)
        a_next = NextIteration[float32](turn_a)
        b_next = NextIteration[float16](turn_b)
        a_exit = Exit[float32](a_switch)
        b_exit/npu_changed = Exit[float16](b_switch)
        b_exit = Cast[float16,float32](b_exit/npu_changed)
        """,
        ["a_exit", "b_exit"],
    )


def test_swapped_variables_share_the_fate_of_the_one_that_a_black_op_enters():
    """Each variable is the other one an iteration later, so a rule that keeps one keeps both."""
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        {counter(3)}
        white = MatMul(x, x)
        black = Exp(x)
        a_enter = Enter(white, frame_name=loop)
        b_enter = Enter(black, frame_name=loop)
        a = Merge(a_enter, a_next)
        b = Merge(b_enter, b_next)
        a_switch = Switch(a, cond)
        b_switch = Switch(b, cond)
        a_next = NextIteration(b_switch:1)
        b_next = NextIteration(a_switch:1)
        a_exit = Exit(a_switch)
        b_exit = Exit(b_switch)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        a_enter = Enter[float32](white/npu_cast_0_float32)
        b_enter = Enter[float32](black)
        a = Merge[float32](a_enter, a_next)
        b = Merge[float32](b_enter, b_next)
        a_switch = Switch[float32](a, cond)
        b_switch = Switch[float32](b, cond)
        a_next = NextIteration[float32](b_switch:1)
        b_next = NextIteration[float32](a_switch:1)
        a_exit = Exit[float32](a_switch)
        b_exit = Exit[float32](b_switch)
        """,
        ["a_exit", "b_exit"],
    )

"""Gray nodes that follow their consumers, in loops, conditionals, and behind handles of lists.

The rule itself is tested in passes/test_follow_consumers.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import counter
from support.tf_versions import needs_ops

LOWERED = ("lowered", "gray_follows_consumers")
KEPT = ("kept", "gray_no_votes")


def test_a_variable_that_a_loop_passes_on_is_lowered_as_a_whole():
    """A lowered functional While carries its captures like this."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        w_enter = Enter(w, frame_name=loop)
        w_merge = Merge(w_enter, w_next)
        w_switch = Switch(w_merge, cond)
        weight = Identity(w_switch:1)
        w_next = NextIteration(weight)
        w_exit = Exit(w_switch)
        product = MatMul(switch:1, weight)
        turn = Tanh(product)
        next = NextIteration(turn)
        exit = Exit(switch)
        end = LogSoftmax(exit)
        """,
        """
        enter = Enter[float16](x/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        w_enter = Enter[float16](w/npu_cast_0_float16)
        w_merge = Merge[float16](w_enter, w_next)
        w_switch = Switch[float16](w_merge, cond)
        weight = Identity[float16](w_switch:1)
        w_next = NextIteration[float16](weight)
        w_exit = Exit[float16](w_switch)
        product = MatMul[float16](switch:1, weight)
        turn = Tanh[float16](product)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = LogSoftmax[float32](exit/npu_cast_0_float32)
        """,
    )
    assert result.reasons["weight"] == (*LOWERED, "product")
    assert result.reasons["w_merge"][:2] == LOWERED


def test_a_variable_that_an_iteration_makes_anew_is_cast_where_it_is_read():
    """If it were lowered as a whole, each iteration would cast it, but it is only read behind the
    loop.
    """
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        rows = Placeholder(shape=3x4x4)
        {counter(3)}
        rows_enter = Enter(rows, frame_name=loop, is_constant=True)
        axis_enter = Enter(zero, frame_name=loop, is_constant=True)
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        turn = GatherV2(rows_enter, i_switch:1, axis_enter)
        next = NextIteration(turn)
        exit = Exit(switch)
        end = MatMul(exit, x)
        """,
        None,
        ["end"],
    )
    assert result.reasons["merge"] == (*KEPT, "")
    assert result.reasons["exit"] == (*KEPT, "")


def test_what_one_branch_of_a_cond_reads_is_cast_in_that_branch():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        taken = Const[bool](value=True)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        fork = Switch(turned, taken)
        product = MatMul(fork:1, fork:1)
        other = Exp(fork)
        either = Merge(other, product)
        """,
        None,
        ["either"],
    )
    assert result.reasons["fork"] == (*KEPT, "")
    assert result.reasons["turned"] == (*KEPT, "")


@pytest.mark.parametrize(
    ("fork", "taken"),
    [
        ("Switch(turned, taken)", "Const[bool](value=True)"),
        pytest.param(
            "_SwitchN(turned, number, num_outs=3)",
            "Const[bool](value=True)\n number = Cast[bool,int32](taken)",
            marks=needs_ops("_SwitchN"),
        ),
    ],
)
def test_what_only_one_branch_reads_is_not_cast_for_both(fork, taken):
    """The other branch reads something else, where the Cast would be useless."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        taken = {taken}
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        fork = {fork}
        product = MatMul(fork:1, fork:1)
        sides = Switch[bool](taken, taken)
        not_taken = Identity[bool](sides)
        other = Const(shape=4x4, ^not_taken)
        either = Merge(other, product)
        end = Exp(either)
        """,
        None,
    )
    assert result.reasons["fork"] == (*KEPT, "")
    assert result.reasons["turned"] == (*KEPT, "")


def test_an_array_that_a_loop_reads_is_cast_before_it_is_filled():
    check_rewrite(
        f"""
        x = Placeholder(shape=3x4x4)
        y = Placeholder(shape=4x4)
        size = Const[int32](value=3)
        steps = Const[int32](value=[0, 1, 2])
        inputs = TensorArrayV3(size)
        fill = TensorArrayScatterV3(inputs, steps, x, inputs:1)
        {counter(3)}
        inputs_enter = Enter(inputs, frame_name=loop, is_constant=True)
        fill_enter = Enter(fill, frame_name=loop, is_constant=True)
        enter = Enter(y, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        row = TensorArrayReadV3(inputs_enter, i_switch:1, fill_enter)
        product = MatMul(row, switch:1)
        turn = Tanh(product)
        next = NextIteration(turn)
        exit = Exit(switch)
        end = LogSoftmax(exit)
        """,
        """
        inputs = TensorArrayV3[float16](size)
        fill = TensorArrayScatterV3[float16](inputs, steps, x/npu_cast_0_float16, inputs:1)
        fill_enter = Enter[float32](fill)
        enter = Enter[float16](y/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        row = TensorArrayReadV3[float16](inputs_enter, i_switch:1, fill_enter)
        product = MatMul[float16](row, switch:1)
        turn = Tanh[float16](product)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = LogSoftmax[float32](exit/npu_cast_0_float32)
        """,
    )


def test_a_list_that_is_added_to_another_stays():
    result = check_rewrite(
        """
        x = Placeholder(shape=3x4x4)
        y = Placeholder(shape=3x4x4)
        shape = Const[int32](value=[4, 4])
        zero = Const[int32](value=0)
        first = TensorListFromTensor[float32,int32](x, shape)
        second = TensorListFromTensor[float32,int32](y, shape)
        sum = AddN[variant](first, second)
        item = TensorListGetItem(sum, zero, shape)
        product = MatMul(item, item)
        """,
        None,
    )
    assert {result.reasons[name][:2] for name in ("first", "second", "item")} == {KEPT}


def test_an_array_that_gradients_are_added_up_in_stays():
    result = check_rewrite(
        """
        x = Placeholder(shape=1x4x4)
        y = Placeholder(shape=1x4x4)
        size = Const[int32](value=1)
        zero = Const[int32](value=0)
        indices = Const[int32](value=[0])
        array = TensorArrayV3(size)
        fill = TensorArrayScatterV3(array, indices, x, array:1)
        row = TensorArrayReadV3(array, zero, fill)
        forward = MatMul(row, row)
        gradient = TensorArrayGradV3(array, fill, source=g)
        once = TensorArrayScatterV3(gradient, indices, x, gradient:1)
        twice = TensorArrayScatterV3(gradient, indices, y, once)
        sum = TensorArrayReadV3(gradient, zero, twice)
        product = MatMul(sum, sum)
        """,
        None,
        ["forward", "product"],
    )
    assert {result.reasons[name][:2] for name in ("array", "fill", "twice", "sum")} == {KEPT}

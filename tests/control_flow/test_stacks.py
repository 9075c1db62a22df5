"""Stacks, which keep what the gradient of a loop of TensorFlow 1 needs: one dtype for each."""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import counter, loop


@pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)
def test_a_stack_of_lowered_tensors_is_lowered(mode, low):
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        most = Const[int32](value=-1)
        white = MatMul(x, x)
        stack = StackV2(most)
        push = StackPushV2(stack, white)
        pop = StackPopV2(stack, ^push)
        gray = Relu(pop)
        end = LogSoftmax(gray)
        """,
        f"""
        white = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        stack = StackV2[{low}](most)
        push = StackPushV2[{low}](stack, white)
        pop = StackPopV2[{low}](stack, ^push)
        gray = Relu[{low}](pop)
        end = LogSoftmax[float32](gray/npu_cast_0_float32)
        """,
        mode=mode,
    )


def test_a_stack_that_a_black_op_pushes_to_keeps_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        most = Const[int32](value=-1)
        white = MatMul(x, x)
        black = Exp(white)
        stack = StackV2(most)
        push = StackPushV2(stack, black)
        push_again = StackPushV2(stack, white, ^push)
        pop = StackPopV2(stack, ^push_again)
        gray = Relu(pop)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](white/npu_cast_0_float32)
        stack = StackV2[float32](most)
        push = StackPushV2[float32](stack, black)
        push_again = StackPushV2[float32](stack, white/npu_cast_0_float32, ^push)
        pop = StackPopV2[float32](stack, ^push_again)
        gray = Relu[float32](pop)
        """,
    )


def test_what_a_push_forwards_has_the_dtype_of_the_stack():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        most = Const[int32](value=-1)
        white = MatMul(x, x)
        stack = StackV2(most)
        push = StackPushV2(stack, white)
        end = LogSoftmax(push)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        stack = StackV2[float16](most)
        push = StackPushV2[float16](stack, white)
        end = LogSoftmax[float32](push/npu_cast_0_float32)
        """,
    )


def test_a_stack_of_sources_or_integers_is_unchanged():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        n = Placeholder[int32](shape=4)
        most = Const[int32](value=-1)
        stack = StackV2(most)
        push = StackPushV2(stack, x)
        pop = StackPopV2(stack, ^push)
        counts = StackV2[int32](most)
        push_count = StackPushV2(counts, n)
        pop_count = StackPopV2[int32](counts, ^push_count)
        end = Relu(pop, ^pop_count)
        """,
        UNCHANGED,
    )


def two_loops(turn, back_turn):
    """A loop that pushes its variable in each iteration, and one that pops it again."""
    forward = loop(
        """start = Identity(x)
        most = Const[int32](value=-1)
        stack = StackV2(most)
        stack_enter = Enter(stack, frame_name=loop, is_constant=True)""",
        f"""push = StackPushV2(stack_enter, switch:1)
        turn = {turn}""",
    )
    return f"""
        {forward}
        {counter(3, "back_", "back", "end", ["pop"])}
        back_enter = Enter(end, frame_name=back)
        back_merge = Merge(back_enter, back_next)
        back_switch = Switch(back_merge, back_cond)
        back_stack = Enter(stack, frame_name=back, is_constant=True)
        pivot = Identity(back_i_switch:1)
        pop = StackPopV2(back_stack, ^pivot)
        back_turn = {back_turn}
        back_next = NextIteration(back_turn)
        back_exit = Exit(back_switch)
        """


def test_a_loop_pushes_and_another_one_pops_in_the_low_type():
    """The value that enters the second loop keeps it; the stack follows the first loop."""
    check_rewrite(
        two_loops("MatMul(push, push)", "MatMul(pop, back_switch:1)"),
        """
        start = Identity[float32](x)
        stack = StackV2[float16](most)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        push = StackPushV2[float16](stack_enter, switch:1)
        turn = MatMul[float16](push, push)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](exit/npu_cast_0_float32)
        pop = StackPopV2[float16](back_stack, ^pivot)
        back_enter = Enter[float32](end)
        back_merge = Merge[float32](back_enter, back_next)
        back_switch = Switch[float32](back_merge, back_cond)
        back_turn = MatMul[float16](pop, back_switch/npu_cast_1_float16)
        back_next = NextIteration[float32](back_turn/npu_cast_0_float32)
        back_exit = Exit[float32](back_switch)
        """,
    )


def test_a_stack_in_loops_that_keep_float32_keeps_it():
    check_rewrite(two_loops("Softmax(push)", "Mul(pop, back_switch:1)"), UNCHANGED)


def test_a_stack_handed_to_a_function_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        most = Const[int32](value=-1)
        white = MatMul(x, x)
        stack = StackV2(most)
        push = StackPushV2(stack, white)
        call = StatefulPartitionedCall(stack, f=take, ^push)
        end = Relu(call)
        def take(stack[resource]) -> (pop):
            pop = StackPopV2(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        stack = StackV2[float32](most)
        push = StackPushV2[float32](stack, white/npu_cast_0_float32)
        call = StatefulPartitionedCall[resource,float32](stack, ^push)
        end = Relu[float32](call)
        def take(stack[resource]) -> (pop):
            pop = StackPopV2[float32](stack)
        """,
    )
    for name in "stack", "push":
        assert result.reasons[name] == ("kept", "handle_leaves_graph", "")

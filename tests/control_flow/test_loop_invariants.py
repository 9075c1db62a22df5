"""A loop invariant is cast once, outside of the loop.

In these tests, another node reads the invariant in float32. Invariants without such a reader are in
test_follow_consumers.py.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from support.check_rewrite import TOLERANCE, check_rewrite, run
from support.loop_text import counter
from support.text_graph import read_graph

import npu_precision


def loop(body):
    """A loop with the variable x, w from outside, and `turn`, the variable's next value."""
    return f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        {body}
        next = NextIteration(turn)
        exit = Exit(switch)
        """


def test_a_weight_is_cast_before_it_enters_the_loop():
    result = check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop, is_constant=True)
            product = MatMul(switch:1, w_enter)
            black = Exp(w_enter)
            sum = AddV2(product, black)
            turn = Softmax(sum)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        w_enter = Enter[float32](w)
        w_enter/npu_cast_0_float16 = Enter[float16](w/npu_cast_0_float16)
        product = MatMul[float16](switch/npu_cast_1_float16, w_enter/npu_cast_0_float16)
        black = Exp[float32](w_enter)
        sum = AddV2[float32](product/npu_cast_0_float32, black)
        turn = Softmax[float32](sum)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )
    enter, carrier = (
        next(node for node in result.graph.node if node.name == name)
        for name in ("w_enter", "w_enter/npu_cast_0_float16")
    )
    for attribute in ("frame_name", "parallel_iterations", "is_constant"):
        assert carrier.attr[attribute] == enter.attr[attribute]


def test_a_weight_that_is_read_directly_and_through_an_identity_enters_the_loop_once():
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        {counter(3)}
        enter = Enter(x, frame_name=loop)
        merge = Merge(enter, next)
        switch = Switch(merge, cond)
        w_enter = Enter(w, frame_name=loop, is_constant=True)
        same = Identity(w_enter)
        first = MatMul(switch:1, w_enter)
        hidden = Tanh(first)
        second = MatMul(hidden, same)
        black = Exp(same)
        sum = AddN(second, black)
        next = NextIteration(sum)
        exit = Exit(switch)
        """,
        None,
    )
    inserted = [node for node in result.graph.node if "_npu_precision_cast" in node.attr]
    assert sum(node.op == "Enter" and node.input[0].startswith("w/") for node in inserted) == 1


def test_a_variable_that_the_body_passes_on_is_cast_outside():
    """A lowered functional While carries its captures like this."""
    check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop)
            w_merge = Merge(w_enter, w_next)
            w_switch = Switch(w_merge, cond)
            w_body = Identity(w_switch:1)
            w_next = NextIteration(w_body)
            product = MatMul(switch:1, w_body)
            black = Exp(w_body)
            sum = AddV2(product, black)
            turn = Softmax(sum)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        w_enter = Enter[float32](w)
        w_merge = Merge[float32](w_enter, w_next)
        w_switch = Switch[float32](w_merge, cond)
        w_body = Identity[float32](w_switch:1)
        w_next = NextIteration[float32](w_body)
        w_enter/npu_cast_0_float16 = Enter[float16](w/npu_cast_0_float16)
        w_body/npu_cast_0_float16 = Identity[float16](w_enter/npu_cast_0_float16, ^w_body)
        product = MatMul[float16](switch/npu_cast_1_float16, w_body/npu_cast_0_float16)
        black = Exp[float32](w_body)
        sum = AddV2[float32](product/npu_cast_0_float32, black)
        turn = Softmax[float32](sum)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )


def test_without_identity_a_switch_tells_when_the_loop_is_over():
    """`turn` depends on invariants alone: if it were never dead, iterations would never end."""
    check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop)
            w_merge = Merge(w_enter, w_next)
            w_switch = Switch(w_merge, cond)
            w_next = NextIteration(w_switch:1)
            w_exit = Exit(w_switch)
            black = Exp(w_exit)
            turn = MatMul(w_switch:1, w_switch:1)
            """
        ),
        """
        enter = Enter[float16](x/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        w_enter = Enter[float32](w)
        w_merge = Merge[float32](w_enter, w_next)
        w_switch = Switch[float32](w_merge, cond)
        w_next = NextIteration[float32](w_switch:1)
        w_exit = Exit[float32](w_switch)
        black = Exp[float32](w_exit)
        w_enter/npu_cast_0_float16 = Enter[float16](w/npu_cast_0_float16)
        w_switch/npu_cast_1_float16 = Switch[float16](w_enter/npu_cast_0_float16, cond, ^w_switch)
        turn = MatMul[float16](w_switch/npu_cast_1_float16:1, w_switch/npu_cast_1_float16:1)
        next = NextIteration[float16](turn)
        exit/npu_changed = Exit[float16](switch)
        exit = Cast[float16,float32](exit/npu_changed)
        """,
    )


def test_a_weight_used_in_a_cond_of_a_loop_is_dead_in_the_other_branch():
    check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop, is_constant=True)
            last = Equal(i, one_enter)
            w_branch = Switch(w_enter, last)
            x_branch = Switch(switch:1, last)
            product = MatMul(x_branch:1, w_branch:1)
            w_other = MatMul(w_branch, w_branch)
            other = Softmax(w_other)
            joined = Merge(other, product)
            turn = Softmax(joined)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        w_enter = Enter[float32](w)
        w_branch = Switch[float32](w_enter, last)
        x_branch = Switch[float32](switch:1, last)
        w_enter/npu_cast_0_float16 = Enter[float16](w/npu_cast_0_float16)
        w_branch/npu_cast_1_float16 = Switch[float16](w_enter/npu_cast_0_float16, last, ^w_branch)
        product = MatMul[float16](x_branch/npu_cast_1_float16, w_branch/npu_cast_1_float16:1)
        w_branch/npu_cast_0_float16 = Switch[float16](w_enter/npu_cast_0_float16, last, ^w_branch)
        w_other = MatMul[float16](w_branch/npu_cast_0_float16, w_branch/npu_cast_0_float16)
        other = Softmax[float32](w_other/npu_cast_0_float32)
        joined = Merge[float32](other, product/npu_cast_0_float32)
        turn = Softmax[float32](joined)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )


def test_a_cond_in_a_cond_of_a_loop_is_dead_where_the_outer_one_is():
    """The inner branch would be taken, but the outer one is not."""
    result = check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop, is_constant=True)
            never = Const[bool](value=False)
            never_enter = Enter(never, frame_name=loop, is_constant=True)
            always = Const[bool](value=True)
            always_enter = Enter(always, frame_name=loop, is_constant=True)
            outer = Switch(w_enter, never_enter)
            inner = Switch(outer:1, always_enter)
            product = MatMul(inner:1, inner:1)
            other = Softmax(outer)
            joined = Merge(product, other)
            turn = Maximum(joined, switch:1)
            """
        ),
        None,
    )
    carrier = next(n for n in result.graph.node if n.name == "inner/npu_cast_1_float16")
    assert list(carrier.input) == ["w_enter/npu_cast_0_float16", "always_enter", "^inner"]


def test_a_weight_of_an_inner_loop_is_cast_outside_of_both():
    check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop, is_constant=True)
            j_enter = Enter(one_enter, frame_name=inner)
            j_one = Enter(one_enter, frame_name=inner, is_constant=True)
            j_end = Enter(times_enter, frame_name=inner, is_constant=True)
            j = Merge(j_enter, j_next)
            j_less = Less(j, j_end)
            j_cond = LoopCond(j_less)
            j_switch = Switch(j, j_cond)
            j_add = AddV2(j_switch:1, j_one)
            j_next = NextIteration(j_add)
            w_inner = Enter(w_enter, frame_name=inner, is_constant=True)
            x_inner = Enter(switch:1, frame_name=inner)
            x_merge = Merge(x_inner, x_next)
            x_switch = Switch(x_merge, j_cond)
            product = MatMul(x_switch:1, w_inner)
            black = Exp(w_inner)
            sum = AddV2(product, black)
            x_turn = Softmax(sum)
            x_next = NextIteration(x_turn)
            turn = Exit(x_switch)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        w_enter = Enter[float32](w)
        w_inner = Enter[float32](w_enter)
        x_inner = Enter[float32](switch:1)
        x_merge = Merge[float32](x_inner, x_next)
        x_switch = Switch[float32](x_merge, j_cond)
        w_enter/npu_cast_0_float16 = Enter[float16](w/npu_cast_0_float16)
        w_inner/npu_cast_0_float16 = Enter[float16](w_enter/npu_cast_0_float16)
        product = MatMul[float16](x_switch/npu_cast_1_float16, w_inner/npu_cast_0_float16)
        black = Exp[float32](w_inner)
        sum = AddV2[float32](product/npu_cast_0_float32, black)
        x_turn = Softmax[float32](sum)
        x_next = NextIteration[float32](x_turn)
        turn = Exit[float32](x_switch)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )


def test_a_lowered_invariant_is_cast_back_outside():
    check_rewrite(
        loop(
            """
            white = MatMul(w, w)
            w_enter = Enter(white, frame_name=loop, is_constant=True)
            product = MatMul(switch:1, w_enter)
            black = Softmax(w_enter)
            half = Mul(product, black)
            turn = Softmax(half)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        white = MatMul[float16](w/npu_cast_0_float16, w/npu_cast_0_float16)
        w_enter = Enter[float16](white)
        product = MatMul[float16](switch/npu_cast_1_float16, w_enter)
        w_enter/npu_cast_0_float32 = Enter[float32](white/npu_cast_0_float32)
        black = Softmax[float32](w_enter/npu_cast_0_float32)
        half = Mul[float32](product/npu_cast_0_float32, black)
        turn = Softmax[float32](half)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )


def test_a_reference_read_in_one_branch_of_a_cond_runs():
    """Its Cast is behind the Merge: no Cast depends on the other branch, which is dead."""
    graph = read_graph(
        loop(
            """
            v = VariableV2(shape=4x4)
            initial = Const(shape=4x4)
            init = Assign(v, initial)
            v_enter = Enter(v, frame_name=loop, is_constant=True)
            last = Equal(i, one_enter)
            branch = Switch(last, last)
            yes = Identity(branch:1)
            read = Identity(v_enter, ^yes)
            x_branch = Switch(switch:1, last)
            product = MatMul(x_branch, x_branch)
            other = Relu(product)
            joined = Merge(other, read)
            squared = MatMul(joined, joined)
            turn = Softmax(squared)
            """
        )
    )
    rewritten, ledger = npu_precision.rewrite_graph_def(
        graph, ["exit", "init"], precision_mode="allow_mix_precision", fold_constants=False
    )
    assert ledger.node("joined").reason == "neutral_source"
    assert ledger.node("squared").decision == "lowered"
    (want,), (got,) = (run(each, ["exit"], ["init"]) for each in (graph, rewritten))
    np.testing.assert_allclose(got, want, atol=TOLERANCE["float16"])


def test_what_the_body_changes_is_cast_inside():
    check_rewrite(
        loop(
            """
            black = Exp(switch:1)
            product = MatMul(black, black)
            turn = Softmax(product)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        black = Exp[float32](switch:1)
        product = MatMul[float16](black/npu_cast_0_float16, black/npu_cast_0_float16)
        turn = Softmax[float32](product/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )


def test_rounding_for_the_cube_unit_is_done_outside_too():
    check_rewrite(
        loop(
            """
            w_enter = Enter(w, frame_name=loop, is_constant=True)
            product = MatMul(switch:1, w_enter)
            turn = Softmax(product)
            """
        ),
        """
        enter = Enter[float32](x)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        w_enter = Enter[float32](w)
        w_enter/npu_cast_0_float32 = Enter[float32](w/npu_cast_0_float16/npu_cast_0_float32)
        product = MatMul[float32](switch/npu_cast_1_float16/npu_cast_0_float32,
            w_enter/npu_cast_0_float32)
        turn = Softmax[float32](product)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
        mode="cube_fp16in_fp32out",
    )


def test_another_mode_afterwards_finds_its_casts_outside():
    graph = loop(
        """
        w_enter = Enter(w, frame_name=loop, is_constant=True)
        product = MatMul(switch:1, w_enter)
        turn = Softmax(product)
        """
    )
    lowered = check_rewrite(graph, None).graph
    raised, ledger = npu_precision.rewrite_graph_def(
        lowered, ["exit"], precision_mode="force_fp32", fold_constants=False
    )
    assert ledger.totals["casts"] == 0
    (product,) = [node for node in raised.node if node.name == "product"]
    assert product.attr["T"].type == tf.float32.as_datatype_enum
    np.testing.assert_array_equal(run(raised, ["exit"]), run(read_graph(graph), ["exit"]))

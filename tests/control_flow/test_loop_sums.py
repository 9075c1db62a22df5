"""Values that accumulate over the iterations of a loop, or from call to call, keep float32."""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import sum_loop


def decisions(body, **options):
    """The decisions about the nodes that determine the variable, by name."""
    result = check_rewrite(sum_loop(body), None, **options)
    return {name: result.reasons[name] for name in ("merge", "turn", "exit")}


def test_a_sum_over_the_iterations_keeps_float32():
    """The gradient of a weight that a loop uses is such a sum."""
    result = check_rewrite(
        sum_loop("turn = AddV2(switch:1, term)"),
        """
        enter = Enter[float32](start)
        merge = Merge[float32](enter, next)
        switch = Switch[float32](merge, cond)
        x_enter = Enter[float16](x/npu_cast_0_float16)
        term = MatMul[float16](x_enter, x_enter)
        turn = AddV2[float32](switch:1, term/npu_cast_0_float32)
        next = NextIteration[float32](turn)
        exit = Exit[float32](switch)
        """,
    )
    assert result.reasons["merge"] == ("kept", "sums_iterations", "")
    assert result.reasons["enter"] == ("kept", "shares_dtype", "merge")
    assert result.reasons["turn"] == ("kept", "sums_iterations", "")


@pytest.mark.parametrize(
    "body",
    [
        "turn = Add(term, switch:1)",
        "turn = AddN(term, switch:1, term)",
        "turn = Sub(switch:1, term)",
        "value = Identity(switch:1) \n sum = AddV2(value, term) \n turn = Identity(sum)",
        # A residual stream, or a step of an integrator.
        "more = MatMul(switch:1, term) \n turn = AddV2(switch:1, more)",
        "double = AddV2(switch:1, switch:1) \n turn = AddV2(double, term)",
        # The best path so far, and the next step on it.
        "other = AddV2(switch:1, term) \n turn = Maximum(other, term)",
        # The sum does not change where a condition is false.
        "sum = AddV2(switch:1, term) \n is_good = Greater(term, switch:1) \n"
        "turn = SelectV2(is_good, sum, switch:1)",
        # A moving average with a long memory, or an unknown one.
        "decay = Const(^switch, value=0.999) \n old = Mul(switch:1, decay) \n"
        "turn = AddV2(old, term)",
        "most = Const(^switch, value=0.999) \n decay = Minimum(x_enter, most) \n"
        "old = Mul(switch:1, decay) \n turn = AddV2(old, term)",
        "old = Mul(switch:1, x_enter) \n turn = AddV2(old, term)",
        "old = RealDiv(switch:1, x_enter) \n turn = AddV2(old, term)",
        # A running mean, whose gain is 0.99.
        "many = Const(^switch, value=99.0) \n part = Const(^switch, value=0.01) \n"
        "old = Mul(switch:1, many) \n sum = AddV2(old, term) \n turn = Mul(sum, part)",
        "turn = Mul(switch:1, switch:1)",
        "turn = Square(switch:1)",
        # A decay that is learned, or computed by a layer, and the same in every iteration.
        "decay = Sigmoid(x_enter) \n old = Mul(switch:1, decay) \n turn = AddV2(old, x_enter)",
        "decay = Sigmoid(term) \n old = Mul(switch:1, decay) \n turn = AddV2(old, term)",
    ],
)
def test_whatever_the_addition_looks_like(body):
    assert decisions(body)["merge"] == ("kept", "sums_iterations", "")


@pytest.mark.parametrize(
    "body",
    [
        "turn = Maximum(switch:1, term)",
        # A short memory.
        "decay = Const(^switch, value=0.5) \n old = Mul(switch:1, decay) \nturn = AddV2(old, term)",
        "two = Const(^switch, value=2.0) \n old = RealDiv(switch:1, two) \nturn = AddV2(old, term)",
        # The gate of a recurrent cell, bounded by itself, and behind a matrix product.
        "step = MatMul(switch:1, term) \n gate = Sigmoid(step) \n"
        "old = Mul(switch:1, gate) \n turn = AddV2(old, term)",
        "step = MatMul(switch:1, term) \n old = Mul(switch:1, step) \n turn = AddV2(old, term)",
        # A simple recurrent cell.
        "more = MatMul(switch:1, term) \n sum = AddV2(more, term) \n turn = Tanh(sum)",
        "sum = AddV2(switch:1, term) \n turn = Tanh(sum)",
    ],
)
def test_what_forgets_follows_its_predecessors(body):
    assert decisions(body)["merge"][:2] == ("lowered", "gray_follows_lowered")


def test_the_factor_of_what_is_multiplied_again_and_again_is_computed_in_float32():
    """The factor's rounding error enters the product in each iteration."""
    body = """
        y = Sigmoid(term)
        hundredth = Const(^switch, value=0.01)
        whole = Const(^switch, value=1.0)
        loss = Mul(y, hundredth)
        factor = Sub(whole, loss)
        turn = Mul(switch:1, factor)
        """
    result = check_rewrite(sum_loop(body), None)
    for name in ("y", "loss", "factor"):
        assert result.reasons[name] == ("kept", "before_magnifier", "turn"), name
    assert result.reasons["term"][0] == "lowered"


def test_the_users_word_on_the_addition_or_the_variable_counts_for_more(mixlist):
    body = "turn = AddV2(switch:1, term)"
    for entry in ("AddV2", "node:merge"):
        found = decisions(body, modify_mixlist=mixlist(white=[entry]))
        assert found["merge"][0] == "lowered"
        assert found["turn"][0] == "lowered"


def test_force_modes_know_no_gray():
    assert decisions("turn = AddV2(switch:1, term)", mode="force_fp16")["merge"] == (
        "lowered",
        "forced",
        "",
    )

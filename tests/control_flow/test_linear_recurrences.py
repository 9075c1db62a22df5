"""A value that comes back through a product with the same factor each time keeps float32."""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import sum_loop

KEPT = ("kept", "sums_iterations", "")
LOWERED = ("lowered", "gray_follows_lowered", "")


def decision(body, node="turn", **options):
    return check_rewrite(sum_loop(body), None, **options).reasons[node]


@pytest.mark.parametrize(
    "body",
    [
        "turn = MatMul(switch:1, x_enter)",
        "turn = MatMul(x_enter, switch:1)",
        "turn = BatchMatMulV2(switch:1, x_enter)",
        "next_x = MatMul(switch:1, x_enter) \n turn = AddV2(next_x, term)",
        # The factor is computed in the loop, and the same each time.
        "turn = MatMul(switch:1, term)",
        # Two products; a discount; the best action; a limit.
        "once = MatMul(switch:1, x_enter) \n turn = MatMul(x_enter, once)",
        "discount = Const(^switch, value=0.95) \n product = MatMul(x_enter, switch:1) \n"
        "old = Mul(product, discount) \n turn = AddV2(old, term)",
        "product = MatMul(x_enter, switch:1) \n turn = Maximum(product, term)",
        # A lazy walk: half of the value stays.
        "half = Const(^switch, value=0.5) \n product = MatMul(switch:1, x_enter) \n"
        "moved = Mul(product, half) \n stays = Mul(switch:1, half) \n turn = AddV2(moved, stays)",
    ],
)
def test_a_linear_recurrence_keeps_float32(body):
    assert decision(body) == KEPT


@pytest.mark.parametrize(
    "body",
    [
        # A recurrent cell with each of its activations.
        "product = MatMul(switch:1, x_enter) \n sum = AddV2(product, term) \n turn = Tanh(sum)",
        "product = MatMul(switch:1, x_enter) \n sum = AddV2(product, term) \n turn = Relu(sum)",
        "product = MatMul(switch:1, x_enter) \n sum = AddV2(product, term) \n turn = Sigmoid(sum)",
        # An LSTM's output, a product of a gate.
        "product = MatMul(switch:1, x_enter) \n sum = AddV2(product, term) \n gate = Sigmoid(sum)\n"
        "squashed = Tanh(sum) \n turn = Mul(gate, squashed)",
        # The error of a value is a part of it that stays as small.
        "half = Const(^switch, value=0.5) \n product = MatMul(switch:1, x_enter) \n"
        "turn = Mul(product, half)",
    ],
)
def test_a_recurrent_cell_and_what_forgets_are_lowered(body):
    result = check_rewrite(sum_loop(body), None)
    assert result.reasons["product"] == ("lowered", "white_list", "")
    assert result.reasons["turn"][0] == "lowered"


def test_a_product_whose_factors_both_vary_is_lowered():
    assert decision("turn = MatMul(switch:1, switch:1)") == ("lowered", "white_list", "")


def test_a_mixlist_entry_lowers_the_product():
    edited = {"modify_mixlist": {"white-list": {"to-add": ["node:turn"]}}}
    assert decision("turn = MatMul(switch:1, x_enter)", **edited)[0] == "lowered"


def in_functions(text):
    ledger = check_rewrite(text, None).ledger
    return {
        (function.graph, node.name): (node.decision, node.reason)
        for function in ledger.functions
        for node in function.nodes
    }


def while_loop(result, rest=""):
    return f"""
        x = Placeholder(shape=4x4)
        a = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        loop = While(zero, x, a, cond=goes_on, body=step)
        end = Relu(loop:1)
        {rest}
        def goes_on(n[int32], x, a) -> (less):
            three = Const[int32](value=3)
            less = Less(n, three)
        def step(n[int32], x, a) -> (next, {result}, a):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, a)
            cell = Tanh(product)
        """


def test_the_body_of_a_while_is_such_a_loop():
    found = in_functions(while_loop("product"))
    assert found["step", "product"] == ("kept", "sums_iterations")


def test_a_cell_in_the_body_of_a_while_is_lowered():
    assert in_functions(while_loop("cell"))["step", "product"] == ("lowered", "white_list")


def test_a_layer_that_a_loop_calls_is_lowered():
    """Its result is not its next argument."""
    text = sum_loop("called = PartitionedCall(switch:1, x_enter, f=layer) \n turn = Tanh(called)")
    layer = """
        def layer(x, w) -> (product):
            product = MatMul(x, w)
        """
    assert in_functions(text + layer)["layer", "product"] == ("lowered", "white_list")

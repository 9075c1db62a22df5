"""Values that accumulate in the body of a While, or over calls of a function, keep float32."""

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.loop_text import sum_loop

import npu_precision
from npu_precision import _library

tf1 = tf.compat.v1


def decisions(graph_def, fetches, **options):
    """The set of (decision, reason) of the functions' nodes, by op type."""
    mode = {"precision_mode": "allow_mix_precision", **options}
    _, ledger = npu_precision.rewrite_graph_def(graph_def, fetches, **mode)
    found = {}
    for function in ledger.functions:
        for node in function.nodes:
            found.setdefault(node.op, set()).add((node.decision, node.reason))
    return found


def while_loop(step):
    """A functional While whose body adds a product to its state, by `step`."""
    with tf.Graph().as_default() as graph, tf1.variable_scope("", use_resource=True):
        was_v2 = tf1.control_flow_v2_enabled()
        tf1.enable_control_flow_v2()
        try:
            x = tf1.placeholder(tf.float32, [4, 4], name="x")
            _, end = tf1.while_loop(
                lambda i, _: i < 5, lambda i, state: (i + 1, step(state, x)), [0, tf.zeros([4, 4])]
            )
        finally:
            if not was_v2:
                tf1.disable_control_flow_v2()
        tf.identity(end, name="end")
    return graph.as_graph_def()


def test_the_body_of_a_while_adds_in_float32():
    found = decisions(while_loop(lambda state, x: state + tf.matmul(x, x)), ["end"])
    assert found["AddV2"] == {("kept", "sums_iterations")}
    assert found["MatMul"] == {("lowered", "white_list")}


def test_a_recurrent_cell_is_lowered():
    found = decisions(while_loop(lambda state, x: tf.tanh(tf.matmul(state, x) + x)), ["end"])
    assert found["AddV2"] == {("lowered", "gray_follows_lowered")}
    assert found["Tanh"] == {("lowered", "gray_follows_lowered")}


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
def test_a_state_that_goes_out_of_a_function_and_in_again_is_added_up_exactly(mode):
    """In bfloat16 the state would stop growing at 256, in float16 at 2048."""

    @tf.function
    def step(total, x):
        return total + tf.matmul(x, x)

    x = tf.ones([1, 1])
    with npu_precision.autocast(precision_mode=mode):
        total = tf.fill([1, 1], 3000.0)
        for _ in range(5):
            total = step(total, x)
    assert total.numpy() == 3005.0


def in_functions(text, fetches=None, **options):
    """By function and node, (decision, reason) of the functions' nodes."""
    ledger = check_rewrite(text, None, fetches, **options).ledger
    return {
        (function.graph, node.name): (node.decision, node.reason)
        for function in ledger.functions
        for node in function.nodes
    }


BRANCHES = """
        def residual(x) -> (sum):
            product = MatMul(x, x)
            sum = AddV2(product, x)
        def same(x) -> (x):
        """


@pytest.mark.parametrize("op", ["If", "StatelessIf", "Case"])
def test_a_residual_sum_in_a_branch_outside_of_loops_is_lowered(op):
    chosen = "branches=[residual, same]" if op == "Case" else "then_branch=residual"
    chosen += "" if op == "Case" else ", else_branch=same"
    found = in_functions(
        f"""
        x = Placeholder(shape=4x4)
        which = {"Const[int32](value=0)" if op == "Case" else "Const[bool](value=True)"}
        either = {op}(which, x, {chosen})
        end = Relu(either)
        {BRANCHES}
        """
    )
    assert found["residual", "sum"] == ("lowered", "gray_follows_lowered")


def test_a_branch_that_another_node_calls_too_is_judged_as_a_called_function():
    found = in_functions(
        f"""
        x = Placeholder(shape=4x4)
        which = Const[bool](value=True)
        either = If(which, x, then_branch=residual, else_branch=same)
        called = PartitionedCall(either, f=residual)
        end = Relu(called)
        {BRANCHES}
        """
    )
    assert found["residual", "sum"] == ("kept", "sums_calls")


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_a_branch_in_the_body_of_a_loop_sums_over_its_iterations(op):
    """x = cond(p, x + d, x)."""
    found = in_functions(
        f"""
        x = Placeholder(shape=4x4)
        which = Const[bool](value=True)
        zero = Const[int32](value=0)
        loop = {op}(zero, x, which, cond=goes_on, body=step)
        end = Relu(loop:1)
        def goes_on(n[int32], x, which[bool]) -> (less):
            three = Const[int32](value=3)
            less = Less(n, three)
        def step(n[int32], x, which[bool]) -> (next, either, which):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            either = If(which, x, then_branch=residual, else_branch=same)
        {BRANCHES}
        """
    )
    assert found["residual", "sum"] == ("kept", "sums_iterations")


def test_a_branch_in_a_loop_of_tensorflow_1_sums_over_its_iterations():
    text = sum_loop(
        """
        which = Const[bool](^switch, value=True)
        turn = If(which, switch:1, then_branch=residual, else_branch=same)
        """
    )
    assert in_functions(text + BRANCHES)["residual", "sum"] == ("kept", "sums_iterations")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("Neg(x)", "Identity(either)", "sums_calls"),
        # A layer in front of the branch, or behind it.
        ("MatMul(x, x)", "Identity(either)", "gray_follows_lowered"),
        ("Neg(x)", "MatMul(either, either)", "gray_follows_lowered"),
    ],
)
def test_a_branch_in_a_called_function_sums_from_call_to_call_between_argument_and_result(
    before, after, reason
):
    found = in_functions(
        f"""
        x = Placeholder(shape=4x4)
        which = Const[bool](value=True)
        called = PartitionedCall(which, x, f=step)
        end = Relu(called)
        def step(which[bool], x) -> (result):
            first = {before}
            either = If(which, first, then_branch=residual, else_branch=same)
            result = {after}
        {BRANCHES}
        """
    )
    assert found["residual", "sum"][1] == reason


def test_an_if_in_a_body_that_is_off_the_path_of_the_variable_sums_nothing():
    found = in_functions(
        f"""
        x = Placeholder(shape=4x4)
        which = Const[bool](value=True)
        zero = Const[int32](value=0)
        loop = While(zero, x, which, cond=goes_on, body=step)
        end = Relu(loop:1)
        def goes_on(n[int32], x, which[bool]) -> (less):
            three = Const[int32](value=3)
            less = Less(n, three)
        def step(n[int32], x, which[bool]) -> (next, term, which):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            either = If(which, x, then_branch=residual, else_branch=same)
            term = MatMul(either, either)
        {BRANCHES}
        """,
        run=False,  # The products of products leave float16's range.
    )
    assert found["residual", "sum"] == ("lowered", "gray_follows_lowered")


def test_each_of_the_two_reasons_is_told_in_its_own_words():
    sentences = {row["word"]: row["sentence"] for row in _library.describe()["reasons"]}
    assert "iterations of a loop" in sentences["sums_iterations"]
    assert "from call to call" not in sentences["sums_iterations"]
    assert "from call to call of a function" in sentences["sums_calls"]
    assert "loop" not in sentences["sums_calls"]

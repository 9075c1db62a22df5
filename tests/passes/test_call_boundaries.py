"""call_boundaries: an argument that a function would cast at once is passed in the low type."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.text_functions import read_graph_with_functions

import npu_precision

check = functools.partial(check_rewrite, call_boundaries=True, fold_constants=False)
LOOP = """
    x = Placeholder(shape=4x4)
    w = Placeholder(shape=4x4)
    zero = Const[int32](value=0)
    loop = While(zero, x, w, cond=less_than_three, body=multiply)
    end = Exp(loop:1)
    def less_than_three(n[int32], x, w) -> (less):
        three = Const[int32](value=3)
        less = Less(n, three)
    def multiply(n[int32], x, w) -> (next, cell, w):
        one = Const[int32](value=1)
        next = AddV2(n, one)
        product = MatMul(x, w)
        cell = Tanh(product)
"""
LOW_LOOP = """
    loop = While[int32,float16,float16](zero, x/npu_cast_0_float16, w/npu_cast_0_float16)
    end = Exp[float32](loop/npu_cast_1_float32)
    def less_than_three(n[int32], x[float16], w[float16]) -> (less):
    x = _Arg[float16]()
    w = _Arg[float16]()
    def multiply(n[int32], x[float16], w[float16]) -> (next, cell, w):
    x = _Arg[float16]()
    w = _Arg[float16]()
        product = MatMul[float16](x, w)
        cell = Tanh[float16](product)
"""


def in_calls(result):
    """The Casts in functions, by function."""
    return {
        function.signature.name: [node.name for node in function.node_def if node.op == "Cast"]
        for function in result.graph.library.function
    }


def told(ledger):
    """The rewrites by call_boundaries, by node."""
    return {
        entry.node: entry.after
        for part in ledger
        for entry in part.rewrites
        if entry.by == "call_boundaries"
    }


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_a_loop_carries_its_state_and_weights_in_the_low_type(op):
    result = check(LOOP.replace("While(", f"{op}("), LOW_LOOP.replace("While[", f"{op}["))
    assert told(result.ledger) == {"loop": "variable 1 float16, variable 2 float16"}


def test_an_unchanged_variable_is_read_from_before_the_loop_in_float32():
    """No other value is rounded: behind the loop, the weight has all its digits."""
    graph = LOOP.replace("Exp(loop:1)", "Sub(loop:2, w)")
    result = check(graph, None)
    (end,) = (node for node in result.graph.node if node.name == "end")
    assert list(end.input) == ["w", "w"]


def test_a_variable_that_the_body_copies_is_unchanged_too():
    graph = LOOP.replace("(next, cell, w)", "(next, cell, copy)").replace(
        "product = MatMul(x, w)", "product = MatMul(x, w)\n        copy = Identity(w)"
    )
    result = check(graph, None)
    assert in_calls(result) == {"less_than_three": [], "multiply": []}


def test_a_loop_in_a_loop_casts_its_weight_before_both():
    result = check(
        """
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        zero = Const[int32](value=0)
        loop = While(zero, x, w, cond=outer_goes_on, body=outer)
        end = Exp(loop:1)
        def outer_goes_on(n[int32], x, w) -> (less):
            two = Const[int32](value=2)
            less = Less(n, two)
        def outer(n[int32], x, w) -> (next, inside:1, w):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            zero = Const[int32](value=0)
            inside = While(zero, x, w, cond=inner_goes_on, body=inner)
        def inner_goes_on(n[int32], x, w) -> (less):
            two = Const[int32](value=2)
            less = Less(n, two)
        def inner(n[int32], x, w) -> (next, cell, w):
            one = Const[int32](value=1)
            next = AddV2(n, one)
            product = MatMul(x, w)
            cell = Relu(product)
        """,
        None,
        mode="allow_mix_precision_bf16",
    )
    assert not any(in_calls(result).values())
    casts = {node.name for node in result.graph.node if node.op == "Cast"}
    assert casts == {"x/npu_cast_0_bfloat16", "w/npu_cast_0_bfloat16", "loop/npu_cast_1_float32"}


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_gives_and_takes_the_low_type(op):
    """The pair of Casts between the two calls is gone."""
    check(
        f"""
        x = Placeholder(shape=4x4)
        w = Placeholder(shape=4x4)
        one = {op}(x, w, f=first)
        two = {op}(one, w, f=second)
        end = Exp(two)
        def first(x, w) -> (product):
            product = MatMul(x, w)
        def second(x, w) -> (product):
            product = MatMul(x, w)
        """,
        f"""
        one = {op}[float16,float16,float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        two = {op}[float16,float16,float16](one, w/npu_cast_0_float16)
        end = Exp[float32](two/npu_cast_0_float32)
        def first(x[float16], w[float16]) -> (product):
            x = _Arg[float16]()
            w = _Arg[float16]()
            product = MatMul[float16](x, w)
        def second(x[float16], w[float16]) -> (product):
            x = _Arg[float16]()
            w = _Arg[float16]()
            product = MatMul[float16](x, w)
        """,
    )


BRANCHES = """
    x = Placeholder(shape=4x4)
    w = Placeholder(shape=4x4)
    flag = Const[bool](value=True)
    chosen = If(flag, x, w, then_branch=then, else_branch=otherwise)
    end = Exp(chosen)
    def then(x, w) -> (product):
        product = MatMul(x, w)
    def otherwise(x, w) -> (product):
        product = MatMul(w, x)
"""


def test_branches_that_all_cast_a_tensor_get_it_in_the_low_type():
    result = check(BRANCHES, None)
    assert in_calls(result) == {"then": [], "otherwise": []}
    assert told(result.ledger) == {
        "chosen": "argument 0 float16, argument 1 float16, result 0 float16"
    }


def test_what_one_branch_only_needs_is_cast_in_that_branch():
    """A Cast before the branch would also run where it is not needed."""
    result = check(BRANCHES.replace("MatMul(w, x)", "MatMul(x, x)"), None)
    assert in_calls(result)["then"] == ["w/npu_cast_0_float16"]


def test_a_branch_that_keeps_float32_keeps_its_results_there():
    graph = BRANCHES.replace("MatMul(w, x)", "MatMul(w, x, _keep_dtype=1)")
    result = check(graph, None)
    assert told(result.ledger) == {}


STEPS = """
    x = Placeholder(shape=3x4x4)
    w = Placeholder(shape=4x4)
    zero = Const[int32](value=0)
    three = Const[int32](value=3)
    shape = Const[int32](value=[4, 4])
    given = TensorListFromTensor(x, shape)
    made = TensorListReserve[float32,int32](shape, three)
    loop = While(zero, given, made, w, cond=goes_on, body=step)
    stacked = TensorListStack(loop:2, shape, element_dtype=float32)
    end = Exp(stacked)
    def goes_on(n[int32], given[variant], made[variant], w) -> (less):
        three = Const[int32](value=3)
        less = Less(n, three)
    def step(n[int32], given[variant], made[variant], w) -> (next, given, written, w):
        one = Const[int32](value=1)
        next = AddV2(n, one)
        shape = Const[int32](value=[4, 4])
        item = TensorListGetItem(given, n, shape, element_dtype=float32)
        product = MatMul(item, w)
        written = TensorListSetItem(made, n, product)
"""


def test_lists_of_steps_and_results_hold_the_low_type():
    result = check(STEPS, None)
    assert in_calls(result) == {"goes_on": [], "step": []}
    assert told(result.ledger) == {
        "loop": "variable 1 float16, variable 2 float16, variable 3 float16"
    }


def test_a_list_that_something_else_reads_in_float32_stays():
    graph = STEPS.replace("Exp(stacked)", "Exp(first)").replace(
        "stacked = ",
        "first = TensorListGetItem(given, zero, shape, element_dtype=float32)\n    stacked = ",
    )
    result = check(graph, None)
    assert "variable 1" not in told(result.ledger)["loop"]


def test_a_list_whose_elements_are_read_in_float32_too_stays():
    graph = STEPS.replace(
        "product = MatMul(item, w)", "total = Exp(item)\n        product = MatMul(item, w)"
    )
    graph = graph.replace(
        "TensorListSetItem(made, n, product)", "TensorListSetItem(made, n, total)"
    )
    result = check(graph, None)
    assert told(result.ledger) == {"loop": "variable 3 float16"}


AGAIN = """again = While(zero, x, w, cond=less_than_three, body=multiply)
    end = Add(loop:1, again:1)"""
OTHER = """next = AddV2(n, one)
        other = Exp(x)"""


@pytest.mark.parametrize(
    ("what", "edits"),
    [
        ("a function with a second caller", {"end = Exp(loop:1)": AGAIN}),
        (
            "a state that is read in float32",
            {
                "next = AddV2(n, one)": OTHER,
                "(next, cell, w)": "(next, other, w)",
                "MatMul(x, w)": "MatMul(w, w)",
            },
        ),
        ("a weight that changes", {"(next, cell, w)": "(next, cell, x)"}),
        (
            "a condition that reads float32",
            {"less = Less(n, three)": "large = Exp(x)\n        less = Less(n, three)"},
        ),
    ],
)
def test_what_is_not_cast_alone_stays(what, edits):
    graph = LOOP
    for before, after in edits.items():
        assert before in graph
        graph = graph.replace(before, after)
    rewritten, ledger = npu_precision.rewrite_graph_def(
        read_graph_with_functions(graph), "end", precision_mode="allow_mix_precision"
    )
    (loop,) = (node for node in rewritten.node if node.name == "loop")
    assert tf.as_dtype(loop.attr["T"].list.type[1]) == tf.float32, what
    assert "variable 1" not in told(ledger).get("loop", ""), what


def test_what_the_caller_fetches_keeps_its_dtype():
    result = check(LOOP, None, fetches=["loop", "end"])
    assert told(result.ledger) == {}


def test_a_loop_that_runs_no_iteration_yields_its_rounded_state():
    """This is the only case in which values differ, as docs/performance.md says."""
    graph = read_graph_with_functions(
        LOOP.replace("zero = Const[int32](value=0)", "zero = Const[int32](value=3)")
    )
    x = np.float32(1 + 2.0**-11)
    values = {}
    for on in (False, True):
        rewritten, _ = npu_precision.rewrite_graph_def(
            graph, "end", precision_mode="allow_mix_precision", call_boundaries=on
        )
        with tf.Graph().as_default() as loaded, tf.compat.v1.Session(graph=loaded) as session:
            tf.import_graph_def(rewritten, name="")
            fed = {"x:0": np.full([4, 4], x), "w:0": np.eye(4)}
            values[on] = session.run("end:0", fed)[0, 0]
    assert values[False] == pytest.approx(np.exp(x), rel=1e-6)
    assert values[True] == pytest.approx(np.exp(np.float32(np.float16(x))), rel=1e-6)
    assert values[True] != values[False]


def test_one_value_for_two_variables_keeps_its_dtype():
    """The other variable is read in float32."""
    graph = LOOP.replace("(zero, x, w,", "(zero, x, w, x,").replace("Exp(loop:1)", "Exp(loop:3)")
    graph = graph.replace("(n[int32], x, w)", "(n[int32], x, w, last)")
    graph = graph.replace("(next, cell, w)", "(next, cell, w, w)")
    assert told(check(graph, None).ledger) == {"loop": "variable 1 float16"}


def test_a_list_for_two_variables_keeps_its_dtype():
    """Elements of the other variable's list are read in float32."""
    graph = STEPS.replace("(zero, given, made, w,", "(zero, given, made, w, spare,")
    graph = graph.replace(
        "loop =", "spare = TensorListReserve[float32,int32](shape, three)\nloop ="
    )
    graph = graph.replace("made[variant], w)", "made[variant], w, spare[variant])")
    graph = graph.replace("given, written, w)", "given, written, w, written)")
    graph = graph.replace("(loop:2, shape", "(loop:4, shape")
    assert told(check(graph, None).ledger) == {"loop": "variable 1 float16, variable 3 float16"}


CONSTANT_LOOP = LOOP.replace("w = Placeholder(shape=4x4)", "w = Const(shape=4x4)")
check_constants = functools.partial(check, loop_constants=True, fold_constants=True)


def of_constants(result):
    return [
        (entry.node, entry.before, entry.after)
        for part in result.ledger
        for entry in part.rewrites
        if entry.by == "loop_constants"
    ]


def test_the_body_of_a_loop_gets_constants_of_its_own():
    """So that TensorFlow prepares the weights of a MatMul once, and not in each iteration."""
    result = check_constants(
        CONSTANT_LOOP,
        "w/npu_cast_0_float16 = Const[float16]()"
        + LOW_LOOP.replace(
            "product = MatMul[float16](x, w)",
            "w/npu_constant = Const[float16]()\n    product = MatMul[float16](x, w/npu_constant)",
        ),
    )
    assert of_constants(result) == [("loop", "variable 2", "constant")]


def test_the_copy_that_a_body_returns_is_the_variable():
    graph = CONSTANT_LOOP.replace("(next, cell, w)", "(next, cell, copy)").replace(
        "product = MatMul(x, w)", "product = MatMul(x, w)\n        copy = Identity(w)"
    )
    result = check_constants(graph.replace("Exp(loop:1)", "Sub(loop:2, loop:1)"), None)
    assert of_constants(result) == [("loop", "variable 2", "constant")]


MORE = "def multiply(n[int32], x, w) -> (next, cell, more)"
CHANGED = "product = MatMul(x, w)\n        more = AddV2(w, w)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Const(shape=4x4)", "Placeholder(shape=4x4)"),
        ("product = MatMul(x, w)", "half = Tanh(x)\n        product = MatMul(half, half)"),
        ("(next, cell, w)", "(next, w, product)"),
        ("def multiply(n[int32], x, w) -> (next, cell, w)", MORE),
    ],
)
def test_a_variable_stays_that_is_no_constant_or_does_not_stay_one(old, new):
    graph = CONSTANT_LOOP
    if "more" in new:
        graph = graph.replace("product = MatMul(x, w)", CHANGED)
    assert old in graph
    result = check_constants(graph.replace(old, new), None)
    assert of_constants(result) == []


def test_loops_that_share_a_body_keep_their_variables():
    graph = CONSTANT_LOOP.replace(
        "end = Exp(loop:1)",
        """again = While(zero, loop:1, x, cond=less_than_three, body=multiply)
    end = Exp(again:1)""",
    )
    assert of_constants(check_constants(graph, None)) == []


def test_constants_stay_outside_where_it_was_not_asked_for():
    assert of_constants(check_constants(CONSTANT_LOOP, None, loop_constants=False)) == []

"""TensorLists that leave the graph keep float32, because other graphs have ops on their handle.

One case is also in TensorFlow's tests: a list through a function. Lists across the boundaries of
While, If and calls are added.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite

# The op that takes the list out of the graph, and the tensor where it returns.
BOUNDARIES = {
    "PartitionedCall": (
        "away = PartitionedCall(list, f=append)",
        """def append(list[variant]) -> (set):
            zero = Const[int32](value=0)
            item = Const(shape=4)
            set = TensorListSetItem(list, zero, item)""",
    ),
    "If": (
        """p = Const[bool](value=True)
        away = If(p, list, then_branch=leave, else_branch=leave)""",
        """def leave(list[variant]) -> (same):
            same = Identity(list)""",
    ),
    "While": (
        """n = Const[int32](value=0)
        loop = While(n, list, cond=once, body=count)
        away = Identity(loop:1)""",
        """def once(n[int32], list[variant]) -> (less):
            one = Const[int32](value=1)
            less = Less(n, one)
        def count(n[int32], list[variant]) -> (next, list):
            one = Const[int32](value=1)
            next = AddV2(n, one)""",
    ),
    "list": (
        """scalar = Const[int32](value=[])
        most = Const[int32](value=-1)
        lists = EmptyTensorList[variant,int32](scalar, most)
        push = TensorListPushBack(lists, list)
        pop = TensorListPopBack[variant](push, scalar)
        away = Identity(pop:1)""",
        "",
    ),
}


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_list_that_leaves_the_graph_keeps_float32(boundary):
    """The list's other ops are in another graph, which is decided about alone."""
    lines, functions = BOUNDARIES[boundary]
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        list = TensorListFromTensor(white, row)
        before = TensorListStack(list, row)
        {lines}
        stack = TensorListStack(away, row)
        end = Relu(stack)
        {functions}
        """,
        None,
        ["before", "end"],
    )
    for name in "list", "before", "stack":
        assert result.reasons[name] == ("kept", "handle_leaves_graph", "")
    assert result.reasons["white"] == ("lowered", "white_list", "")
    assert result.reasons["end"] == ("kept", "gray_follows_kept", "stack")
    assert (
        "list = TensorListFromTensor[float32,int32](white/npu_cast_0_float32, row)" in result.text
    )


def test_a_list_that_comes_in_as_an_argument_keeps_float32():
    """The function has all ops of the list that the optimizer can see, but not the whole class."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        list = TensorListFromTensor(x, row)
        call = PartitionedCall(list, x, f=set)
        stack = TensorListStack(call, row)
        end = Relu(stack)
        def set(list[variant], x) -> (set):
            zero = Const[int32](value=0)
            row = Const[int32](value=[4])
            get = TensorListGetItem(list, zero, row)
            axis = Const[int32](value=0)
            matrix = ExpandDims(get, axis)
            white = MatMul(matrix, x)
            flat = Reshape(white, row)
            set = TensorListSetItem(list, zero, flat)
        """,
        """
        list = TensorListFromTensor[float32,int32](x, row)
        call = PartitionedCall[variant,float32,variant](list, x)
        stack = TensorListStack[float32](call, row)
        end = Relu[float32](stack)
        def set(list[variant], x) -> (set):
            get = TensorListGetItem[float32](list, zero, row)
            matrix = ExpandDims[float32](get, axis)
            white = MatMul[float16](matrix/npu_cast_0_float16, x/npu_cast_0_float16)
            flat = Reshape[float16](white, row)
            set = TensorListSetItem[float32](list, zero, flat/npu_cast_0_float32)
        """,
    )
    (function,) = result.ledger.functions
    assert function.node("get").reason == "handle_leaves_graph"
    assert function.node("set").reason == "handle_leaves_graph"


def test_a_list_that_stays_in_a_function_is_lowered_there():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        call = PartitionedCall(x, f=by_rows)
        end = Relu(call)
        def by_rows(x) -> (stack):
            row = Const[int32](value=[4])
            zero = Const[int32](value=0)
            white = MatMul(x, x)
            list = TensorListFromTensor(white, row)
            get = TensorListGetItem(list, zero, row)
            gray = Relu(get)
            set = TensorListSetItem(list, zero, gray)
            push = TensorListPushBack(set, get)
            stack = TensorListStack(push, row)
        """,
        """
        call = PartitionedCall[float32,float32](x)
        end = Relu[float32](call)
        def by_rows(x) -> (stack/npu_cast_0_float32):
            white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
            list = TensorListFromTensor[float16,int32](white, row)
            get = TensorListGetItem[float16](list, zero, row)
            gray = Relu[float16](get)
            set = TensorListSetItem[float16](list, zero, gray)
            push = TensorListPushBack[float16](set, get)
            stack = TensorListStack[float16](push, row)
        """,
    )


def test_a_list_that_is_fetched_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        list = TensorListFromTensor(white, row)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = TensorListFromTensor[float32,int32](white/npu_cast_0_float32, row)
        """,
        run=False,  # A session cannot return a variant.
    )
    assert result.reasons["list"] == ("kept", "handle_leaves_graph", "")


def test_a_list_that_is_fetched_and_read_keeps_float32():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        list = TensorListFromTensor(white, row)
        stack = TensorListStack(list, row)
        end = Relu(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = TensorListFromTensor[float32,int32](white/npu_cast_0_float32, row)
        stack = TensorListStack[float32](list, row)
        end = Relu[float32](stack)
        """,
        ["list", "end"],
        run=False,
    )

"""Several TensorLists in one tensor: the ops on any of them change together, or not at all.

TensorFlow's tests have the same cases: push-back-batch with concat, and joined lists.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.tf_versions import moves_handles

LISTS = """
    x = Placeholder(shape=2x4x4)
    shape = Const[int32](value=[4, 4])
    none = Const[int64](value=[])
    zero = Const[int32](value=0)
    two = Const[int32](value=[2])
    most = Const[int32](value=-1)
    white = BatchMatMulV2(x, x)
    a = EmptyTensorList(shape, most)
    b = EmptyTensorList(shape, most)
    """
READ = """
    concat = TensorListConcatV2(lists:1, shape, none)
    end = Exp(concat)
    """


def test_the_lists_of_a_batch_are_lowered():
    check_rewrite(
        f"""
        {LISTS}
        batch = Pack(a, b)
        push = TensorListPushBackBatch(batch, white)
        lists = Unpack(push, num=2)
        {READ}
        """,
        """
        white = BatchMatMulV2[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        a = EmptyTensorList[float16,int32](shape, most)
        b = EmptyTensorList[float16,int32](shape, most)
        push = TensorListPushBackBatch[float16](batch, white)
        concat = TensorListConcatV2[float16,int32](lists:1, shape, none)
        end = Exp[float32](concat/npu_cast_0_float32)
        """,
    )


# Ops that move the packed handles from the batch to the op that pushes.
MOVES = {
    "BroadcastTo": "c = Pack(a)\nbatch = BroadcastTo(c, two)",
    "Fill": "batch = Fill(two, a)",
    "GatherV2": """
        packed = Pack(a, b)
        order = Const[int32](value=[1, 0])
        batch = GatherV2(packed, order, zero)
        """,
    "Reshape": "c = Pack(a, b)\nbatch = Reshape(c, two)",
    "Gather": """
        packed = Pack(a, b)
        order = Const[int32](value=[1, 0])
        batch = Gather(packed, order)
        """,
    "Split": """
        c = Pack(a, b, a, b)
        halves = Split(zero, c, num_split=2)
        batch = Identity(halves:1)
        """,
    "SplitV": """
        c = Pack(a, b, a)
        sizes = Const[int32](value=[1, 2])
        parts = SplitV(c, sizes, zero, num_split=2)
        batch = Identity(parts:1)
        """,
    "StridedSlice": """
        c = Pack(a, b, a)
        begin = Const[int32](value=[1])
        end_ = Const[int32](value=[3])
        step = Const[int32](value=[1])
        batch = StridedSlice(c, begin, end_, step)
        """,
    "Tile": "c = Pack(a)\nbatch = Tile(c, two)",
    "Transpose": "c = Pack(a, b)\norder = Const[int32](value=[0])\nbatch = Transpose(c, order)",
}


@pytest.mark.parametrize("op", MOVES)
def test_packed_handles_are_followed_through_what_moves_them(op):
    if not moves_handles(op):
        pytest.skip(f"TensorFlow {tf.__version__} has no kernel of {op} for handles")
    result = check_rewrite(
        f"""
        {LISTS}
        {MOVES[op]}
        push = TensorListPushBackBatch(batch, white)
        lists = Unpack(push, num=2)
        {READ}
        """,
        None,
    )
    for name in ("a", "push", "concat"):
        assert result.reasons[name][0] == "lowered", name


def test_lists_that_are_joined_pairwise_agree():
    """TensorListConcatLists reads two tensors of lists, and yields one."""
    check_rewrite(
        f"""
        {LISTS}
        batch = Pack(a, b)
        push = TensorListPushBackBatch(batch, white)
        other = TensorListPushBackBatch(batch, x)
        joined = TensorListConcatLists(push, other, element_dtype=float32)
        lists = Unpack(joined, num=2)
        {READ}
        """,
        """
        white = BatchMatMulV2[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        a = EmptyTensorList[float16,int32](shape, most)
        b = EmptyTensorList[float16,int32](shape, most)
        push = TensorListPushBackBatch[float16](batch, white)
        other = TensorListPushBackBatch[float16](batch, x/npu_cast_0_float16)
        joined = TensorListConcatLists[float16](push, other)
        concat = TensorListConcatV2[float16,int32](lists:1, shape, none)
        end = Exp[float32](concat/npu_cast_0_float32)
        """,
    )


def test_one_list_that_keeps_float32_keeps_all_of_them():
    """Each read of the tensor may read either list."""
    result = check_rewrite(
        f"""
        {LISTS}
        black = Exp(white)
        batch = Pack(a, b)
        push = TensorListPushBackBatch(batch, black)
        lists = Unpack(push, num=2)
        again = TensorListPushBackBatch(push, white)
        more = Unpack(again, num=2)
        first = TensorListGetItem(more, zero, shape)
        {READ}
        both = AddV2(first, end)
        """,
        None,
        ["both"],
    )
    for name in ("a", "b", "push", "again", "first", "concat"):
        assert result.reasons[name][0] == "kept", name


def test_a_batch_that_goes_into_a_function_keeps_float32():
    result = check_rewrite(
        f"""
        {LISTS}
        batch = Pack(a, b)
        call = PartitionedCall(batch, x, f=push)
        lists = Unpack(call, num=2)
        {READ}
        def push(batch[variant], x) -> (push):
            push = TensorListPushBackBatch(batch, x)
        """,
        None,
    )
    assert result.reasons["concat"] == ("kept", "handle_leaves_graph", "")


@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16"])
def test_a_list_of_integers_beside_stays_one(mode):
    """The dtype of an op determines which list it reads."""
    result = check_rewrite(
        f"""
        {LISTS}
        numbers = EmptyTensorList(two, most, element_dtype=int32)
        counts = TensorListPushBack(numbers, one_row, element_dtype=int32)
        one_row = Const[int32](value=[1, 2])
        filled = TensorListPushBack(a, matrix)
        matrix = MatMul(w, w)
        w = Const(shape=4x4)
        packed = Pack(filled, counts)
        lists = Unpack(packed, num=2)
        read = TensorListGetItem(lists, zero, shape)
        end = Exp(read)
        """,
        None,
        mode=mode,
    )
    for name in ("a", "filled", "read"):
        assert result.reasons[name][0] == "lowered", name
    dtypes = {node.name: node.attr["element_dtype"].type for node in result.graph.node}
    for name in ("numbers", "counts"):
        assert dtypes[name] == tf.int32.as_datatype_enum

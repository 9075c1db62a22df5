"""TensorLists: all ops on one handle have one element dtype, and change together or not at all.

Some cases are also in TensorFlow's tests: set and get, push and pop, from a tensor. Lists in loops
and branches are added. Lists that leave the graph are in test_tensor_list_boundaries.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite
from support.loop_text import loop
from support.tf_versions import needs_ops

each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


@each_mode
def test_a_list_whose_items_are_lowered_is_lowered(mode, low):
    """Set and get."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4, 4])
        two = Const[int32](value=2)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        white = MatMul(x, x)
        list = TensorListReserve(shape, two)
        set = TensorListSetItem(list, zero, white)
        set_again = TensorListSetItem(set, one, white)
        get = TensorListGetItem(set_again, one, shape)
        gray = Relu(get)
        end = Exp(gray)
        """,
        f"""
        white = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        list = TensorListReserve[{low},int32](shape, two)
        set = TensorListSetItem[{low}](list, zero, white)
        set_again = TensorListSetItem[{low}](set, one, white)
        get = TensorListGetItem[{low}](set_again, one, shape)
        gray = Relu[{low}](get)
        end = Exp[float32](gray/npu_cast_0_float32)
        """,
        mode=mode,
    )
    assert result.reasons["set"] == ("lowered", "gray_follows_lowered", "white")
    assert result.reasons["get"][:2] == ("lowered", "shares_dtype")


def test_a_list_that_one_black_op_writes_to_keeps_float32():
    """The white item is cast before it is written, and its reader gets the vote "kept"."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4, 4])
        two = Const[int32](value=2)
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        white = MatMul(x, x)
        black = Exp(x)
        list = TensorListReserve(shape, two)
        set = TensorListSetItem(list, zero, white)
        set_again = TensorListSetItem(set, one, black)
        get = TensorListGetItem(set_again, zero, shape)
        gray = Relu(get)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        list = TensorListReserve[float32,int32](shape, two)
        set = TensorListSetItem[float32](list, zero, white/npu_cast_0_float32)
        set_again = TensorListSetItem[float32](set, one, black)
        get = TensorListGetItem[float32](set_again, zero, shape)
        gray = Relu[float32](get)
        """,
    )
    assert result.reasons["set_again"] == ("kept", "gray_follows_kept", "black")
    assert result.reasons["get"][:2] == ("kept", "shares_dtype")


def test_a_list_of_sources_alone_follows_what_reads_it():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4])
        list = TensorListFromTensor(x, shape)
        stack = TensorListStack(list, shape)
        white = MatMul(stack, x)
        end = Softmax(white)
        """,
        """
        list = TensorListFromTensor[float16,int32](x/npu_cast_0_float16, shape)
        stack = TensorListStack[float16](list, shape)
        white = MatMul[float16](stack, x/npu_cast_0_float16)
        end = Softmax[float32](white/npu_cast_0_float32)
        """,
    )


def test_push_and_pop():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4, 4])
        most = Const[int32](value=5)
        white = MatMul(x, x)
        list = EmptyTensorList(shape, most)
        one = TensorListPushBack(list, white)
        two = TensorListPushBack(one, white)
        pop = TensorListPopBack(two, shape)
        again = TensorListPopBack(pop, shape)
        sum = AddV2(pop:1, again:1)
        end = Exp(sum)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = EmptyTensorList[float16,int32](shape, most)
        one = TensorListPushBack[float16](list, white)
        two = TensorListPushBack[float16](one, white)
        pop = TensorListPopBack[float16](two, shape)
        again = TensorListPopBack[float16](pop, shape)
        sum = AddV2[float16](pop:1, again:1)
        end = Exp[float32](sum/npu_cast_0_float32)
        """,
    )


def test_from_a_tensor_to_a_tensor():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4])
        indices = Const[int32](value=[0, 2])
        white = MatMul(x, x)
        list = TensorListFromTensor(white, shape)
        stack = TensorListStack(list, shape)
        gather = TensorListGather(list, indices, shape)
        sum = MatMul(gather, stack)
        end = Softmax(sum)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = TensorListFromTensor[float16,int32](white, shape)
        stack = TensorListStack[float16](list, shape)
        gather = TensorListGather[float16](list, indices, shape)
        sum = MatMul[float16](gather, stack)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )


def test_split_scatter_and_concat():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[-1, 4])
        lengths = Const[int64](value=[1, 3])
        none = Const[int64](value=[])
        row = Const[int32](value=[4])
        indices = Const[int32](value=[3, 2, 1, 0])
        four = Const[int32](value=4)
        white = MatMul(x, x)
        split = TensorListSplit(white, shape, lengths)
        concat = TensorListConcatV2(split, shape, none)
        scatter = TensorListScatterV2(concat, indices, row, four)
        stack = TensorListStack(scatter, row)
        end = Softmax(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        split = TensorListSplit[float16,int32](white, shape, lengths)
        concat = TensorListConcatV2[float16,int32](split, shape, none)
        scatter = TensorListScatterV2[float16,int32](concat, indices, row, four)
        stack = TensorListStack[float16](scatter, row)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


def test_two_lists_joined_into_one_agree():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        a = TensorListFromTensor(white, row)
        b = TensorListFromTensor(x, row)
        joined = TensorListConcatLists(a, b, element_dtype=float32)
        stack = TensorListStack(joined, row)
        end = Softmax(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        a = TensorListFromTensor[float16,int32](white, row)
        b = TensorListFromTensor[float16,int32](x/npu_cast_0_float16, row)
        joined = TensorListConcatLists[float16](a, b)
        stack = TensorListStack[float16](joined, row)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


def test_lists_added_up_and_zeros_like_a_list_agree():
    """Gradients of lists are added up like this."""
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        a = TensorListFromTensor(white, row)
        zeros = ZerosLike(a)
        sum = AddN(a, zeros)
        stack = TensorListStack(sum, row)
        end = Softmax(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        a = TensorListFromTensor[float16,int32](white, row)
        stack = TensorListStack[float16](sum, row)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


def test_two_lists_decide_apart():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        black = Exp(x)
        a = TensorListFromTensor(white, row)
        b = TensorListFromTensor(black, row)
        a_stack = TensorListStack(a, row)
        b_stack = TensorListStack(b, row)
        sum = AddV2(a_stack, b_stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        a = TensorListFromTensor[float16,int32](white, row)
        b = TensorListFromTensor[float32,int32](black, row)
        a_stack = TensorListStack[float16](a, row)
        b_stack = TensorListStack[float32](b, row)
        sum = AddV2[float32](a_stack/npu_cast_0_float32, b_stack)
        """,
    )


def test_a_list_that_a_loop_writes_is_lowered_with_it():
    """Push-back in a loop of TensorFlow 1; the list goes around beside the product."""
    check_rewrite(
        loop(
            """start = Identity(x)
            shape = Const[int32](value=[4, 4])
            most = Const[int32](value=-1)
            list = EmptyTensorList(shape, most)
            list_enter = Enter(list, frame_name=loop)
            list_merge = Merge[variant](list_enter, list_next)
            list_switch = Switch(list_merge, cond)
            list_exit = Exit(list_switch)""",
            """turn = MatMul(switch:1, switch:1)
            push = TensorListPushBack(list_switch:1, turn)
            list_next = NextIteration(push)
            stack = TensorListStack(list_exit, shape)""",
        ).replace("end = Softmax(exit)", "end = Softmax(stack)"),
        """
        start = Identity[float32](x)
        list = EmptyTensorList[float16,int32](shape, most)
        enter = Enter[float16](start/npu_cast_0_float16)
        merge = Merge[float16](enter, next)
        switch = Switch[float16](merge, cond)
        turn = MatMul[float16](switch:1, switch:1)
        push = TensorListPushBack[float16](list_switch:1, turn)
        stack = TensorListStack[float16](list_exit, shape)
        next = NextIteration[float16](turn)
        exit = Exit[float16](switch)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


@pytest.mark.parametrize(
    ("fork", "chosen"),
    [
        ("Switch(list, p)", "Const[bool](value=True)"),
        ("Switch(list, p)", "Const[bool](value=False)"),
        pytest.param(
            "_SwitchN(list, p, num_outs=2)", "Const[int32](value=1)", marks=needs_ops("_SwitchN")
        ),
    ],
)
def test_a_list_that_one_of_two_branches_writes_is_lowered_with_it(fork, chosen):
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        p = {chosen}
        row = Const[int32](value=[4])
        zero = Const[int32](value=0)
        vector = Const(shape=4x1)
        white = MatMul(x, x)
        list = TensorListFromTensor(white, row)
        fork = {fork}
        item = Identity(vector)
        flat = Reshape(item, row)
        yes = TensorListSetItem(fork:1, zero, flat)
        join = Merge(fork, yes)
        stack = TensorListStack(join, row)
        end = Softmax(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = TensorListFromTensor[float16,int32](white, row)
        item = Identity[float32](vector)
        flat = Reshape[float32](item, row)
        yes = TensorListSetItem[float16](fork:1, zero, flat/npu_cast_0_float16)
        stack = TensorListStack[float16](join, row)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
    )


def test_the_length_of_a_list_and_the_shape_of_its_items_stay_integers():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        white = MatMul(x, x)
        list = TensorListFromTensor(white, row)
        length = TensorListLength(list)
        resized = TensorListResize(list, length)
        stack = TensorListStack(resized, row)
        end = Softmax(stack)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        list = TensorListFromTensor[float16,int32](white, row)
        stack = TensorListStack[float16](resized, row)
        end = Softmax[float32](stack/npu_cast_0_float32)
        """,
        ["length", "end"],
    )


def test_a_list_of_integers_is_left_alone():
    check_rewrite(
        """
        x = Placeholder[int32](shape=4x4)
        row = Const[int32](value=[4])
        product = MatMul(x, x)
        list = TensorListFromTensor(product, row)
        stack = TensorListStack[int32](list, row)
        """,
        UNCHANGED,
    )


def test_force_fp32_raises_a_list_of_halves():
    check_rewrite(
        """
        x = Placeholder[float16](shape=4x4)
        row = Const[int32](value=[4])
        product = MatMul(x, x)
        list = TensorListFromTensor(product, row)
        stack = TensorListStack[float16](list, row)
        end = Relu(stack)
        """,
        """
        product = MatMul[float32](x/npu_cast_0_float32, x/npu_cast_0_float32)
        list = TensorListFromTensor[float32,int32](product, row)
        stack = TensorListStack[float32](list, row)
        end/npu_changed = Relu[float32](stack)
        end = Cast[float32,float16](end/npu_changed)
        """,
        mode="force_fp32",
    )


def test_force_fp16_lowers_a_list_of_sources():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        row = Const[int32](value=[4])
        list = TensorListFromTensor(x, row)
        stack = TensorListStack(list, row)
        """,
        """
        list = TensorListFromTensor[float16,int32](x/npu_cast_0_float16, row)
        stack/npu_changed = TensorListStack[float16](list, row)
        stack = Cast[float16,float32](stack/npu_changed)
        """,
        mode="force_fp16",
    )

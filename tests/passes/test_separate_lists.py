"""separate_lists: lists that begin as one empty list may have two dtypes."""

from __future__ import annotations

import functools

import pytest
from support.check_rewrite import check_rewrite

check = functools.partial(check_rewrite, rewrites="separate_lists")
EMPTY = {
    "EmptyTensorList": "TensorListPushBack({}, {})",
    "TensorListReserve": "TensorListSetItem({}, zero, {})",
}


def graph(make):
    """A white and a black value, each the element of a list that begins as the node "list"."""
    return f"""
        x = Placeholder(shape=4x4)
        shape = Const[int32](value=[4, 4])
        zero = Const[int32](value=0)
        one = Const[int32](value=1)
        white = MatMul(x, x)
        black = Exp(x)
        list = {make}(shape, one)
        whites = {EMPTY[make].format("list", "white")}
        blacks = {EMPTY[make].format("list", "black")}
        white_back = TensorListGetItem(whites, zero, shape)
        black_back = TensorListGetItem(blacks, zero, shape)
        end = Relu(white_back)
        other = Relu(black_back)
        """


@pytest.mark.parametrize("make", EMPTY)
def test_each_reader_has_a_list_of_its_own(make):
    write = EMPTY[make]
    op, arguments = write.split("(", 1)
    result = check(
        graph(make),
        f"""
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        black = Exp[float32](x)
        list = {make}[float32,int32](shape, one)
        list/npu_of_reader = {make}[float16,int32](shape, one)
        whites = {op}[float16]({arguments.format("list/npu_of_reader", "white")}
        blacks = {op}[float32]({arguments.format("list", "black")}
        white_back = TensorListGetItem[float16](whites, zero, shape)
        black_back = TensorListGetItem[float32](blacks, zero, shape)
        end/npu_changed = Relu[float16](white_back)
        end = Cast[float16,float32](end/npu_changed)
        other = Relu[float32](black_back)
        """,
        ["end", "other"],
    )
    (entry,) = result.ledger.rewrites
    assert (entry.by, entry.node) == ("separate_lists", "list/npu_of_reader")
    assert (entry.before, entry.after) == ("list", "whites")


def lowered(result, name):
    return result.reasons[name][0] == "lowered"


def test_without_it_both_have_one_dtype():
    result = check_rewrite(graph("EmptyTensorList"), None, ["end", "other"])
    assert not lowered(result, "whites")
    assert not lowered(result, "blacks")


def test_a_list_that_a_mixlist_names_is_one(tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text('{"gray-list": {"to-add": ["node:list"]}}')
    result = check(graph("EmptyTensorList"), None, ["end", "other"], modify_mixlist=str(mixlist))
    assert result.ledger.rewrites == ()


ONE_READER = graph("EmptyTensorList").replace("PushBack(list, white)", "PushBack(blacks, white)")
NO_FLOATS = """
    shape = Const[int32](value=[4])
    one = Const[int32](value=1)
    numbers = Const[int32](value=[1, 2, 3, 4])
    list = EmptyTensorList[int32,int32](shape, one)
    first = TensorListPushBack[int32](list, numbers)
    second = TensorListPushBack[int32](list, numbers)
    both = TensorListConcatLists[int32](first, second)
    end = TensorListLength(both)
    """


@pytest.mark.parametrize("text", [ONE_READER, NO_FLOATS], ids=["one reader", "no floats"])
def test_others_stay(text):
    assert check(text, None, ["end"], run=text == NO_FLOATS).ledger.rewrites == ()

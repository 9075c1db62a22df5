"""Gray nodes that only move values and get no vote follow their consumers, if that saves something.

The Cast is then before the node, not behind it: the values are the same, bit for bit, but the node
moves fewer bytes, and the Cast runs once instead of in each iteration.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import UNCHANGED, check_rewrite

LOWERED = ("lowered", "gray_follows_consumers")
KEPT = ("kept", "gray_no_votes")


def test_what_a_product_reads_is_cast_before_it_is_transposed():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x8)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        flat = Reshape(turned, order_shape)
        order_shape = Const[int32](value=[8, 4])
        product = MatMul(x, flat)
        end = LogSoftmax(product)
        """,
        """
        turned = Transpose[float16](x/npu_cast_0_float16, order)
        flat = Reshape[float16](turned, order_shape)
        product = MatMul[float16](x/npu_cast_0_float16, flat)
        end = LogSoftmax[float32](product/npu_cast_0_float32)
        """,
    )
    assert result.reasons["turned"] == (*LOWERED, "flat")
    assert result.reasons["flat"] == (*LOWERED, "product")


def test_the_parts_of_a_split_are_cast_at_once():
    check_rewrite(
        """
        x = Placeholder(shape=4x8)
        axis = Const[int32](value=1)
        parts = Split(axis, x, num_split=2)
        first = MatMul(parts, parts:1)
        second = MatMul(parts:1, parts:1)
        end = AddN(first, second)
        """,
        """
        parts = Split[float16](axis, x/npu_cast_0_float16)
        first = MatMul[float16](parts, parts:1)
        second = MatMul[float16](parts:1, parts:1)
        end/npu_changed = AddN[float16](first, second)
        end = Cast[float16,float32](end/npu_changed)
        """,
    )


def test_a_mask_of_booleans_becomes_a_low_one_at_once():
    """0 and 1 are the same in every dtype, so one Cast does what two did."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        zero = Const(value=0.0)
        positive = Greater(x, zero)
        mask = Cast[bool,float32](positive)
        product = MatMul(x, x)
        masked = Mul(product, mask)
        end = LogSoftmax(masked)
        """,
        """
        positive = Greater[float32](x, zero)
        mask = Cast[bool,float16](positive)
        product = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        masked = Mul[float16](product, mask)
        end = LogSoftmax[float32](masked/npu_cast_0_float32)
        """,
    )
    assert result.reasons["mask"] == (*LOWERED, "masked")


def test_a_cast_of_numbers_keeps_its_dtype():
    """An integer may be too large for the low type, or have more digits."""
    result = check_rewrite(
        """
        i = Const[int32](value=[[1, 70000]])
        x = Placeholder(shape=2x2)
        numbers = Cast[int32,float32](i)
        product = MatMul(x, x)
        scaled = Mul(product, numbers)
        end = LogSoftmax(scaled)
        """,
        None,
        run=False,
    )
    assert result.reasons["numbers"] == (*KEPT, "")


def test_the_cause_is_what_reads_the_node_itself():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        back = Transpose(turned, order)
        again = Transpose(turned, order)
        first = MatMul(back, back)
        second = MatMul(again, again)
        end = AddN(first, second)
        """,
        None,
    )
    causes = {name: result.reasons[name] for name in ("turned", "back", "again")}
    assert causes["back"] == (*LOWERED, "first")
    assert causes["again"] == (*LOWERED, "second")
    assert causes["turned"] in ((*LOWERED, "back"), (*LOWERED, "again"))


@pytest.mark.parametrize(
    "reader",
    [
        "Exp(turned)",  # black
        "Relu(turned)",  # gray without a vote, but it computes
        "Slice(turned, order, order)",  # moves some of the values only: casting those is cheaper
        "Cast[float32,float64](turned)",
    ],
)
def test_a_reader_that_stays_keeps_it(reader):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        product = MatMul(turned, turned)
        other = {reader}
        """,
        None,
        ["product", "other"],
    )
    assert result.reasons["turned"] == (*KEPT, "")


def test_a_fetched_node_stays():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        product = MatMul(turned, turned)
        """,
        None,
        ["turned", "product"],
    )
    assert result.reasons["turned"] == (*KEPT, "")


def test_only_what_nothing_else_reads_follows():
    """Only the part of a chain below the last consumer in float32 follows."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        black = Exp(turned)
        back = Transpose(turned, order)
        product = MatMul(back, back)
        """,
        """
        turned = Transpose[float32](x, order)
        black = Exp[float32](turned)
        back = Transpose[float16](turned/npu_cast_0_float16, order)
        product/npu_changed = MatMul[float16](back, back)
        product = Cast[float16,float32](product/npu_changed)
        """,
        ["black", "product"],
    )
    assert result.reasons["turned"] == (*KEPT, "")
    assert result.reasons["back"] == (*LOWERED, "product")


def test_its_shape_may_be_read_too():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        product = MatMul(turned, turned)
        shape = Shape(turned)
        end = Reshape(product, shape)
        """,
        """
        turned = Transpose[float16](x/npu_cast_0_float16, order)
        product = MatMul[float16](turned, turned)
        shape = Shape[float16](turned)
        end/npu_changed = Reshape[float16](product, shape)
        end = Cast[float16,float32](end/npu_changed)
        """,
    )
    assert result.reasons["shape"] == (*LOWERED, "product")


@pytest.mark.parametrize(
    "mover",
    [
        "Identity(x)",
        "Reshape(x, order)",  # copies nothing: neither a Cast nor a byte would be saved
        "ConcatV2(x, x, zero)",  # would need a Cast for each input
        "Relu(x)",
    ],
)
def test_where_nothing_is_gained_it_stays(mover):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[4, -1])
        zero = Const[int32](value=0)
        moved = {mover}
        product = MatMul(moved, moved, transpose_b=True)
        """,
        None,
        ["product"],
    )
    assert result.reasons["moved"] == (*KEPT, "")


def test_without_a_lowered_reader_nothing_happens():
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        dead = Transpose(turned, order)
        product = Exp(x)
        """,
        UNCHANGED,
        ["product"],
    )


@pytest.mark.parametrize("options", [{"target": "ascend910"}, {"ops_info_dir": True}])
def test_a_target_that_is_emulated_does_not_do_so(options, tmp_path):
    if options.get("ops_info_dir"):
        (tmp_path / "ops.json").write_text(
            '{"MatMul": {"precision_reduce": {"flag": "true"}}, "Transpose": {}}'
        )
        options = {"ops_info_dir": tmp_path}
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        order = Const[int32](value=[1, 0])
        turned = Transpose(x, order)
        product = MatMul(turned, turned)
        """,
        None,
        ["product"],
        **options,
    )
    assert result.reasons["turned"] == (*KEPT, "")

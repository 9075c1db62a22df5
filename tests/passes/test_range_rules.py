"""Values that the low type cannot hold stay in float32: guards, masks, and large values."""

import json

import pytest
from support.check_rewrite import check_rewrite


def reason_of_sum(value, low):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        y = MatMul(x, x)
        constant = Const(value={value})
        sum = AddV2(y, constant)
        """,
        None,
        mode=f"allow_mix_precision_{low}",
        run=False,
    )
    return result.reasons["sum"]


KEPT = ("kept", "guard_constant", "constant")
OFFSET = ("kept", "large_offset", "constant")
LOWERED = ("lowered", "gray_follows_lowered", "y")


@pytest.mark.parametrize(
    ("value", "in_float16", "in_bfloat16"),
    [
        (1.0, LOWERED, LOWERED),
        (0.0, LOWERED, LOWERED),
        (0.001, LOWERED, LOWERED),
        (1e-5, KEPT, LOWERED),  # subnormal
        (1e-12, KEPT, LOWERED),  # zero
        (0.000030517578125, KEPT, LOWERED),  # 2^-15, subnormal without being rounded
        (1.0000001, KEPT, KEPT),  # one
        (0.999, LOWERED, KEPT),  # one
        (-0.999, LOWERED, KEPT),
        (-1e9, KEPT, OFFSET),  # minus infinity
        (65504.0, OFFSET, OFFSET),
        (-3.4028234e38, KEPT, KEPT),  # the lowest of float32
        ("-1e400", LOWERED, LOWERED),  # infinity is meant
    ],
)
def test_a_constant_that_would_become_another_one_keeps_the_op_that_reads_it(
    value, in_float16, in_bfloat16
):
    assert reason_of_sum(value, "fp16") == in_float16
    assert reason_of_sum(value, "bf16") == in_bfloat16


def test_a_constant_is_found_behind_ops_that_move_it():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        y = MatMul(x, x)
        dims = Const[int32](value=[4, 4])
        tiny = Const(value=1e-12)
        filled = Fill(dims, tiny)
        copy = Identity(filled)
        guarded = Maximum(y, copy)
        """,
        """
        y = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        filled = Fill[float32](dims, tiny)
        copy = Identity[float32](filled)
        guarded = Maximum[float32](y/npu_cast_0_float32, copy)
        """,
    )
    assert result.reasons["guarded"] == ("kept", "guard_constant", "tiny")


def test_a_large_mask_of_two_values_is_found_and_weights_are_not_looked_at():
    mask = [0.0, -1e9] * 256
    weights = [i * i * 1e-6 for i in range(512)]
    result = check_rewrite(
        f"""
        x = Placeholder(shape=16x16)
        y = MatMul(x, x)
        flat = Reshape(y, shape)
        shape = Const[int32](value=[512])
        mask = Const(value={mask})
        weights = Const(value={weights})
        masked = AddV2(flat, mask)
        scaled = Mul(flat, weights)
        """,
        None,
        ["masked", "scaled"],
        run=False,
    )
    assert result.reasons["masked"] == ("kept", "guard_constant", "mask")
    assert result.reasons["scaled"][0] == "lowered"


def test_a_value_that_is_known_to_be_too_large_is_not_lowered():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        y = MatMul(x, x)
        gate = Sigmoid(y)
        big = Const(value=60000.0)
        two = Const(value=2.0)
        scaled = Mul(gate, big)
        doubled = Mul(scaled, two)
        shifted = Sub(y, doubled)
        halved = Mul(y, two)
        """,
        None,
        ["shifted", "halved"],
    )
    assert result.reasons["scaled"][0] == "lowered"
    assert result.reasons["doubled"] == ("kept", "leaves_range", "")
    assert result.reasons["shifted"] == ("kept", "leaves_range", "doubled")
    assert result.reasons["halved"][0] == "lowered"


def test_a_mixlist_entry_beats_it():
    graph = """
        x = Placeholder(shape=4x4)
        y = MatMul(x, x)
        tiny = Const(value=1e-12)
        guarded = Maximum(y, tiny)
        """
    for entry in ("Maximum", "node:guarded"):
        edits = json.dumps({"white-list": {"to-add": [entry]}})
        result = check_rewrite(graph, None, mixlist_edits=edits)
        assert result.reasons["guarded"][0] == "lowered"
    assert check_rewrite(graph, None).reasons["guarded"] == ("kept", "guard_constant", "tiny")


@pytest.mark.parametrize(
    ("shape", "low", "expected"),
    [
        ("300x300", "fp16", ("kept", "leaves_range", "")),
        ("30x300", "fp16", ("lowered", "white_list", "")),
        ("300x300", "bf16", ("lowered", "white_list", "")),
        ("?x300", "fp16", ("lowered", "white_list", "")),  # nothing is known
    ],
)
def test_a_sum_may_be_too_large_for_the_low_type(shape, low, expected):
    """The sum counts the set elements of a mask: at most 90,000, which is infinite in float16."""
    result = check_rewrite(
        f"""
        given = Placeholder[bool](shape={shape})
        mask = Cast(given, SrcT=bool, DstT=float32)
        axes = Const[int32](value=[0, 1])
        count = Sum(mask, axes)
        """,
        None,
        mode=f"allow_mix_precision_{low}",
        all_white=True,
        run=False,
    )
    assert result.reasons["count"] == expected

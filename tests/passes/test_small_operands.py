"""On a GPU, an operand that is small beside a lowered one is cast, and does not keep the large one.

The graphs are placed on a GPU, and run on a CPU.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.norm_text import STATISTICS
from support.text_graph import placed
from support.tf_versions import needs_gpu_kernels

pytestmark = needs_gpu_kernels
GPU = "/device:GPU:0"


def on_gpu(text):
    return placed(text, GPU)


def reasons(text, mode="allow_mix_precision", **options):
    return check_rewrite(on_gpu(text), None, mode=mode, **options).reasons


def sequence(rest, shape="2x32x8"):
    """A product of three dimensions, which fold_scales leaves alone."""
    return f"""
        x = Placeholder(shape={shape})
        w = Placeholder(shape={shape.rpartition("x")[0].rpartition("x")[0]}x8x8)
        product = BatchMatMulV2(x, w)
        {STATISTICS}
        {rest}
    """


NORM = "scaled = Mul(product, scale)\nend = AddV2(scaled, shift)"


@pytest.mark.parametrize(
    ("mode", "low"),
    [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")],
)
def test_a_norm_of_a_large_tensor_is_computed_in_the_low_type(mode, low):
    result = check_rewrite(
        on_gpu(sequence(f"{NORM}\nlast = LogSoftmax(end)")),
        on_gpu(
            f"""
            product = BatchMatMulV2[{low}](x/npu_cast_0_{low}, w/npu_cast_0_{low})
            squared = Square[float32](variance)
            guarded = AddV2[float32](squared, epsilon)
            inverse = Rsqrt[float32](guarded)
            scale = Mul[float32](inverse, gamma)
            moved = Mul[float32](mean, scale)
            shift = Sub[float32](beta, moved)
            scaled = Mul[{low}](product, scale/npu_cast_0_{low})
            end = AddV2[{low}](scaled, shift/npu_cast_0_{low})
            last = LogSoftmax[float32](end/npu_cast_0_float32)
            """
        ),
        mode=mode,
    )
    assert result.reasons["scaled"] == ("lowered", "small_operand", "scale")
    assert result.reasons["end"] == ("lowered", "small_operand", "shift")
    assert result.reasons["scale"] == ("kept", "before_magnifier", "shift")


def test_it_does_not_matter_which_operand_is_the_small_one():
    assert reasons(sequence("end = Mul(scale, product)"))["end"][:2] == ("lowered", "small_operand")
    assert reasons(sequence("end = Sub(shift, product)"))["end"][:2] == (
        "lowered",
        "small_operand",
    )


@pytest.mark.parametrize(("shape", "is_lowered"), [("1x16x8", True), ("1x15x8", False)])
def test_a_sixteenth_of_the_elements_is_small(shape, is_lowered):
    found = reasons(sequence("end = Mul(product, scale)", shape))
    assert found["end"][0] == ("lowered" if is_lowered else "kept")


def test_a_batch_of_unknown_size_does_not_count():
    text = sequence("end = Mul(product, scale)").replace("shape=2x32x8", "shape=?x15x8")
    text = text.replace("shape=2x8x8", "shape=1x8x8")
    assert reasons(text, run=False)["end"] == ("kept", "gray_follows_kept", "scale")
    assert reasons(text.replace("x15x", "x16x"), run=False)["end"][0] == "lowered"


def test_a_large_operand_that_nothing_lowers_stays():
    text = f"x = Placeholder(shape=2x32x8)\n{STATISTICS}\nend = Mul(x, scale)"
    assert reasons(text)["end"] == ("kept", "gray_no_votes", "")


@pytest.mark.parametrize("epsilon", ["1e-12", "0.0"])
def test_a_scale_that_may_be_huge_keeps_the_product(epsilon):
    text = sequence(NORM).replace("value=0.001", f"value={epsilon}")
    found = reasons(text, run=False)
    assert found["scaled"] == ("kept", "gray_follows_kept", "scale")


@pytest.mark.parametrize(
    "small",
    [
        # What float16 may not hold.
        "small = Exp(gamma)",
        "axis = Const[int32](value=[0])\nall = Reshape(product, shape)\nsmall = Sum(all, axis)",
        # A keep rule: it computes with numbers that the low type does not have.
        "hundred = Const(value=100.0)\nsmall = AddV2(scale, hundred)",
        "million = Const(value=1e6)\nsmall = Mul(scale, million)",
        "tiny = Const(value=1e-9)\nsmall = Mul(scale, tiny)",
        "one = Const(value=1.0)\nlow = Const(value=-1e9)\ngone = Sub(one, gamma)"
        "\nsmall = Mul(gone, low)",
        # A product of roots is as large as the square of one.
        "small = Mul(inverse, inverse)",
        # A root of a sum is tiny where the sum is large.
        "axis = Const[int32](value=[0])\nall = Reshape(product, shape)\ntotal = Sum(all, axis)"
        "\nmore = AddV2(total, epsilon)\nsmall = Rsqrt(more)",
        # What the first input is to these ops is not what they yield.
        "zero = Const[int32](value=0)\nlarge = Exp(gamma)\nsmall = Split(zero, large, num_split=1)",
        "eight = Const[int32](value=[8])\nlarge = Exp(gamma)\nnumber = Const[int32](value=[0])"
        "\npicked = Max(large, number)\nsmall = Fill(eight, picked)",
    ],
)
def test_other_small_operands_have_a_vote(small):
    text = sequence(f"shape = Const[int32](value=[64, 8])\n{small}\nend = Mul(product, small)")
    assert reasons(text, run=False)["end"][0] == "kept"


def test_a_scalar_has_a_vote():
    text = sequence("end = Mul(product, scale)").replace("shape=8)", "shape=1)")
    assert reasons(text)["end"][0] == "kept"


def test_a_quotient_keeps_its_divisor():
    assert reasons(sequence("end = RealDiv(product, scale)"), run=False)["end"][0] == "kept"


def test_what_the_user_names_has_a_vote(mixlist):
    path = mixlist(black=["node:scale"])
    found = reasons(sequence(NORM), modify_mixlist=path)
    assert found["scaled"] == ("kept", "gray_follows_kept", "scale")
    found = reasons(sequence(NORM), modify_mixlist=mixlist(black=["Rsqrt"]))
    assert found["scaled"] == ("kept", "gray_follows_kept", "scale")
    behind = (
        "eight = Const[int32](value=[8])\nsame = Reshape(scale, eight)\nend = Mul(product, same)"
    )
    assert reasons(sequence(behind))["end"][0] == "lowered"
    assert reasons(sequence(behind), modify_mixlist=path)["end"][0] == "kept"


def test_on_a_cpu_such_an_operand_keeps_the_product():
    result = check_rewrite(sequence(NORM), None)
    assert result.reasons["scaled"] == ("kept", "gray_follows_kept", "scale")

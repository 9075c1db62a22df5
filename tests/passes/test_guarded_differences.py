"""A small number that is added to a difference guards a root or quotient less than it seems."""

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_kernels

pytestmark = needs_kernels("bfloat16", "Tanh")

FROM_DIFFERENCE = "difference = Sub(y, t)\nfar = Abs(difference)\nnear = AddV2(far, guard)\n"


def reason_of(body, guard=0.001, mode="allow_mix_precision_bf16", node="y"):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        t = Const(shape=4x4)
        guard = Const(value={guard})
        product = MatMul(x, x)
        y = Tanh(product)
        {body}
        """,
        None,
        ["end"],
        mode=mode,
        run=False,
    )
    return result.reasons[node][1]


@pytest.mark.parametrize(
    ("end", "is_kept"),
    [
        ("end = Rsqrt(near)", True),
        ("end = Sqrt(near)", True),
        ("end = RealDiv(x, near)", True),
        ("end = Exp(near)", False),
    ],
)
def test_what_a_guarded_difference_is_computed_from_keeps_float32(end, is_kept):
    assert (reason_of(FROM_DIFFERENCE + end) == "before_magnifier") == is_kept


def test_so_does_what_is_behind_other_elementwise_ops():
    squared = "difference = SquaredDifference(y, t)\nlarger = Mul(difference, t)\n"
    assert reason_of(f"{squared}near = Maximum(larger, guard)\nend = Sqrt(near)") == (
        "before_magnifier"
    )


@pytest.mark.parametrize(
    ("mode", "guard", "is_kept"),
    [
        ("allow_mix_precision_bf16", 0.24, True),
        ("allow_mix_precision_bf16", 0.26, False),
        ("allow_mix_precision", 0.031, True),
        ("allow_mix_precision", 0.032, False),
    ],
)
def test_a_guard_that_is_large_beside_the_low_types_error_is_enough(mode, guard, is_kept):
    found = reason_of(FROM_DIFFERENCE + "end = Rsqrt(near)", guard, mode)
    assert (found == "before_magnifier") == is_kept


@pytest.mark.parametrize(
    "lines",
    [
        "positive = Relu(y)\nnear = AddV2(positive, guard)",
        "far = Sub(t, t)\nof_t = Abs(far)\nsum = Mean(y, axis)\naxis = Const[int32](value=[0])\n"
        "squared = Square(sum)\nnear = AddV2(squared, guard)",
    ],
    ids=["what is positive", "a mean"],
)
def test_a_guard_of_a_value_with_a_small_relative_error_is_enough(lines):
    assert reason_of(f"{lines}\nend = Rsqrt(near)") != "before_magnifier"


def test_a_difference_behind_a_sum_is_not_looked_for():
    lines = "difference = Sub(y, t)\nsum = Sum(difference, axis)\naxis = Const[int32](value=[0])\n"
    lines += "far = Abs(sum)\nnear = AddV2(far, guard)\nend = Rsqrt(near)"
    assert reason_of(lines, node="far") == "gray_follows_kept"

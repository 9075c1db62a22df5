"""Differences of values that may be almost equal are computed from float32."""

import pytest
from support.check_rewrite import check_rewrite

KEPT = ("kept", "before_magnifier")
LOWERED = ("lowered", "white_list")


def reasons_of(lines, terms=64, columns=8, **options):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x{terms})
        w = Const(shape={terms}x{columns})
        wide = Const(shape=64x64)
        price = Placeholder(shape=8x{columns})
        weight = VarHandleOp(dtype=float, shape=8x{columns})
        learnt = ReadVariableOp[float32](weight)
        axis = Const[int32](value=[0])
        shift = Const[int32](value=[1])
        number = Const(value=0.5)
        large = Const(value=2024.0)
        product = MatMul(x, w)
        z = Relu(product)
        {lines}
        """,
        None,
        ["end"],
        run=False,
        **options,
    )
    return {name: reason[:2] for name, reason in result.reasons.items()}


def test_what_was_added_to_a_price_is_not_lost_beside_it():
    reasons = reasons_of("forecast = AddV2(price, product)\nend = Sub(forecast, price)")
    assert reasons["forecast"] == reasons["end"] == KEPT
    assert reasons["product"] == LOWERED


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        ("end = Sub(z, price)", True),
        ("end = SquaredDifference(price, z)", True),
        (
            "same = Reshape(price, axes)\naxes = Const[int32](value=[8, 8])\nend = Sub(same, z)",
            True,
        ),
        ("end = Sub(large, z)", True),
        ("end = Sub(number, z)", False),
        ("end = Sub(z, learnt)", False),
        ("end = AddV2(z, price)", False),
        ("other = Tanh(product)\nend = Sub(z, other)", False),
    ],
)
def test_a_difference_with_a_measurement_is_computed_in_float32(lines, is_kept, mode):
    assert (reasons_of(lines, mode=mode)["z"] == KEPT) == is_kept


def test_labels_may_be_whole_numbers():
    lines = "label = Placeholder[int32](shape=8x8)\nt = Cast[int32,float32](label)\nend = Sub(z, t)"
    assert reasons_of(lines)["z"] == KEPT


@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        ("next = Roll(sum, shift, axis)\nend = Sub(next, sum)", True),
        ("high = Max(sum, axis)\nmean = Mean(sum, axis)\nend = Sub(high, mean)", True),
        ("less = Mul(sum, number)\nend = Sub(less, sum)", True),
        ("mean = Mean(sum, axis)\nend = Sub(sum, mean)", False),
        ("other = Tanh(sum)\nend = Sub(other, sum)", False),
        ("end = ArgMax(sum, first)\nfirst = Const[int32](value=1)", True),
        ("other = Softplus(sum)\nend = ArgMax(other, first)\nfirst = Const[int32](value=1)", False),
        ("end = Softmax(sum)", False),
    ],
)
def test_a_sum_with_what_is_given_is_kept_where_only_its_differences_count(lines, is_kept):
    reasons = reasons_of(f"sum = AddV2(product, price)\n{lines}")
    assert (reasons["sum"] == KEPT) == is_kept
    assert reasons["product"] == LOWERED


def test_a_norm_of_what_a_layer_yields_is_lowered():
    lines = "sum = AddV2(product, learnt)\nmean = Mean(sum, axis)\nend = Sub(sum, mean)"
    assert reasons_of(lines)["sum"] == ("lowered", "gray_follows_lowered")


@pytest.mark.parametrize(
    "lines",
    [
        "end = Sub(price, product)",
        "mean = Mean(product, axis)\nend = Sub(product, mean)",
        "next = Roll(product, shift, axis)\nend = Sub(product, next)",
        "next = Roll(product, shift, axis)\nleft = Mul(product, next)\nother = Neg(product)\n"
        "right = Mul(next, other)\nend = Sub(left, right)",
    ],
    ids=["a measurement", "a norm of raw features", "neighbours", "a determinant"],
)
@pytest.mark.parametrize(
    ("terms", "columns", "is_kept"), [(16, 8, True), (17, 8, False), (64, 1, True)]
)
def test_a_product_of_few_terms_or_one_column_is_kept(lines, terms, columns, is_kept):
    """A change of coordinates, a look-up, a mean day."""
    assert (reasons_of(lines, terms, columns)["product"] == KEPT) == is_kept


@pytest.mark.parametrize("subtracts", ["Sub", "SquaredDifference"])
def test_a_norm_of_a_convolution_is_lowered_as_a_fused_one_is(subtracts):
    reasons = reasons_of(f"""
        image = Placeholder(shape=8x8x8x1)
        filter = Const(shape=3x3x1x8)
        conv = Conv2D(image, filter, strides=[1, 1, 1, 1], padding="SAME")
        places = Const[int32](value=[0, 1, 2])
        mean = Mean(conv, places, keep_dims=True)
        end = {subtracts}(conv, mean)
    """)
    assert reasons["conv"] == LOWERED


def test_but_not_one_that_reads_a_hidden_layer():
    lines = (
        "v = Const(shape=8x1)\nout = MatMul(z, v)\nt = Placeholder(shape=8x1)\nend = Sub(out, t)"
    )
    reasons = reasons_of(lines)
    assert reasons["out"] == reasons["product"] == LOWERED
    assert reasons["z"] == ("lowered", "gray_follows_lowered")
    assert reasons["end"] == KEPT


def test_weights_of_a_mean_are_no_hidden_layer():
    lines = "p = Softmax(product)\ndays = Const(shape=8x1)\nmean = MatMul(p, days)\n"
    assert reasons_of(f"{lines}end = Sub(large, mean)")["mean"] == KEPT

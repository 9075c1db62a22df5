"""Products that compute whole numbers keep float32, however many terms they add up."""

import pytest
from support.check_rewrite import check_rewrite


def reason_of(node, lines, terms=64):
    result = check_rewrite(
        f"""
        hot = Placeholder(shape=8x{terms})
        ids = Placeholder(shape={terms}x8)
        other = Placeholder(shape=8x8)
        square = Placeholder(shape={terms}x{terms})
        hundred = Const(value=100.0)
        half = Const(value=0.5)
        zero = Const(value=0.0)
        axes = Const[int32](value=[1, 0])
        axis = Const[int32](value=[1])
        picked = MatMul(hot, ids)
        {lines}
        """,
        None,
        ["end"],
        run=False,
    )
    return result.reasons[node][:2]


KEPT = ("kept", "before_magnifier")


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")], ids=["log first", "floor first"])
def test_the_order_of_the_magnifiers_by_name_does_not_matter(names):
    """A Floor keeps a product of three terms, a Log does not."""
    log, floor = names
    lines = f"z = Mul(picked, half)\n{log} = Log(z)\n{floor} = Floor(z)\nend = AddV2(a, b)"
    assert reason_of("picked", lines, terms=3) == KEPT
    assert reason_of("z", lines, terms=3) == KEPT


@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        ("end = Cast[float32,int32](picked)", True),
        (
            "cents = Mul(picked, hundred)\nwhole = Round(cents)\nend = Cast[float32,int32](whole)",
            True,
        ),
        ("flat = Transpose(picked, axes)\nend = Cast[float32,int32](flat)", True),
        ("end = FloorMod(picked, hundred)", True),
        ("end = Equal(picked, other)", True),
        ("end = NotEqual(other, picked)", True),
        ("part = Mul(picked, half)\nend = Cast[float32,int32](part)", False),
        ("hidden = Relu(picked)\nend = Cast[float32,int32](hidden)", False),
        ("end = Cast[float32,float64](picked)", False),
        ("end = Floor(picked)", False),
        ("end = FloorMod(hundred, picked)", False),
    ],
)
def test_a_product_that_is_read_as_whole_numbers_keeps_float32(lines, is_kept):
    """A Floor finds the pixel beside a place, and the weights of its neighbours the rest."""
    assert (reason_of("picked", lines) == KEPT) == is_kept


def test_so_do_the_products_that_it_multiplies():
    lines = "twice = MatMul(picked, other)\nend = Cast[float32,int32](twice)"
    assert reason_of("picked", lines) == KEPT


def test_what_else_it_multiplies_follows_its_producers():
    lines = "first = MatMul(hot, square)\nsum = AddV2(first, hot)\ntwice = MatMul(sum, ids)\n"
    lines += "end = Cast[float32,int32](twice)"
    assert reason_of("twice", lines) == KEPT
    assert reason_of("first", lines) == ("lowered", "white_list")
    assert reason_of("sum", lines) == ("lowered", "gray_follows_lowered")


@pytest.mark.parametrize(
    "lines",
    [
        "most = Max(picked, axis, keep_dims=true)\nend = Equal(most, picked)",
        "end = NotEqual(picked, zero)",
    ],
    ids=["the gradient of a Max", "zeros"],
)
def test_a_comparison_that_the_low_type_gets_right_keeps_nothing(lines):
    assert reason_of("picked", lines, terms=3) == ("lowered", "white_list")


def test_a_comparison_for_equality_keeps_what_is_computed_from_few_terms():
    lines = "z = Mul(picked, half)\nend = Equal(z, other)"
    assert reason_of("picked", lines, terms=16) == KEPT
    assert reason_of("picked", lines, terms=17) == ("lowered", "white_list")
    assert reason_of("z", lines, terms=17) == KEPT

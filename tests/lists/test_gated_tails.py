"""On a GPU, the Erfc of an exact GELU is gray: it only weighs what it was computed from."""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.text_graph import placed
from support.tf_versions import needs_gpu_kernels

pytestmark = needs_gpu_kernels
GPU = "/device:GPU:0"
PRODUCT = """
    a = Placeholder(shape=4x8)
    b = Placeholder(shape=8x8)
    half = Const(value=0.5)
    root = Const(value=0.70710678)
    x = MatMul(a, b)
    minus = Neg(x)
    argument = Mul(minus, root)
    tail = Erfc(argument)
"""
GELU = "halved = Mul(x, half)\nend = Mul(halved, tail)"


def decided(rest, device=GPU, product=PRODUCT, **options):
    text = placed(f"{product}\n{rest}", device)
    rewritten = check_rewrite(text, None, mode="allow_mix_precision", **options)
    return rewritten.reasons["tail"][:2]


@pytest.mark.parametrize(
    "rest",
    [
        GELU,
        "end = Mul(tail, x)",
        "scaled = RealDiv(x, root)\nend = Mul(scaled, tail)",
        # As in a training step, where the gradient is weighed too.
        f"{GELU.replace('end', 'y')}\nother = Mul(tail, half)\nend = Add(y, other)",
    ],
)
def test_of_a_gelu_it_follows_the_product(rest):
    assert decided(rest) == ("lowered", "gray_follows_lowered")


@pytest.mark.parametrize(
    "rest",
    [
        "end = Mul(tail, half)",
        "end = Mul(tail, a)",
        "end = Add(tail, x)",
        f"{GELU.replace('end', 'y')}\nother = Log(tail)\nend = Add(y, other)",
        f"{GELU.replace('end', 'y')}\nend = RealDiv(y, tail)",
        # An Exp restores what the tail has lost.
        "grows = Exp(x)\nweighed = Mul(tail, grows)\nown = Mul(tail, x)\nend = Add(weighed, own)",
        "grows = Exp(x)\nmore = Mul(grows, half)\nweighed = Mul(tail, more)\nown = Mul(tail, x)"
        "\nend = Add(weighed, own)",
        f"{GELU.replace('end', 'y')}\ngrows = Exp(x)\nend = Mul(y, grows)",
        f"{GELU.replace('end', 'y')}\nsum = Add(y, x)\ngrows = Exp(x)\nend = Mul(sum, grows)",
    ],
    ids=["alone", "another", "sum", "logarithm", "divisor", "exp", "product", "restored", "later"],
)
def test_elsewhere_it_is_on_the_black_list(rest):
    assert decided(rest) == ("kept", "black_list")


def test_the_upper_tail_is_on_the_black_list():
    """x * Erfc(x) is small where x is large."""
    product = PRODUCT.replace("minus = Neg(x)", "minus = Mul(x, half)")
    assert decided(GELU, product=product) == ("kept", "black_list")


def test_on_a_cpu_it_is_on_the_black_list():
    assert decided(GELU, device="/device:CPU:0") == ("kept", "black_list")


def test_a_mixlist_decides_first(mixlist):
    assert decided(GELU, modify_mixlist=mixlist(black=["Erfc"])) == ("kept", "black_list")

"""An Einsum is a product of matrices, or a reduction: its equation says which."""

import pytest
from support.check_rewrite import check_rewrite


def reason(equation, operands, **options):
    shape = "4x4"
    inputs = ", ".join(["y", "x"][:operands])
    result = check_rewrite(
        f"""
        x = Placeholder(shape={shape})
        y = MatMul(x, x)
        e = Einsum({inputs}, equation={equation}, N={operands})
        """,
        None,
        **options,
    )
    return result.reasons["e"]


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->", "ij,ij->i"])
def test_a_product_over_a_common_index_is_lowered(equation):
    assert reason(equation, 2) == ("lowered", "white_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->", 1), ("ij->j", 1), ("ij,kl->jl", 2)])
def test_a_reduction_keeps_float32_as_a_sum_does(equation, operands):
    assert reason(equation, operands) == ("kept", "black_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->ji", 1), ("ij,kl->ijkl", 2)])
def test_without_a_sum_it_is_lowered(equation, operands):
    assert reason(equation, operands) == ("lowered", "white_list", "")


def test_the_mixlist_beats_the_equation():
    edits = '{"white-list": {"to-add": ["Einsum"]}}'
    assert reason("ij->", 1, mixlist_edits=edits) == ("lowered", "white_list", "")

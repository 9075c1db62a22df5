"""The number of terms of a product, which decides before angles and whole numbers."""

import pytest
from support.check_rewrite import check_rewrite


@pytest.mark.parametrize(("terms", "is_kept"), [(3, True), (17, False)])
@pytest.mark.parametrize("batch", ["4x50", "?x50"])
def test_a_product_that_a_pass_flattened_has_the_terms_of_its_weights(batch, terms, is_kept):
    """Points [batch, n, 3] times a rotation, and then the cells that they are in."""
    result = check_rewrite(
        f"""
        points = Placeholder(shape={batch}x{terms})
        turn = Const(shape={terms}x{terms})
        turned = BatchMatMulV2(points, turn)
        end = Floor(turned)
        """,
        None,
        mode="allow_mix_precision_bf16",
        rewrites="none,flatten_mat_muls",
        run=False,
    )
    (product,) = (node for node in result.ledger.nodes if node.op == "MatMul")
    assert (product.decision == "kept") == is_kept

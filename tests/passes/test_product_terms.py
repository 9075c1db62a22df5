"""Before angles, places and whole numbers, products of few terms keep float32."""

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_ops


@pytest.mark.parametrize(
    ("magnifier", "terms", "kept"),
    [
        ("Sin(z)", 1, True),
        ("Sin(z)", 16, True),
        ("Sin(z)", 17, False),
        ("Floor(z)", 3, True),
        ("Floor(z)", 17, False),
        ("Cast[float32,int32](z)", 3, True),
        # Not the error in pixels counts here, but the relative one.
        ("Log(z)", 3, False),
        ("Cast[float32,float64](z)", 3, False),
    ],
)
def test_before_angles_and_whole_numbers_so_are_products_of_few_terms(magnifier, terms, kept):
    """A change of coordinates has up to four terms, Fourier features up to sixteen."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x32)
        w = Const(shape=32x{terms})
        first = MatMul(x, w)
        scaled = Mul(first, two)
        two = Const(value=2.0)
        frequencies = Const(shape={terms}x8)
        z = MatMul(scaled, frequencies)
        end = {magnifier}
        """,
        None,
        run=False,
    )
    reason = ("kept", "before_magnifier", "end") if kept else ("lowered", "white_list", "")
    assert result.reasons["z"] == reason
    assert (result.reasons["scaled"] == reason) == kept
    assert result.reasons["first"] == ("lowered", "white_list", "")


def test_a_product_of_unknown_shape_has_many_terms():
    result = check_rewrite(
        """
        x = Placeholder(shape=?x?)
        w = Placeholder(shape=?x8)
        z = MatMul(x, w)
        end = Sin(z)
        """,
        None,
        run=False,
    )
    assert result.reasons["z"] == ("lowered", "white_list", "")


@pytest.mark.parametrize(
    ("image", "op"),
    [
        ("10x10", "CropAndResize(image, boxes, ids, size)"),
        ("10x10", "ImageProjectiveTransformV2(image, eight, size, interpolation=BILINEAR)"),
        ("10x10", "ExtractGlimpse(image, size, offsets)"),
        ("10x10", "ScaleAndTranslate(image, size, pair, pair)"),
    ],
    ids=lambda text: text.partition("(")[0],
)
@needs_ops("ImageProjectiveTransformV2", "ScaleAndTranslate")
def test_places_in_an_image_are_computed_in_float32(image, op):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x32)
        w = Const(shape=32x8)
        product = MatMul(x, w)
        moved = Sigmoid(product)
        begin = Const[int32](value=[0, 0])
        four = Const[int32](value=[4, 4])
        two = Const[int32](value=[4, 2])
        one = Const[int32](value=[1, 2])
        flat = Const[int32](value=[2])
        boxes = Slice(moved, begin, four)
        offsets = Slice(moved, begin, two)
        row = Slice(moved, begin, one)
        pair = Reshape(row, flat)
        eight = Identity(moved)
        image = Placeholder(shape=4x{image}x3)
        ids = Const[int32](value=[0, 1, 2, 3])
        size = Const[int32](value=[5, 5])
        end = {op}
        """,
        None,
        run=False,
    )
    assert result.reasons["moved"] == ("kept", "before_magnifier", "end")
    assert result.reasons["product"][0] == "lowered"


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

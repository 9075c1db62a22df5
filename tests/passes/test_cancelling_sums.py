"""Sums whose terms cancel are computed in float32: variances, and 1 - sum(x * y)."""

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_gpu_kernels


def variance(end):
    """The mean of a square and the square of the mean, combined by the lines `end`."""
    return check_rewrite(
        f"""
        x = Placeholder(shape=8x8)
        product = MatMul(x, x)
        four = Const(value=4.0)
        epsilon = Const(value=0.5)
        axis = Const[int32](value=[1])
        shifted = AddV2(product, four)
        square = Square(shifted)
        mean_of_square = Mean(square, axis)
        mean = Mean(shifted, axis)
        square_of_mean = Mul(mean, mean)
        {end}
        """,
        None,
        ["end"],
    )


def test_both_sides_of_a_variance_written_by_hand_are_computed_in_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=1x8x8x1)
        window = Const(shape=3x3x1x1)
        features = Conv2D(x, window, strides=[1, 1, 1, 1], padding=VALID)
        mean = DepthwiseConv2dNative(features, window, strides=[1, 1, 1, 1], padding=VALID)
        square = Mul(features, features)
        mean_of_square = DepthwiseConv2dNative(square, window, strides=[1, 1, 1, 1], padding=VALID)
        square_of_mean = Mul(mean, mean)
        variance = Sub(mean_of_square, square_of_mean)
        """,
        None,
    )
    for name in ("square", "mean", "mean_of_square", "square_of_mean", "variance"):
        assert result.reasons[name] == ("kept", "before_magnifier", "variance"), name
    assert result.reasons["features"][0] == "lowered"


@pytest.mark.parametrize(
    "difference",
    [
        "end = Sub(mean_of_square, square_of_mean)",
        # TensorFlow rewrites (mean_of_square - square_of_mean) + epsilon like this.
        "less = Sub(epsilon, square_of_mean) \n end = AddV2(mean_of_square, less)",
        "more = AddV2(mean_of_square, epsilon) \n end = Sub(more, square_of_mean)",
        "minus = Neg(square_of_mean) \n end = Add(minus, mean_of_square)",
        "scaled = Mul(epsilon, mean_of_square) \n end = Sub(scaled, square_of_mean)",
        # The denominator of SSIM.
        "squares = AddV2(square, square) \n mean_of_squares = Mean(squares, axis) \n"
        "more = AddV2(square_of_mean, square_of_mean) \n end = Sub(mean_of_squares, more)",
    ],
)
def test_so_is_what_a_variance_is_about_back_to_the_last_product(difference):
    """If the mean is large, a rounded x has no digits left for the spread."""
    result = variance(difference)
    assert result.reasons["shifted"] == ("kept", "before_magnifier", "end")
    assert result.reasons["product"][0] == "lowered"


def test_a_sum_of_squares_is_no_difference():
    result = variance("end = AddV2(mean_of_square, square_of_mean)")
    assert result.reasons["shifted"][0] == "lowered"


def test_a_difference_of_two_products_of_different_values_follows_its_predecessors():
    """A rotation: x * cos - y * sin."""
    result = check_rewrite(
        """
        x = Placeholder(shape=32x32)
        y = MatMul(x, x)
        a = Mul(y, y)
        b = Mul(y, y)
        difference = Sub(a, b)
        """,
        None,
    )
    assert result.reasons["difference"][0] == "lowered"


def test_a_blurred_square_minus_a_square_that_is_not_blurred_is_no_variance():
    result = check_rewrite(
        """
        x = Placeholder(shape=1x8x8x1)
        window = Const(shape=3x3x1x1)
        conv = Conv2D(x, window, strides=[1, 1, 1, 1], padding=SAME)
        features = Relu(conv)
        square = Mul(features, features)
        blurred = DepthwiseConv2dNative(square, window, strides=[1, 1, 1, 1], padding=SAME)
        difference = Sub(blurred, square)
        """,
        None,
    )
    assert result.reasons["difference"][0] == "lowered"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("end = Sub(one, sum)", True),
        ("share = RealDiv(sum, total) \n end = Sub(one, share)", True),
        ("end = Sub(sum, one)", True),
        ("end = AddV2(sum, one)", False),
        # TensorFlow's arithmetic optimizer writes the square of a difference so.
        ("end = SquaredDifference(one, sum)", True),
        ("end = Sub(total, sum)", False),
        ("given = Placeholder(shape=scalar) \n end = Sub(given, sum)", False),
        # In the gradient of a Softmax, if the gradient of each probability is one.
        ("end = Sub(ones, sum)", False),
        ("gate = Sigmoid(product) \n end = Sub(one, gate)", False),
    ],
)
def test_before_a_difference_of_a_constant_and_a_sum_of_products_these_are_kept(lines, kept):
    """1 - cos(x, y) of near vectors, Dice losses of good models, soft argmaxes from the centre."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x32)
        w = Const(shape=32x32)
        one = Const(value=1.0)
        axis = Const[int32](value=[1])
        total = Placeholder(shape=8)
        ones = Const(value=[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        product = MatMul(x, w)
        turned = Relu(product)
        terms = Mul(product, turned)
        sum = Sum(terms, axis)
        {lines}
        """,
        None,
        ["end", "sum"],
    )
    for name in ("terms", "turned"):
        assert (result.reasons[name] == ("kept", "before_magnifier", "end")) == kept
    assert result.reasons["product"][0] == "lowered"


GPU = "/device:GPU:0"  # where a Mean is gray


@needs_gpu_kernels
@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (f"end = Sub(product, mean) @ {GPU}", True),
        (f"end = SquaredDifference(product, mean) @ {GPU}", True),
        (f"same = StopGradient(mean) @ {GPU} \n end = Sub(same, product) @ {GPU}", True),
        (f"end = Sub(other, mean) @ {GPU}", False),
        (f"end = Mul(product, mean) @ {GPU}", False),
    ],
)
def test_a_mean_that_is_subtracted_from_its_values_is_computed_in_float32(lines, kept):
    """As in a batch or layer norm of values near 29 that differ by 1."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x32)
        w = Const(shape=32x32)
        axis = Const[int32](value=[0])
        product = MatMul(x, w) @ {GPU}
        other = MatMul(w, w) @ {GPU}
        image = Reshape(product, shape) @ {GPU}
        shape = Const[int32](value=[8, 32])
        mean = Mean(image, axis, keep_dims=True) @ {GPU}
        {lines}
        """,
        None,
        run=False,
    )
    if kept:
        assert result.reasons["mean"] == ("kept", "before_magnifier", "end")
        assert result.reasons["end"][0] == "kept"
    else:
        assert result.reasons["mean"] == ("lowered", "gray_follows_lowered", "image")
    assert result.reasons["image"][0] == "lowered"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("one = Const(value=1.0)\nend = Sub(one, product)", True),
        ("eye = Const(value=[[1.0, 0.0], [0.0, 1.0]])\nend = Sub(eye, product)", True),
        ("one = Const(value=1.0)\nend = Sub(product, one)", False),
        ("two = Const(value=2.0)\nend = Sub(two, product)", False),
        ("eye = Const(value=[[2.0, 0.0], [0.0, 1.0]])\nend = Sub(eye, product)", False),
    ],
)
def test_one_or_an_identity_minus_a_product_keeps_the_product(lines, kept):
    """The distance of unit vectors, or what an update of a Kalman filter leaves of a variance."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=2x64)
        y = Placeholder(shape=64x2)
        p = Placeholder(shape=2x16)
        s = Placeholder(shape=16x64)
        gain = MatMul(p, s)
        unit = Mul(x, gain)
        product = MatMul(unit, y)
        {lines}
        """,
        None,
        ["end"],
        run=False,
    )
    for name in ("product", "unit", "gain"):
        assert (result.reasons[name] == ("kept", "before_magnifier", "end")) == kept

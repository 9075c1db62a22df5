"""Producers of an op that magnifies relative errors keep float32, back to the last product."""

import json

import pytest
from support.check_rewrite import check_rewrite
from support.text_graph import read_graph
from support.tf_versions import need_kernels, needs_gpu_kernels, needs_ops

from npu_precision import rewrite_graph_def

LOW = {"allow_mix_precision_fp16": "float16", "allow_mix_precision_bf16": "bfloat16"}
modes = pytest.mark.parametrize("mode", sorted(LOW))


@modes
def test_a_probability_is_computed_in_float32_before_its_logarithm(mode):
    low = LOW[mode]
    need_kernels(low, "Sigmoid")
    result = check_rewrite(
        """
        x = Placeholder(shape=8x8)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        flat = Reshape(p, shape)
        shape = Const[int32](value=[64])
        one = Const(value=1.0)
        rest = Sub(one, flat)
        loss = Log1p(rest)
        """,
        f"""
        logits = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        p = Sigmoid[float32](logits/npu_cast_0_float32)
        flat = Reshape[float32](p, shape)
        rest = Sub[float32](one, flat)
        loss = Log1p[float32](rest)
        """,
        mode=mode,
    )
    for name in ("p", "flat", "rest"):
        assert result.reasons[name] == ("kept", "before_magnifier", "loss")
    assert result.reasons["logits"][0] == "lowered"


@modes
def test_the_gradient_of_a_bias_is_a_sum_that_ends_the_path(mode):
    """Adam divides each gradient by a deviation, but this must not keep the forward pass."""
    low = LOW[mode]
    need_kernels(low, "Relu", "ReluGrad")
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        deviation = Placeholder(shape=4)
        product = MatMul(x, x)
        relu = Relu(product)
        above = MatMul(relu, relu)
        gradient = ReluGrad(above, relu)
        of_bias = BiasAddGrad(gradient)
        step = RealDiv(of_bias, deviation)
        again = MatMul(gradient, gradient)
        """,
        f"""
        product = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        relu = Relu[{low}](product)
        above = MatMul[{low}](relu, relu)
        gradient = ReluGrad[{low}](above, relu)
        of_bias = BiasAddGrad[float32](gradient/npu_cast_0_float32)
        step = RealDiv[float32](of_bias, deviation)
        again/npu_changed = MatMul[{low}](gradient, gradient)
        again = Cast[{low},float32](again/npu_changed)
        """,
        mode=mode,
    )
    assert result.reasons["gradient"] == ("lowered", "gray_follows_lowered", "above")


@modes
def test_the_gradients_of_a_batch_norms_parameters_end_the_path(mode):
    low = LOW[mode]
    need_kernels(low, "Relu", "ReluGrad", "FusedBatchNormV3", "FusedBatchNormGradV3")
    result = check_rewrite(
        """
        x = Placeholder(shape=1x4x4x2)
        filter = Const(shape=1x1x2x2)
        one = Const(value=[1.0, 1.0])
        none = Const(shape=0)
        deviation = Placeholder(shape=2)
        conv = Conv2D(x, filter, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(conv, one, one, none, none)
        relu = Relu(norm)
        back = Conv2D(relu, filter, strides=[1, 1, 1, 1], padding=SAME)
        gradient = ReluGrad(back, relu)
        of_norm = FusedBatchNormGradV3(gradient, conv, one, norm:3, norm:4, norm:5)
        of_scale = RealDiv(of_norm:1, deviation)
        of_offset = RealDiv(of_norm:2, deviation)
        end = Conv2D(of_norm, filter, strides=[1, 1, 1, 1], padding=SAME)
        """,
        None,
        mode=mode,
    )
    for name in ("norm", "relu", "gradient", "of_norm"):
        assert result.reasons[name][0] == "lowered", name
    assert result.reasons["of_scale"][0] == "kept"


@modes
@pytest.mark.parametrize(("shape", "is_scale"), [("scalar", True), ("1", True), ("4", False)])
def test_what_one_given_number_divides_is_off_by_no_larger_share(mode, shape, is_scale):
    """A loss scale is such a number. Of several divisors, one may be tiny where the dividend is a
    difference.
    """
    low = LOW[mode]
    need_kernels(low, "Relu")
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        scale = Placeholder(shape={shape})
        given = Identity(scale)
        product = MatMul(x, x)
        relu = Relu(product)
        end = RealDiv(relu, given)
        """,
        None,
        mode=mode,
    )
    assert result.reasons["relu"][0] == ("lowered" if is_scale else "kept")
    assert result.reasons["end"][:2] == ("kept", "magnifies")


@modes
def test_ones_as_many_as_the_elements_have_no_error_of_the_elements(mode):
    low = LOW[mode]
    need_kernels(low, "Relu")
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        product = MatMul(x, x)
        relu = Relu(product)
        ones = OnesLike(relu)
        square = Square(y)
        times = Mul(ones, square)
        end = Log(times)
        again = MatMul(relu, relu)
        """,
        None,
        ["end", "again"],
        mode=mode,
    )
    assert result.reasons["times"] == ("kept", "before_magnifier", "end")
    assert result.reasons["relu"] == ("lowered", "gray_follows_lowered", "product")


@modes
@pytest.mark.parametrize("count", ["Shape", "Size"])
def test_a_number_of_elements_has_no_error_of_the_elements(mode, count):
    """The gradient of a mean divides by a number that TensorFlow counts in the step."""
    low = LOW[mode]
    need_kernels(low, "Relu")
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        relu = Relu(product)
        counted = {count}(relu)
        number = Cast[int32,float32](counted)
        flat = Reshape(number, shape)
        shape = Const[int32](value=[-1])
        mean = RealDiv(flat, flat)
        again = MatMul(relu, relu)
        """,
        f"""
        product = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        relu = Relu[{low}](product)
        counted = {count}[{low}](relu)
        number = Cast[int32,float32](counted)
        flat = Reshape[float32](number, shape)
        mean = RealDiv[float32](flat, flat)
        again/npu_changed = MatMul[{low}](relu, relu)
        again = Cast[{low},float32](again/npu_changed)
        """,
        mode=mode,
    )
    assert result.reasons["number"] == ("kept", "before_magnifier", "mean")
    assert result.reasons["relu"] == ("lowered", "gray_follows_lowered", "product")


@modes
@pytest.mark.parametrize(
    ("count", "kept"),
    [
        # The share of zeros, as tf.math.zero_fraction counts it.
        ("differs = NotEqual(relu, none) \n whole = Cast[bool,int64](differs)", False),
        ("best = ArgMax(relu, axis) \n whole = Cast[int64,int32](best)", False),
        ("some = TopKV2(relu, two) \n whole = Identity(some:1)", False),
        ("whole = Neg(relu)", True),
        ("wide = Cast[float32,float64](relu) \n whole = Identity(wide)", True),
    ],
)
def test_before_an_integer_nothing_is_kept_for_a_magnifier_behind_it(mode, count, kept):
    need_kernels(LOW[mode], "Relu")
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        none = Const(value=0.0)
        axis = Const[int32](value=1)
        two = Const[int32](value=2)
        product = MatMul(x, x)
        relu = Relu(product)
        {count}
        number = Cast[{_dtype_of(count)},float32](whole)
        end = Log(number)
        again = MatMul(relu, relu)
        """,
        None,
        ["end", "again"],
        mode=mode,
        run=False,
    )
    assert result.reasons["relu"][:2] == (
        ("kept", "before_magnifier") if kept else ("lowered", "gray_follows_lowered")
    )
    assert result.reasons["number"] == ("kept", "before_magnifier", "end")


def _dtype_of(lines):
    """The dtype of the last of the lines."""
    for name in ("float64", "int64", "int32"):
        if f",{name}]" in lines.splitlines()[-1]:
            return name
    return {"some": "int32", "wide": "float64"}.get(lines.split()[0], "float32")


@modes
def test_what_counts_keeps_no_layer_that_it_counts_in(mode):
    low = LOW[mode]
    need_kernels(low, "Relu", "NotEqual")
    check_rewrite(
        """
        x = Placeholder(shape=4x4)
        zero = Const(value=0.0)
        axes = Const[int32](value=[0, 1])
        size = Const(value=16.0)
        product = MatMul(x, x)
        relu = Relu(product)
        differs = NotEqual(relu, zero)
        ones = Cast[bool,int32](differs)
        count = Sum(ones, axes)
        number = Cast[int32,float32](count)
        part = Sub(size, number)
        share = RealDiv(part, size)
        again = MatMul(relu, relu)
        """,
        f"""
        product = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        relu = Relu[{low}](product)
        differs = NotEqual[{low}](relu, zero/npu_cast_0_{low})
        number = Cast[int32,float32](count)
        part = Sub[float32](size, number)
        share = RealDiv[float32](part, size)
        again/npu_changed = MatMul[{low}](relu, relu)
        again = Cast[{low},float32](again/npu_changed)
        """,
        ["share", "again"],
        mode=mode,
    )


# A branch, and whether an error of its argument reaches its result.
BRANCHES = [
    ("halved = Mul(p, p) \n", "halved", True),
    ("", "p", True),
    (
        "zero = Const(value=0.0) \n less = Less(zero, p) \n result = Cast[bool,float32](less)",
        "result",
        False,
    ),
    ("result = MatMul(p, p)", "result", False),
    ("axis = Const[int32](value=[1]) \n result = Mean(p, axis)", "result", False),
    (
        "axis = Const[int32](value=[1]) \n one = Const(value=1.0) \n rest = Sub(one, p) \n"
        "result = Sum(rest, axis)",
        "result",
        True,
    ),
    ("result = Const(value=2.0)", "result", False),
]


@pytest.mark.parametrize("op", ["If", "StatelessIf", "Case"])
@pytest.mark.parametrize(("lines", "result", "reaches"), BRANCHES)
def test_before_a_branch_only_what_it_computes_its_result_from_is_kept(op, lines, result, reaches):
    """The other branch returns a constant. What is in a branch is decided about there."""
    chosen = "branches=[taken, other]" if op == "Case" else "then_branch=taken, else_branch=other"
    which = "Const[int32](value=0)" if op == "Case" else "Const[bool](value=True)"
    found = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        which = {which}
        product = MatMul(x, x)
        p = Sigmoid(product)
        either = {op}(which, p, {chosen})
        loss = Log(either)
        other = Relu(p)
        def taken(p) -> ({result}):
            {lines}
        def other(p) -> (half):
            half = Const(value=0.5)
        """,
        None,
        ["loss", "other"],
    )
    assert found.reasons["p"] == (
        ("kept", "before_magnifier", "loss")
        if reaches
        else ("lowered", "gray_follows_lowered", "product")
    )


def test_before_a_branch_that_counts_nothing_is_kept():
    """TensorFlow 2 counts zeros in a branch for small tensors, and in one for large ones."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        small = Const[bool](value=True)
        product = MatMul(x, x)
        relu = Relu(product)
        count = StatelessIf(small, relu, then_branch=nonzero, else_branch=nonzero)
        number = Cast[int32,float32](count)
        share = RealDiv(number, number)
        again = MatMul(relu, relu)
        def nonzero(x) -> (count):
            zero = Const(value=0.0)
            axes = Const[int32](value=[0, 1])
            differs = NotEqual(x, zero)
            ones = Cast[bool,int32](differs)
            count = Sum(ones, axes)
        """,
        None,
        ["share", "again"],
    )
    assert result.reasons["relu"] == ("lowered", "gray_follows_lowered", "product")
    assert result.reasons["number"] == ("kept", "before_magnifier", "share")


def test_a_branch_in_a_branch_is_looked_into_as_well():
    result = check_rewrite(
        """
        x = Placeholder(shape=8x8)
        yes = Const[bool](value=True)
        product = MatMul(x, x)
        p = Sigmoid(product)
        q = Relu(product)
        either = If(yes, p, q, yes, then_branch=outer, else_branch=outer)
        loss = Log(either)
        end = Relu(p)
        def outer(p, q, which[bool]) -> (result):
            result = If(which, p, q, then_branch=inner, else_branch=inner)
        def inner(p, q) -> (result):
            product = MatMul(p, p)
            result = AddV2(product, q)
        """,
        None,
        ["loss", "end"],
    )
    assert result.reasons["p"] == ("lowered", "gray_follows_lowered", "product")
    assert result.reasons["q"] == ("kept", "before_magnifier", "loss")


@modes
def test_what_only_changes_the_shape_of_a_product_follows_it(mode):
    """A Cast before it would restore no digit."""
    low = LOW[mode]
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        gradient = MatMul(x, x)
        flat = Reshape(gradient, shape)
        shape = Const[int32](value=[16])
        same = Identity(flat)
        scale = Placeholder(shape=scalar)
        unscaled = RealDiv(same, scale)
        """,
        f"""
        gradient = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        flat = Reshape[{low}](gradient, shape)
        same = Identity[{low}](flat)
        unscaled = RealDiv[float32](same/npu_cast_0_float32, scale)
        """,
        mode=mode,
    )
    assert result.reasons["unscaled"][0] == "kept"
    for name in ("flat", "same"):
        assert result.reasons[name][:2] == ("lowered", "gray_follows_lowered")


@pytest.mark.parametrize(
    ("ops", "kept"),
    [
        ("Log, Neg", True),
        ("Neg, Log", True),
        ("Sqrt, Log", True),
        ("Reciprocal, Neg", True),
        ("Neg, Tanh", False),
    ],
)
def test_a_chain_of_unary_ops_magnifies_what_one_of_them_does(ops, kept):
    """TensorFlow's arithmetic optimizer fuses Log and Neg into one op."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        one = Const(value=1.0)
        rest = Sub(one, p)
        chain = _UnaryOpsComposition(rest, op_names={ops.split(", ")!r})
        end = Relu(chain)
        """,
        None,
        ["end"],
        run=False,
    )
    for name in ("p", "rest"):
        assert (result.reasons[name] == ("kept", "before_magnifier", "chain")) == kept


@pytest.mark.parametrize("op", ["Sum", "Prod"])
@pytest.mark.parametrize(("term", "kept"), [("rest", True), ("p", False)])
def test_a_sum_brings_back_no_digits_that_a_complement_lost(op, term, kept):
    """The terms themselves are averaged, or their errors added, and stay small."""
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        one = Const(value=1.0)
        rest = Sub(one, p)
        axis = Const[int32](value=[1])
        total = {op}({term}, axis)
        loss = Log(total)
        other = Relu(rest)
        """,
        None,
        ["loss", "other"],
    )
    assert (result.reasons[term] == ("kept", "before_magnifier", "loss")) == kept


def test_a_damaged_graph_in_which_what_is_summed_is_a_circle_is_refused():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        axis = Const[int32](value=[1])
        one = Identity(other)
        other = Identity(one)
        total = Sum(one, axis)
        loss = Log(total)
        """
    )
    with pytest.raises(ValueError, match="'graph'"):
        rewrite_graph_def(graph, ["loss", "product"], precision_mode="allow_mix_precision")


@pytest.mark.parametrize("op", ["RealDiv", "DivNoNan"])
def test_a_divisor_that_may_be_close_to_zero_is_computed_in_float32(op):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        one = Const(value=1.0)
        rest = Sub(one, p)
        more = Relu6(logits)
        odds = {op}(more, rest)
        two = AddV2(one, p)
        share = {op}(logits, two)
        end = MatMul(odds, share)
        """,
        None,
        ["end"],
        run=False,
    )
    for name in ("p", "rest", "more"):
        assert result.reasons[name] == ("kept", "before_magnifier", "odds")


def test_its_gradient_follows_by_its_votes():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        loss = Log(p)
        one = Const(value=1.0)
        inverse = Reciprocal(p)
        gradient = Mul(inverse, one)
        to_logits = SigmoidGrad(p, gradient)
        to_x = MatMul(to_logits, x)
        """,
        None,
        ["loss", "to_x"],
    )
    assert result.reasons["to_logits"] == ("kept", "gray_follows_kept", "p")
    assert result.reasons["to_x"][0] == "lowered"


def test_a_mixlist_entry_beats_it():
    graph = """
        x = Placeholder(shape=4x4)
        logits = MatMul(x, x)
        p = Sigmoid(logits)
        loss = Log(p)
        """
    for entry in ("Sigmoid", "node:p"):
        edits = json.dumps({"gray-list": {"to-add": [entry]}})
        result = check_rewrite(graph, None, mixlist_edits=edits)
        assert result.reasons["p"] == ("lowered", "gray_follows_lowered", "logits")


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("power = Pow(y, two)\ntwo = Const(value=2.0)", False),
        ("power = Pow(y, half)\nhalf = Const(value=0.5)", True),
        ("root = Rsqrt(y)", True),
        (
            "safe = AddV2(squared, epsilon)\nsquared = Mul(y, y)\n"
            "epsilon = Const(value=0.001)\nroot = Rsqrt(safe)",
            False,
        ),
        ("turn = Sin(y)", True),
        ("bounded = Tanh(y)\nturn = Sin(bounded)", False),
    ],
)
def test_an_op_magnifies_only_where_its_input_may_be_where_it_does(body, kept):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        y = Relu(product)
        {body}
        """,
        None,
        [line.split(" = ")[0].strip() for line in body.splitlines() if "Const" not in line][-1:],
        run=False,
    )
    assert (result.reasons["y"][1] == "before_magnifier") == kept


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
        x = Placeholder(shape=4x4)
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


@pytest.mark.parametrize("all_white", [False, True])
def test_of_a_node_with_several_dtypes_only_the_one_that_is_read_is_kept(all_white):
    result = check_rewrite(
        """
        x = Placeholder(shape=8x8)
        a = MatMul(x, x)
        b = MatMul(a, x)
        both = IdentityN(a, b)
        positive = Sigmoid(both)
        loss = Log(positive)
        other = Relu(both:1)
        """,
        None,
        ["loss", "other"],
        all_white=all_white,
    )
    node = result.ledger.node("both")
    assert node.dtypes == {"T[0]": ["float32", "float32"], "T[1]": ["float32", "float16"]}
    reason = ("white_list", "") if all_white else ("gray_follows_lowered", "b")
    assert (node.decision, node.reason, node.cause) == ("lowered", *reason)


def test_a_magnifier_that_follows_a_black_op_says_so():
    """The story of its followers then begins at the first node in float32."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        weights = Exp(product)
        shares = RealDiv(weights, weights)
        positive = Relu(shares)
        """,
        None,
    )
    assert result.reasons["shares"] == ("kept", "gray_follows_kept", "weights")
    assert result.reasons["positive"] == ("kept", "gray_follows_kept", "shares")


def test_a_magnifier_says_so_where_only_that_keeps_it():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        positive = Sigmoid(product)
        ratio = RealDiv(product, positive)
        """,
        None,
    )
    assert result.reasons["positive"] == ("kept", "before_magnifier", "ratio")
    assert result.reasons["ratio"] == ("kept", "magnifies", "")


def test_what_guards_before_a_magnifier_says_so():
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        product = MatMul(x, x)
        tiny = Const(value=1e-12)
        square = Square(product)
        guarded = AddV2(square, tiny)
        root = Sqrt(guarded)
        """,
        None,
    )
    assert result.reasons["guarded"] == ("kept", "guard_constant", "tiny")


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

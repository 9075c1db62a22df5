"""Where the path back from an op that magnifies errors ends."""

import pytest
from support.check_rewrite import check_rewrite
from support.loop_text import loop
from support.text_graph import read_graph
from support.tf_versions import need_kernels, needs_ops

from npu_precision import rewrite_graph_def

LOW = {"allow_mix_precision_fp16": "float16", "allow_mix_precision_bf16": "bfloat16"}
modes = pytest.mark.parametrize("mode", sorted(LOW))


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
def test_so_do_the_mean_and_the_variance_of_the_batch(mode):
    """The moving averages, and the gradient of a norm that was written out, read them."""
    need_kernels(LOW[mode], "FusedBatchNormV3", "BiasAdd")
    result = check_rewrite(
        """
        x = Placeholder(shape=1x4x4x2)
        filter = Const(shape=1x1x2x2)
        one = Const(value=[1.0, 1.0])
        none = Const(shape=0)
        conv = Conv2D(x, filter, strides=[1, 1, 1, 1], padding=SAME)
        moved = BiasAdd(conv, one)
        norm = FusedBatchNormV3(moved, one, one, none, none)
        inverse = Rsqrt(norm:2)
        end = Conv2D(norm, filter, strides=[1, 1, 1, 1], padding=SAME)
        """,
        None,
        ["inverse", "end"],
        mode=mode,
    )
    assert result.reasons["moved"][0] == result.reasons["norm"][0] == "lowered"
    assert result.reasons["inverse"][0] == "kept"


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


# A branch, and whether an error of its argument reaches its result; or "magnifier", if it has one.
BRANCHES = [
    ("halved = Mul(p, p) \n", "halved", True),
    ("", "p", True),
    (
        "zero = Const(value=0.0) \n less = Less(zero, p) \n result = Cast[bool,float32](less)",
        "result",
        "magnifier",
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
    """The other branch returns a constant."""
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
    assert (
        found.reasons["p"]
        == {
            True: ("kept", "before_magnifier", "loss"),
            False: ("lowered", "gray_follows_lowered", "product"),
            "magnifier": ("kept", "kept_in_place", ""),
        }[reaches]
    )


@needs_ops("_SwitchN")
def test_what_a_case_chooses_has_the_range_of_its_input():
    """In place, a Case is a _SwitchN. A comparison with a probability magnifies."""
    result = check_rewrite(
        """
        x = Placeholder(shape=4x4)
        which = Const[int32](value=0)
        product = MatMul(x, x)
        p = Sigmoid(product)
        chosen = _SwitchN(p, which, num_outs=2)
        zero = Const(value=0.0)
        less = Less(zero, chosen)
        first = Cast[bool,float32](less)
        second = Neg(chosen:1)
        either = Merge(first, second)
        """,
        None,
        ["either"],
    )
    assert result.reasons["p"] == ("kept", "before_magnifier", "less")
    assert result.reasons["chosen"] == ("kept", "before_magnifier", "less")


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


@modes
def test_what_a_loop_magnifies_is_kept_before_it(mode):
    """If no iteration changes it. What the loop begins with may be anything behind a step."""
    need_kernels(LOW[mode], "Sigmoid")
    text = loop(
        """
        product = MatMul(x, x)
        p = Sigmoid(product)
        p_enter = Enter(p, frame_name=loop, is_constant=True)
        start = Sigmoid(product)
        """,
        """
        log = Log(p_enter)
        turn = Mul(switch:1, log)
        """,
    )
    reasons = check_rewrite(text, None, ["end"], mode=mode).reasons
    assert reasons["p"] == ("kept", "before_magnifier", "log")
    assert reasons["p_enter"] == ("kept", "before_magnifier", "log")
    assert reasons["start"][1] != "before_magnifier"

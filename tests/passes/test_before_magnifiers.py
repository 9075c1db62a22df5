"""Producers of an op that magnifies relative errors keep float32, back to the last product."""

import json

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import need_kernels

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


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_mix_precision_fp16"])
@pytest.mark.parametrize(
    ("scores", "choice", "kept"),
    [
        ("Sigmoid(product)", "ArgMax(scores, axis)", True),
        ("Tanh(product)", "ArgMin(scores, axis)", True),
        ("Sigmoid(product)", "TopKV2(scores, k)", True),
        ("Sigmoid(product)", "Greater(scores, limit)", True),
        ("Sigmoid(product)", "LessEqual(limit, scores)", True),
        ("Sigmoid(product)", "NonMaxSuppressionV3(corners, flat, k, limit, limit)", True),
        ("Relu(product)", "ArgMax(scores, axis)", False),
        ("Relu(product)", "Greater(scores, limit)", False),
    ],
)
def test_what_orders_probabilities_magnifies(scores, choice, kept, mode):
    """bfloat16 has three values between 0.99 and 1. The order of logits needs no more digits."""
    need_kernels("bfloat16", "Sigmoid", "Tanh")
    result = check_rewrite(
        f"""
        x = Placeholder(shape=8x32)
        w = Const(shape=32x8)
        product = MatMul(x, w)
        scores = {scores}
        axis = Const[int32](value=1)
        k = Const[int32](value=3)
        limit = Const(value=0.75)
        sizes = Const[int32](value=[64])
        flat = Reshape(scores, sizes)
        corners = Const(shape=64x4)
        end = {choice}
        """,
        None,
        ["end"],
        mode=mode,
        run=False,
    )
    expected = ("kept", "before_magnifier", "end") if kept else None
    assert (result.reasons["scores"] == expected) == kept
    assert result.reasons["product"][0] == "lowered"


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

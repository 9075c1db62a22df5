"""activations: an activation behind a product is written in the form that TensorFlow fuses."""

from __future__ import annotations

import functools
import json
import math
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, UNCHANGED, check_rewrite, run
from support.text_graph import read_graph
from support.tf_versions import (
    needs_functions_by_default,
    needs_kernels,
    needs_onednn,
)

import npu_precision

tf1 = tf.compat.v1
MODE = "allow_mix_precision_bf16"
check = functools.partial(check_rewrite, mode=MODE, activations=True)
pytestmark = needs_kernels("bfloat16", "BiasAdd", "Erf", "Relu6", "Sigmoid", "Softplus", "Square")

DENSE = """
    x = Placeholder(shape=6x4)
    w = Const(shape=4x8)
    b = Const(shape=8)
    product = MatMul(x, w)
    dense = BiasAdd(product, b)
    half = Const(value=0.5)
    one = Const(value=1.0)
    two = Const(value=2.0)
    three = Const(value=3.0)
    root = Const(value=0.70710678)
    root2 = Const(value=1.41421356)
    cubic = Const(value=0.044715)
    pi2 = Const(value=0.7978845608)
    pi = Const(value=3.14159265)
"""
CONVOLUTION = """
    x = Placeholder(shape=2x5x5x3)
    w = Const(shape=3x3x3x4)
    b = Const(shape=4)
    product = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    dense = BiasAdd(product, b)
    zero = Const(value=0.0)
    half = Const(value=0.5)
    one = Const(value=1.0)
    three = Const(value=3.0)
    six = Const(value=6.0)
    sixth = Const(value=0.16666667)
"""
END = "\nend = Softmax(gelu)"
# Each as (name, lines); the last line computes `gelu`, the activation of `dense`.
EXACT = {
    "Keras 2 and tf.nn.gelu": """
        scaled = RealDiv(dense, root2)
        erf = Erf(scaled)
        plus = AddV2(one, erf)
        halved = Mul(half, dense)
        gelu = Mul(halved, plus)""",
    "Keras 3": """
        halved = Mul(half, dense)
        less = Neg(dense)
        scaled = Mul(less, root)
        erfc = Erfc(scaled)
        gelu = Mul(halved, erfc)""",
    "tf.nn.gelu of 2.21": """
        halved = Mul(half, dense)
        less = Neg(dense)
        scaled = RealDiv(less, root2)
        erfc = Erfc(scaled)
        gelu = Mul(halved, erfc)""",
    "the root computed, as in transformers": """
        sqrt = Sqrt(two)
        scaled = RealDiv(dense, sqrt)
        erf = Erf(scaled)
        plus = AddV2(one, erf)
        cdf = Mul(half, plus)
        later = Identity(cdf)
        gelu = Mul(dense, later)""",
    "the half last": """
        scaled = Mul(root, dense)
        erf = Erf(scaled)
        plus = Add(erf, one)
        times = Mul(dense, plus)
        gelu = Mul(times, half)""",
    "the distribution's function": """
        scaled = Mul(root, dense)
        erf = Erf(scaled)
        part = Mul(erf, half)
        cdf = AddV2(part, half)
        gelu = Mul(dense, cdf)""",
    "multiplied out": """
        scaled = Mul(root, dense)
        erf = Erf(scaled)
        halved = RealDiv(dense, two)
        part = Mul(erf, halved)
        gelu = AddV2(part, halved)""",
    "the upper tail": """
        scaled = Mul(root, dense)
        erfc = Erfc(scaled)
        part = Mul(erfc, half)
        cdf = Sub(one, part)
        gelu = Mul(dense, cdf)""",
}
APPROXIMATE = {
    "by Pow, as tf.nn.gelu": """
        power = Pow(dense, three)
        part = Mul(cubic, power)
        sum = AddV2(dense, part)
        inner = Mul(pi2, sum)
        tanh = Tanh(inner)
        plus = AddV2(one, tanh)
        halved = Mul(half, dense)
        gelu = Mul(halved, plus)""",
    "by products, as in GPT-2": """
        square = Mul(dense, dense)
        cube = Mul(square, dense)
        part = Mul(cubic, cube)
        sum = AddV2(dense, part)
        inner = Mul(pi2, sum)
        tanh = Tanh(inner)
        plus = AddV2(one, tanh)
        cdf = Mul(half, plus)
        gelu = Mul(dense, cdf)""",
    "x factored out, its root computed": """
        square = Square(dense)
        part = Mul(cubic, square)
        sum = AddV2(part, one)
        times = Mul(dense, sum)
        part2 = RealDiv(two, pi)
        factor = Sqrt(part2)
        inner = Mul(factor, times)
        tanh = Tanh(inner)
        plus = AddV2(tanh, one)
        halved = Mul(dense, half)
        gelu = Mul(plus, halved)""",
    "as TensorFlow's arithmetic optimizer leaves a Pow": """
        square = Square(dense, ^three)
        cube = Mul(dense, square)
        part = Mul(cube, cubic)
        sum = AddV2(dense, part)
        inner = Mul(sum, pi2)
        tanh = Tanh(inner)
        plus = AddV2(tanh, one)
        halved = Mul(dense, half)
        gelu = Mul(halved, plus)""",
}
SWISH = {
    "times one": """
        times = Mul(one, dense)
        sigmoid = Sigmoid(times)
        gelu = Mul(dense, sigmoid)""",
    "behind a copy": """
        copy = Identity(dense)
        sigmoid = Sigmoid(copy)
        gelu = Mul(sigmoid, copy)""",
}
HARD_SWISH = {
    "divided last": """
        plus = AddV2(dense, three)
        relu = Relu6(plus)
        times = Mul(dense, relu)
        gelu = RealDiv(times, six)""",
    "Keras 2": """
        plus = AddV2(dense, three)
        relu = Relu6(plus)
        part = Mul(relu, sixth)
        gelu = Mul(dense, part)""",
    "clipped": """
        plus = AddV2(dense, three)
        low = Minimum(plus, six)
        clipped = Maximum(low, zero)
        part = Mul(clipped, sixth)
        gelu = Mul(dense, part)""",
    "clipped to one": """
        part = RealDiv(dense, six)
        plus = AddV2(part, half)
        high = Maximum(zero, plus)
        clipped = Minimum(high, one)
        gelu = Mul(clipped, dense)""",
}
MISH = {
    "tf.nn.softplus": """
        softplus = Softplus(dense)
        tanh = Tanh(softplus)
        gelu = Mul(tanh, dense)""",
}
EXACT_FORM = """
    gelu/npu_Mul = Mul[{T}](dense, gelu/npu_Const{C})
    gelu/npu_Mul_1 = Mul[{T}](dense, gelu/npu_Const_1{C})
    gelu/npu_Erf = Erf[{T}](gelu/npu_Mul_1)
    gelu/npu_AddV2 = AddV2[{T}](gelu/npu_Erf, gelu/npu_Const_2{C})
    gelu = Mul[{T}](gelu/npu_Mul, gelu/npu_AddV2)"""
APPROXIMATE_FORM = """
    gelu/npu_Mul_3 = Mul[{T}](dense, gelu/npu_Const{C})
    gelu/npu_Square = Square[{T}](dense)
    gelu/npu_Mul_2 = Mul[{T}](gelu/npu_Mul_3, gelu/npu_Square)
    gelu/npu_AddV2_1 = AddV2[{T}](dense, gelu/npu_Mul_2)
    gelu/npu_Mul_1 = Mul[{T}](gelu/npu_AddV2_1, gelu/npu_Const_1{C})
    gelu/npu_Tanh = Tanh[{T}](gelu/npu_Mul_1)
    gelu/npu_AddV2 = AddV2[{T}](gelu/npu_Tanh, gelu/npu_Const_2{C})
    gelu/npu_Mul = Mul[{T}](gelu/npu_AddV2, gelu/npu_Const_3{C})
    gelu = Mul[{T}](gelu/npu_Mul, dense)"""
SWISH_FORM = """
    gelu/npu_Sigmoid = Sigmoid[{T}](dense)
    gelu = Mul[{T}](dense, gelu/npu_Sigmoid)"""
HARD_SWISH_FORM = """
    gelu/npu_Mul = Mul[{T}](dense, gelu/npu_Const{C})
    gelu/npu_AddV2 = AddV2[{T}](dense, gelu/npu_Const_1{C})
    gelu/npu_Relu6 = Relu6[{T}](gelu/npu_AddV2)
    gelu = Mul[{T}](gelu/npu_Mul, gelu/npu_Relu6)"""
MISH_FORM = """
    gelu/npu_Softplus = Softplus[{T}](dense)
    gelu/npu_Tanh = Tanh[{T}](gelu/npu_Softplus)
    gelu = Mul[{T}](dense, gelu/npu_Tanh)"""
# By the remapper's name: the lines before, the ways to write it, and the form that is fused.
KINDS = {
    "GeluExact": (DENSE, EXACT, EXACT_FORM),
    "GeluApproximate": (DENSE, APPROXIMATE, APPROXIMATE_FORM),
    "Swish": (CONVOLUTION, SWISH, SWISH_FORM),
    "HardSwish": (CONVOLUTION, HARD_SWISH, HARD_SWISH_FORM),
    "Mish": (CONVOLUTION, MISH, MISH_FORM),
}
ALL = [
    pytest.param(kind, layer + lines + END, form, id=f"{kind}: {name}")
    for kind, (layer, ways, form) in KINDS.items()
    for name, lines in ways.items()
]
FIRST = [
    pytest.param(kind, layer + next(iter(ways.values())) + END, id=kind)
    for kind, (layer, ways, _) in KINDS.items()
]
KERAS_2, KERAS_3 = EXACT["Keras 2 and tf.nn.gelu"], EXACT["Keras 3"]


def written(form, low):
    """The form with its dtype and, if the dtype is low, Casts behind the constants."""
    cast = "" if low == "float32" else f"/npu_cast_0_{low}"
    return form.replace("{T}", low).replace("{C}", cast)


def told(result):
    return [(entry.by, entry.node, entry.after) for entry in result.ledger.rewrites]


def activation_of(text):
    """The lines that compute the activation, without constants."""
    lines = [line for line in text.splitlines() if line.startswith("gelu") and "Const[" not in line]
    return "\n".join(lines)


@pytest.mark.parametrize(("kind", "text", "form"), ALL)
def test_each_way_to_write_it_becomes_the_form_that_is_fused(kind, text, form):
    """check_rewrite compares the values, reverses the nodes, and applies the pass a second time."""
    result = check(text, None)
    assert activation_of(result.text) == textwrap.dedent(written(form, "bfloat16")).strip()
    assert told(result) == [("activations", "gelu", f"{kind} of product")]


@pytest.mark.parametrize(("kind", "text", "form"), ALL)
def test_it_is_written_so_where_the_lists_keep_float32(kind, text, form, tmp_path):
    """TensorFlow fuses float32 as well."""
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:product"]}}')
    result = check(text, None, modify_mixlist=str(mixlist))
    assert activation_of(result.text) == textwrap.dedent(written(form, "float32")).strip()


def test_the_ledger_names_the_ops_that_computed_it():
    (entry,) = check(DENSE + KERAS_3 + END, None).ledger.rewrites
    assert (entry.before, entry.after) == ("Erfc, Mul, Neg", "GeluExact of product")


REFERENCES = {
    "GeluExact": lambda x: x * (0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))),
    "GeluApproximate": lambda x: (
        x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "Swish": lambda x: x / (1 + np.exp(-x)),
    "HardSwish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
}


def session_run(graph_def, fetch, feeds, config, executed_nodes):
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(fetch, feeds), executed_nodes(session, fetch, feeds)


def fused_names(nodes):
    return [
        [name.decode() for name in node.attr["fused_ops"].list.s]
        for node in nodes.values()
        if "fused_ops" in node.attr
    ]


def pure(kind):
    """A layer that yields its input, so that the inputs of the activation are known."""
    if KINDS[kind][0] == DENSE:
        return (
            DENSE.replace("shape=6x4", "shape=40x1")
            .replace("w = Const(shape=4x8)", "w = Const(value=[[1.0]])")
            .replace("b = Const(shape=8)", "b = Const(value=[0.125])")
        )
    return (
        CONVOLUTION.replace("shape=2x5x5x3", "shape=1x40x1x1")
        .replace("w = Const(shape=3x3x3x4)", "w = Const(value=[[[[1.0]]]])")
        .replace("b = Const(shape=4)", "b = Const(value=[0.125])")
    )


# The fused ops by their names in TensorFlow 2.15 and 2.21. 2.15 fuses no HardSwish into a
# convolution.
FUSED_NAMES = {
    "GeluExact": "GeluExact",
    "GeluApproximate": "GeluApproximate",
    "Swish": "_MklSwish",
    "Mish": "Mish",
    "HardSwish": "_FusedHardSwish",
}


@needs_onednn
@pytest.mark.parametrize("offline", [False, True], ids=["session", "offline"])
@pytest.mark.parametrize("low", [True, False], ids=["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("kind", "lines"), [(kind, lines) for kind in KINDS for lines in KINDS[kind][1].values()]
)
def test_tensorflow_fuses_it_and_yields_what_numpy_does(
    kind, lines, low, offline, executed_nodes, tmp_path
):
    """Live, and offline with a session that does not use npu_precision."""
    if kind == "HardSwish" and tf.__version__.startswith("2.15."):
        pytest.skip("TensorFlow 2.15 fuses no HardSwish into a convolution")
    graph_def = read_graph(pure(kind) + lines + "\nend = Identity(gelu)")
    options = {"precision_mode": MODE}
    if not low:
        mixlist = tmp_path / "mixlist.json"
        mixlist.write_text('{"black-list": {"to-add": ["node:product"]}}')
        options["modify_mixlist"] = str(mixlist)
    config = tf1.ConfigProto()
    if offline:
        graph_def, _ = npu_precision.rewrite_graph_def(graph_def, "end", **options)
    else:
        config = npu_precision.npu_config_proto(**options)
    shape = [40, 1] if KINDS[kind][0] == DENSE else [1, 40, 1, 1]
    x = np.linspace(-6, 6, 40).astype("f").reshape(shape)
    got, nodes = session_run(graph_def, "end:0", {"x:0": x}, config, executed_nodes)
    assert fused_names(nodes) == [["BiasAdd", FUSED_NAMES[kind]]]
    if low:
        x = np.asarray(tf.cast(tf.constant(x), tf.bfloat16).numpy(), np.float32)
    want = REFERENCES[kind](np.asarray(x, np.float64) + 0.125)
    # The kernel computes in float32, and rounds the bias and the result, which are at most 6.
    np.testing.assert_allclose(got, want, rtol=0, atol=6 * 2.0**-8 if low else 1e-4)


@pytest.mark.parametrize(("kind", "text"), FIRST)
def test_a_bias_that_is_added_otherwise_becomes_a_bias_add(kind, text):
    result = check(text.replace("BiasAdd(product, b)", "AddV2(b, product)"), None)
    assert "dense = BiasAdd[bfloat16](product, b/npu_cast_0_bfloat16)" in result.text
    assert len(told(result)) == 1
    # Also if no other pass changes the graph.
    if kind == "Swish":
        text = text.replace("times = Mul(one, dense)", "").replace("(times)", "(dense)")
        result = check(text.replace("BiasAdd(product, b)", "AddV2(product, b)"), None)
        assert "dense = BiasAdd[" in result.text
        check(text, None)
        assert not told(check(text, None))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b = Const(shape=8)", "b = Const(shape=6x8)"),
        ("b = Const(shape=8)", "b = Const(shape=1x1)"),
        ("b = Const(shape=8)", "b = Const(shape=1x1x8)"),
        ("b = Const(shape=8)", "b = Const(shape=1)"),
        ("b = Const(shape=8)", "b = Const(shape=scalar)"),
        ("b = Const(shape=8)", "b = Placeholder(shape=?)"),
    ],
)
def test_what_is_added_but_not_as_a_bias_stays(old, new):
    text = (DENSE + KERAS_2 + END).replace("BiasAdd(product, b)", "AddV2(product, b)")
    assert not told(check(text.replace(old, new), None, run="Placeholder(shape=?)" not in new))


RESHAPED = (
    DENSE.replace("MatMul(x, w)", "MatMul(x, w)\n    back = Reshape(product, shape)")
    .replace("(product, b)", "(back, b)")
    .replace("b = Const", "shape = Const[int32](value=[2, 3, 8])\n    b = Const")
)


@pytest.mark.parametrize("bias", ["BiasAdd", "AddV2"])
@pytest.mark.parametrize("lines", [KERAS_3, APPROXIMATE["by Pow, as tf.nn.gelu"]])
def test_a_reshape_before_the_bias_moves_behind_all_of_it(bias, lines):
    text = RESHAPED.replace("BiasAdd(back", bias + "(back")
    result = check(text + lines + END, None, sink_reshapes=True)
    nodes = {node.name: node for node in result.graph.node}
    assert nodes["dense"].op == "BiasAdd"
    assert nodes["dense"].input[0] == "product"
    assert nodes["back"].input[0] == "gelu"


BEHIND = DENSE.replace("dense = BiasAdd", "biased = BiasAdd").replace(
    "half =",
    "shape = Const[int32](value=[2, 3, 8])\n    dense = Reshape(biased, shape)\n    half =",
    1,
)
ROW = ("b = Const(shape=8)", "b = Const(shape=1x8)")


@pytest.mark.parametrize("bias", ["BiasAdd(product, b)", "AddV2(product, b)", "AddV2(b, product)"])
@pytest.mark.parametrize("kind", ["GeluExact", "GeluApproximate"])
def test_a_reshape_of_the_sum_moves_behind_the_activation(kind, bias):
    """flatten_mat_muls writes such a Reshape."""
    _, ways, _ = KINDS[kind]
    for lines in ways.values():
        text = BEHIND.replace("BiasAdd(product, b)", bias) + lines + END
        result = check(text, None)
        assert told(result) == [("activations", "gelu", f"{kind} of product")]
        nodes = {node.name: node for node in result.graph.node}
        assert nodes["gelu"].op == "Reshape"
        assert nodes["gelu"].input[1] == "shape"
        assert nodes["biased"].op == "BiasAdd"
        assert "dense" not in nodes


@pytest.mark.parametrize("reshaped", [False, True])
def test_a_bias_of_one_row_becomes_a_vector(reshaped):
    """GPT-2 has such a bias."""
    text = (BEHIND if reshaped else DENSE).replace(*ROW) + KERAS_3 + END
    result = check(text.replace("BiasAdd(product, b)", "AddV2(product, b)"), None)
    assert told(result) == [("activations", "gelu", "GeluExact of product")]
    name = "biased" if reshaped else "dense"
    assert f"{name}/npu_bias = Reshape[float32](b, {name}/npu_bias/shape)" in result.text
    assert (
        f"{name} = BiasAdd[bfloat16](product, {name}/npu_bias/npu_cast_0_bfloat16)" in result.text
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("[2, 3, 8]", "[48]", id="one dimension"),
        pytest.param(END, "\nother = Exp(dense)\nend = AddV2(gelu, other)", id="a reader"),
        pytest.param(END, "\nother = Exp(biased)\nend = Softmax(gelu)", id="a reader of the sum"),
        pytest.param("Reshape(biased, shape)", "Reshape(biased, shape, ^x)", id="a control input"),
        pytest.param(END, "\nend = Softmax(gelu, ^dense)", id="a control producer"),
        pytest.param("Reshape(biased, shape)", "Reshape(biased, shape) @ /cpu:1", id="a device"),
        pytest.param(
            "Reshape(biased, shape)", "Reshape(biased, shape, _keep_dtype=1)", id="a scope"
        ),
        pytest.param("Reshape(biased, shape)", "Squeeze(biased)", id="another op"),
        pytest.param(
            END, "\nboth = IdentityN(gelu, dense)\nend = Softmax(both)", id="a custom gradient"
        ),
    ],
)
def test_a_reshape_of_the_sum_that_cannot_move_keeps_it_as_it_is(old, new):
    text = BEHIND + KERAS_3 + END
    assert old in text
    fetches = ["end", "other"] if "other = Exp(biased)" in new else ["end"]
    assert not told(check(text.replace(old, new), None, fetches))


def test_a_reshape_of_the_sum_that_is_fetched_or_fed_keeps_it_as_it_is():
    text = BEHIND + KERAS_3 + END
    assert not told(check(text, None, ["end", "dense"]))
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(text), "end", feeds=["dense"], precision_mode=MODE
    )
    assert not ledger.rewrites


def test_behind_a_convolution_nothing_is_reshaped():
    text = CONVOLUTION.replace("dense = BiasAdd", "biased = BiasAdd").replace(
        "zero =",
        "shape = Const[int32](value=[2, 25, 4])\n    dense = Reshape(biased, shape)\n    zero =",
    )
    assert not told(check(text + SWISH["times one"] + END, None))


@needs_onednn
@pytest.mark.parametrize("bias", ["8", "1x8"])
def test_tensorflow_fuses_what_was_reshaped(bias, executed_nodes):
    """The layer of Keras 3 and that of GPT-2, with all passes."""
    text = BEHIND.replace("shape=8)", f"shape={bias})") + KERAS_3 + END
    if bias == "8":
        text = DENSE.replace("shape=6x4", "shape=2x3x4").replace("MatMul(", "BatchMatMulV2(")
        text += KERAS_3 + END
    else:
        text = text.replace("BiasAdd(product, b)", "AddV2(product, b)")
    graph_def = read_graph(text)
    config = npu_precision.npu_config_proto(precision_mode=MODE)
    x = np.linspace(-1, 1, 24).astype("f").reshape([2, 3, 4] if bias == "8" else [6, 4])
    _, nodes = session_run(graph_def, "end:0", {"x:0": x}, config, executed_nodes)
    assert fused_names(nodes) == [["BiasAdd", "GeluExact"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = Const(shape=4x8)", "w = Placeholder(shape=4x8)"),
        ("b = Const(shape=8)", "b = Placeholder(shape=8)"),
        # Only the Reshape makes rows as wide as the bias; those of the product are not.
        ("b = Const(shape=8)", "b = Const(shape=4)"),
    ],
)
def test_a_reshape_that_will_not_move_keeps_it_as_it_is(old, new):
    text = RESHAPED.replace(old, new)
    if "shape=4)" in new:
        text = text.replace("[2, 3, 8]", "[4, 3, 4]")
    assert not told(check(text + KERAS_3 + END, None))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Another node reads an inner value, as a gradient does, so TensorFlow must compute it.
        (END, "\nother = Exp(dense)\nend = AddV2(gelu, other)"),
        (END, "\nother = Exp(product)\nend = AddV2(gelu, other)"),
        (END, "\nother = Exp(erf)\nend = AddV2(gelu, other)"),
        (END, "\nother = Exp(plus)\nend = AddV2(gelu, other)"),
        # These are not between the Erf, from which the pass looks for the end, and the end.
        (END, "\nother = Exp(scaled)\nend = AddV2(gelu, other)"),
        (END, "\nother = Exp(halved)\nend = AddV2(gelu, other)"),
        # Control dependencies.
        ("Erf(scaled)", "Erf(scaled, ^x)"),
        ("BiasAdd(product, b)", "BiasAdd(product, b, ^x)"),
        ("MatMul(x, w)", "MatMul(x, w, ^x)"),
        ("Mul(halved, plus)", "Mul(halved, plus, ^x)"),
        (END, "\nend = Softmax(gelu, ^erf)"),
        (END, "\nend = Softmax(gelu, ^dense)"),
        (END, "\nend = Softmax(gelu, ^product)"),
        ("root2 = Const(value=1.41421356)", "root2 = Placeholder(shape=scalar)"),
        # Other devices.
        ("Erf(scaled)", "Erf(scaled) @ /cpu:1"),
        ("BiasAdd(product, b)", "BiasAdd(product, b) @ /cpu:1"),
        ("MatMul(x, w)", "MatMul(x, w) @ /cpu:1"),
        # Scopes of the user.
        ("Erf(scaled)", "Erf(scaled, _keep_dtype=1)"),
        ("MatMul(x, w)", "MatMul(x, w, _keep_dtype=1)"),
        # No product, or one into which TensorFlow does not fuse.
        ("MatMul(x, w)", "Tanh(xx)"),
        ("MatMul(x, w)", "MatMul(xt, w, transpose_a=True)"),
        # Other functions.
        ("value=1.41421356", "value=1.42"),
        ("half = Const(value=0.5)", "half = Const(value=0.501)"),
        ("one = Const(value=1.0)", "one = Const(value=1.001)"),
        ("Erf(scaled)", "Tanh(scaled)"),
        ("Mul(half, dense)", "Mul(half, scaled)"),
        ("root2 = Const(value=1.41421356)", "root2 = Const(shape=8)"),
        ("root2 = Const(value=1.41421356)", "root2 = Const(value=[[[1.41421356]]])"),
    ],
)
def test_it_stays_where_tensorflow_would_not_fuse_it(old, new):
    text = DENSE.replace("w = Const", "xx = Placeholder(shape=6x8)\n    w = Const")
    text = text.replace("w = Const", "xt = Placeholder(shape=4x6)\n    w = Const")
    text += KERAS_2 + END
    assert old in text
    assert not told(check(text.replace(old, new), None))


@pytest.mark.parametrize(
    ("layer", "lines"),
    [
        (DENSE, "\nscale = Const(value=1.702)\ntimes = Mul(scale, dense)\n"
         "sigmoid = Sigmoid(times)\ngelu = Mul(dense, sigmoid)"),
        (CONVOLUTION, "\nscale = Const(value=1.702)\ntimes = Mul(scale, dense)\n"
         "sigmoid = Sigmoid(times)\ngelu = Mul(dense, sigmoid)"),
        (DENSE, SWISH["times one"]),
        (CONVOLUTION.replace("half =", "two = Const(value=2.0)\nroot2 = Const(value=1.41421356)\n"
                             "half ="), KERAS_2),
        (CONVOLUTION, HARD_SWISH["divided last"].replace("three", "one")),
        (CONVOLUTION, HARD_SWISH["clipped"].replace("zero", "half")),
        (CONVOLUTION, HARD_SWISH["clipped"].replace("Maximum", "Minimum")),
        (CONVOLUTION, "\nplus = AddV2(dense, three)\nrelu = Relu6(plus)\n"
         "gelu = Mul(relu, sixth)"),
        (CONVOLUTION, MISH["tf.nn.softplus"].replace("Tanh(", "Sigmoid(")),
        (CONVOLUTION, MISH["tf.nn.softplus"].replace("Softplus(", "Sigmoid(")),
        (DENSE, APPROXIMATE["by Pow, as tf.nn.gelu"].replace("three", "two")),
        (DENSE, APPROXIMATE["by Pow, as tf.nn.gelu"].replace("cubic", "root")),
        (DENSE, "\nerf = Erf(dense)\ngelu = Mul(dense, erf)"),
    ],
)  # fmt: skip
def test_other_functions_stay(layer, lines):
    assert not told(check(layer + lines + END, None))


@pytest.mark.parametrize("fetch", ["dense", "product", "erf", "plus"])
def test_it_stays_where_the_caller_fetches_a_part(fetch):
    assert not told(check(DENSE + KERAS_2 + END, None, ["end", fetch]))


def test_a_custom_gradient_that_nothing_reads_does_not_hold_it_up():
    """Keras' swish has one in a SavedModel."""
    text = CONVOLUTION + SWISH["times one"]
    text += "\nboth = IdentityN(gelu, dense)\nend = Softmax(both)"
    result = check(text, None)
    assert told(result) == [("activations", "gelu", "Swish of product")]
    assert not told(check(text.replace("(both)", "(both:1)"), None))
    assert not told(check(text, None, ["end", "both"]))


@pytest.mark.parametrize("part", ["times", "sigmoid"])
def test_a_custom_gradient_that_is_given_a_part_of_it_holds_it_up(part):
    """Its IdentityN stays until TensorFlow drops outputs without consumers."""
    text = CONVOLUTION + SWISH["times one"]
    text += f"\nboth = IdentityN(gelu, {part})\nend = Softmax(both)"
    assert not told(check(text, None))


def test_what_it_yields_may_be_fetched():
    result = check(DENSE + KERAS_3 + END, None, ["gelu", "end"])
    assert told(result) == [("activations", "gelu", "GeluExact of product")]


@pytest.mark.parametrize("feed", ["dense", "product", "scaled", "root2"])
def test_it_stays_where_the_caller_feeds_a_part(feed):
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(DENSE + KERAS_2 + END), "end", feeds=[feed], precision_mode=MODE
    )
    assert not ledger.rewrites


@pytest.mark.parametrize(
    "entry", ["Erf", "Erfc", "Mul", "AddV2", "node:gelu", "node:gelu/npu_Erf", "node:less"]
)
def test_what_a_mixlist_names_stays(entry, tmp_path):
    """This includes an op that the pass would make: the entry then applies to that op."""
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text(json.dumps({"black-list": {"to-add": [entry]}}))
    assert not told(check(DENSE + KERAS_3 + END, None, modify_mixlist=str(mixlist)))


def test_what_a_mixlist_says_of_the_product_does_not_matter(tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text('{"white-list": {"to-add": ["MatMul", "BiasAdd"]}}')
    assert len(told(check(DENSE + KERAS_3 + END, None, modify_mixlist=str(mixlist)))) == 1


def test_constants_keep_what_they_wait_for():
    """In a loop, a constant without a control dependency on the loop is outside of it."""
    text = (DENSE + KERAS_3 + END).replace("Const(value=0.5)", "Const(^x, value=0.5)")
    result = check(text.replace("Const(value=0.70710678)", "Const(^w, value=0.70710678)"), None)
    (entry,) = (node for node in result.graph.node if node.name == "gelu/npu_Const")
    assert list(entry.input) == ["^w", "^x"]
    assert {"half", "root"}.isdisjoint(node.name for node in result.graph.node)


def test_constants_that_others_read_stay():
    text = DENSE + KERAS_3 + "\nsum = AddV2(gelu, root)\nend = Softmax(sum)"
    result = check(text, None)
    names = {node.name for node in result.graph.node}
    assert "root" in names
    assert "half" not in names


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "allow_mix_precision"},
        {"mode": "force_fp16"},
        {"mode": "must_keep_origin_dtype", "activations": None, "rewrites": "-fold_constants"},
        {"target": "ascend910b", "activations": None, "rewrites": "-fold_constants"},
        {"activations": False},
    ],
)
def test_it_stays_where_it_was_not_asked_for_or_gains_nothing(options):
    assert not told(check(DENSE + KERAS_2 + END, None, **options))


@pytest.mark.parametrize(
    ("lines", "kind"),
    [(KERAS_3, "GeluExact"), (next(iter(APPROXIMATE.values())), "GeluApproximate")],
)
def test_a_graph_in_bfloat16_is_read_by_its_own_rounding(lines, kind):
    """The root of 2 / pi is 0.796875 there, 0.13 percent off; that of 1/2 is only 0.01 off."""
    text = (DENSE + lines + END).replace("= Const(", "= Const[bfloat16](")
    text = text.replace("x = Placeholder", "x = Placeholder[bfloat16]")
    assert told(check(text, None)) == [("activations", "gelu", f"{kind} of product")]


def test_in_bfloat16_other_constants_are_others():
    text = (DENSE + KERAS_3 + END).replace("= Const(", "= Const[bfloat16](")
    text = text.replace("x = Placeholder", "x = Placeholder[bfloat16]")
    # 0.7 in bfloat16 is 0.69922, one percent from the root.
    assert not told(check(text.replace("0.70710678", "0.7"), None))


def test_a_form_that_is_fused_as_it_is_stays():
    text = DENSE + written(EXACT_FORM, "float32").replace("gelu/npu_Const_1", "root")
    text = text.replace("gelu/npu_Const_2", "one").replace("gelu/npu_Const", "half")
    check(text.replace("[float32]", ""), None)
    assert not told(check(text.replace("[float32]", ""), None))


@needs_onednn
@pytest.mark.parametrize(
    ("activation", "fused"),
    [
        (lambda x: 0.5 * x * tf.math.erfc(-x / np.sqrt(2.0)), "GeluExact"),
        (
            lambda x: 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))),
            "GeluApproximate",
        ),
    ],
)
def test_behind_a_dense_layer_of_three_dimensions_it_is_fused(activation, fused, executed_nodes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3, 4], name="x")
        kernel = tf.constant(np.random.default_rng(0).normal(size=[4, 8]), tf.float32)
        dense = tf.tensordot(x, kernel, [[2], [0]]) + tf.constant(np.linspace(-1, 1, 8), tf.float32)
        tf.nn.softmax(activation(dense), name="end")
    config = npu_precision.npu_config_proto(precision_mode=MODE)
    with tf1.Session(graph=graph, config=config) as session:
        nodes = executed_nodes(session, "end:0", {"x:0": np.ones([2, 3, 4])})
    assert fused_names(nodes) == [["BiasAdd", fused]]


@needs_functions_by_default
def test_training_stays_as_it_is():
    """Gradients read values that a fused op would not keep."""

    @tf.function
    def gradients(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.nn.gelu(tf.nn.bias_add(tf.matmul(x, w), tf.ones([8])))
            loss = tf.reduce_sum(tf.square(y))
        return tape.gradient(loss, w)

    graph_def = gradients.get_concrete_function(
        tf.TensorSpec([6, 4]), tf.TensorSpec([4, 8])
    ).graph.as_graph_def()
    _, ledger = npu_precision.rewrite_graph_def(
        graph_def, graph_def.node[-1].name, precision_mode=MODE
    )
    assert not [entry for entry in ledger.rewrites if entry.by == "activations"]


@pytest.mark.parametrize("kind", ["GeluExact", "Swish"])
def test_unfused_it_differs_from_float64_by_the_rounding_alone(kind):
    """If nothing fuses it, as in this run, the error is bfloat16's rounding of each op."""
    graph_def = read_graph(pure(kind) + next(iter(KINDS[kind][1].values())) + END)
    after, _ = npu_precision.rewrite_graph_def(graph_def, "gelu", precision_mode=MODE)
    (want,), (got,) = run(graph_def, ["gelu"]), run(after, ["gelu"])
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE["bfloat16"])


def test_of_one_graph_all_are_written():
    two = KERAS_3.replace("dense", "dense2").replace("gelu", "gelu2")
    for name in ("halved", "less", "scaled", "erfc"):
        two = two.replace(name, name + "2")
    text = DENSE + KERAS_3 + "\nv = Const(shape=8x8)\nproduct2 = MatMul(gelu, v)\n"
    text += "dense2 = BiasAdd(product2, b)" + two + "\nend = Softmax(gelu2)"
    assert [entry[1] for entry in told(check(text, None))] == ["gelu", "gelu2"]


def test_without_a_bias_nothing_is_fused():
    text = (DENSE + KERAS_3 + END).replace("BiasAdd(product, b)", "Identity(product)")
    assert not told(check(text, None))
    check(DENSE + "\nend = Softmax(dense)", None)


def test_a_graph_without_an_activation_stays():
    text = "x = Placeholder(shape=2x2)\nend = Exp(x)"
    check(text, UNCHANGED)

"""sink_reshapes: bias and activation move right behind the MatMul, so that TensorFlow can fuse."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, check_rewrite
from support.text_graph import read_graph
from support.tf_versions import needs_functions_by_default, needs_kernels, needs_onednn

import npu_precision

check = functools.partial(check_rewrite, sink_reshapes=True)
tf1 = tf.compat.v1
DENSE = """
    x = Placeholder(shape=6x4)
    w = Const(shape=4x8)
    b = Const(shape=8)
    shape = Const[int32](value=[2, 3, 8])
    number = Const(value=0.7)
    numbers = Const(shape=8)
    product = MatMul(x, w)
    back = Reshape(product, shape)
    biased = BiasAdd(back, b)
"""
GELU = """
    halved = Mul(number, biased)
    scaled = Mul(biased, number)
    erf = Erf(scaled)
    plus = AddV2(number, erf)
    gelu = Mul(halved, plus)
"""


def inputs(result, *names):
    """The first input of each node; for a Cast, the input of the Cast."""
    nodes = {node.name: node for node in result.graph.node}
    found = [nodes[name].input[0] for name in names]
    return [nodes[name].input[0] if nodes[name].op == "Cast" else name for name in found]


def test_a_reshape_moves_behind_the_bias():
    result = check(
        DENSE + "end = Softmax(biased)",
        """
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        biased = BiasAdd[float16](product, b/npu_cast_0_float16)
        back = Reshape[float16](biased, shape)
        biased/npu_cast_0_float32 = Cast[float16,float32](back)
        end = Softmax[float32](biased/npu_cast_0_float32)
        """,
    )
    (rewrite,) = result.ledger.rewrites
    assert rewrite == npu_precision.ledger.LedgerRewrite(
        "sink_reshapes", "back", "product", "biased"
    )


@pytest.mark.parametrize("activation", ["Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"])
def test_a_reshape_moves_behind_an_activation(activation):
    result = check(DENSE + f"active = {activation}(biased)\nend = Softmax(active)", None)
    assert inputs(result, "active", "back", "end") == ["biased", "active", "back"]


@pytest.mark.parametrize("fold_constants", [False, True])
def test_a_reshape_moves_behind_a_gelu_that_is_written_out(fold_constants):
    ends = "first = Softmax(gelu)\nsecond = Exp(gelu)"
    result = check(DENSE + GELU + ends, None, ["first", "second"], fold_constants=fold_constants)
    assert inputs(result, "biased", "back") == ["product", "gelu"]
    assert inputs(result, "first", "second") == ["back", "back"]


BEHIND = """
    x = Placeholder(shape=6x4)
    w = Placeholder(shape=4x8)
    b = Placeholder(shape=8)
    shape = Const[int32](value=[2, 3, 8])
    number = Const(value=0.7)
    product = MatMul(x, w)
    added = BiasAdd(product, b)
    biased = Reshape(added, shape)
"""


def test_a_reshape_behind_the_bias_moves_behind_the_activation():
    result = check(
        BEHIND + "active = Relu(biased)\nend = Softmax(active)",
        """
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        added = BiasAdd[float16](product, b/npu_cast_0_float16)
        active = Relu[float16](added)
        biased = Reshape[float16](active, shape)
        active/npu_cast_0_float32 = Cast[float16,float32](biased)
        end = Softmax[float32](active/npu_cast_0_float32)
        """,
    )
    (rewrite,) = result.ledger.rewrites
    assert (rewrite.node, rewrite.before, rewrite.after) == ("biased", "added", "active")


def test_a_reshape_behind_the_bias_moves_behind_a_gelu_that_is_written_out():
    result = check(BEHIND + GELU + "end = Softmax(gelu)", None)
    assert inputs(result, "scaled", "biased", "end") == ["added", "gelu", "biased"]
    assert len(result.ledger.rewrites) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("active = ", "other = Exp(product)\nactive = "),
        ("active = ", "other = Exp(added)\nactive = "),
        ("active = ", "other = Softmax(biased)\nactive = "),
        ("active = ", "other = NoOp(^biased)\nactive = "),
        ("Relu(biased)", "Softmax(biased)"),
        ("Relu(biased)", "Relu(biased, ^x)"),
        ("Reshape(added, shape)", "Reshape(added, shape, ^x)"),
        ("Reshape(added, shape)", "Reshape(added, shape) @ /cpu:1"),
        ("product = MatMul(x, w)", "y = Placeholder(shape=6x8)\nproduct = Mul(y, y)"),
        ("BiasAdd(product, b)", "AddV2(product, b)"),
        ("MatMul(x, w)", "MatMul(x, w, _keep_dtype=1)"),
    ],
)
def test_a_reshape_behind_the_bias_stays(old, new):
    text = BEHIND + "active = Relu(biased)\nend = Softmax(active)"
    assert old in text
    fetches = ["end", "other"] if "other" in new else ["end"]
    assert not check(text.replace(old, new), None, fetches).ledger.rewrites


def test_a_reshape_behind_the_bias_that_the_caller_fetches_stays():
    text = BEHIND + "active = Relu(biased)\nend = Softmax(active)"
    for name in ("added", "biased"):
        assert not check(text, None, ["end", name]).ledger.rewrites


@pytest.mark.parametrize(
    ("rest", "last"),
    [
        # Two outputs: no node comes after all the nodes behind the bias.
        ("one = Relu(biased)\ntwo = Tanh(biased)", "biased"),
        ("one = Softmax(biased)\ntwo = Relu(biased)", "biased"),
        # A vector may broadcast to three dimensions in another way than to two.
        ("one = Mul(biased, numbers)\ntwo = Relu(one)", "biased"),
        ("one = Relu(biased)\ntwo = AddV2(one, x3)", "one"),
        ("one = Relu(biased)\ntwo = Tanh(one, ^x)", "one"),
        ("one = Relu(biased)\ntwo = Tanh(one) @ /cpu:1", "one"),
    ],
)
def test_how_far_it_moves(rest, last):
    x3 = "x3 = Placeholder(shape=2x3x8)\n" if "x3" in rest else ""
    result = check(DENSE + x3 + rest, None, ["one", "two"] if last == "biased" else ["two"])
    assert inputs(result, "biased", "back") == ["product", last]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w = Const", "w = Placeholder"),
        ("b = Const", "b = Placeholder"),
        ("end = ", "other = Relu(product)\nend = "),
        ("end = ", "other = Relu(back)\nend = "),
        ("MatMul(x, w)", "MatMul(x, w, _keep_dtype=1)"),
        ("BiasAdd(back, b)", "BiasAdd(back, b, ^x)"),
        ("Reshape(product, shape)", "Reshape(product, shape, ^x)"),
        ("BiasAdd(back, b)", "AddV2(back, b)"),
        ("BiasAdd(back, b)", "BiasAdd(back, b) @ /cpu:1"),
        # As wide as the result of the Reshape, and not as the product.
        (
            "b = Const(shape=8)\n    shape = Const[int32](value=[2, 3, 8])",
            "b = Const(shape=4)\n    shape = Const[int32](value=[4, 3, 4])",
        ),
    ],
)
def test_it_stays_where_it_cannot_be_seen_to_fit(old, new):
    text = DENSE + "end = Softmax(biased)"
    assert old in text
    fetches = ["end", "other"] if "other" in new else ["end"]
    result = check(text.replace(old, new), None, fetches)
    assert not result.ledger.rewrites


@needs_kernels("bfloat16", "BiasAdd")
def test_a_bias_of_channels_first_stays_behind_the_reshape():
    text = DENSE.replace("[2, 3, 8]", "[2, 8, 3]") + "end = Softmax(biased)"
    text = text.replace("BiasAdd(back, b)", "BiasAdd(back, b, data_format=NCHW)")
    result = check(text, None, mode="allow_mix_precision_bf16")
    assert result.reasons["biased"][0] == "lowered"
    assert not result.ledger.rewrites


def test_it_stays_where_it_is_a_control_input():
    """The activation may read a dependent of the Reshape: moved behind, it would make a cycle."""
    text = """
        x = Placeholder(shape=6x4)
        w = Const(shape=4x8)
        b = Const(shape=8)
        shape = Const[int32](value=[2, 3, 8])
        product = MatMul(x, w)
        back = Reshape(product, shape)
        after = NoOp(^back)
        number = Const(^after, value=0.7)
        biased = BiasAdd(back, b)
        scaled = Mul(biased, number)
        end = Softmax(scaled)
        """
    assert not check(text, None).ledger.rewrites


def test_what_is_fed_is_no_constant():
    text = DENSE + "scaled = Mul(biased, number)\nend = Softmax(scaled)"
    after, _ = npu_precision.rewrite_graph_def(
        read_graph(text),
        "end",
        feeds=["number"],
        precision_mode="allow_mix_precision",
        flatten_mat_muls=False,
    )
    nodes = {node.name: node for node in after.node}
    assert (nodes["biased"].input[0], nodes["back"].input[0]) == ("product", "biased")


def test_what_nobody_reads_holds_it_up_whatever_the_order():
    text = DENSE + "dead = Neg(biased)\nactive = Relu(biased)\nend = Softmax(active)"
    assert inputs(check(text, None), "biased", "back") == ["product", "biased"]


def test_what_was_lowered_before_is_changed_and_told():
    lowered, _ = npu_precision.rewrite_graph_def(
        read_graph(DENSE + "end = Softmax(biased)"),
        "end",
        precision_mode="allow_mix_precision",
        sink_reshapes=False,
        flatten_mat_muls=False,
    )
    after, ledger = npu_precision.rewrite_graph_def(
        lowered, "end", precision_mode="allow_mix_precision"
    )
    assert len(ledger.rewrites) == 1
    assert after != lowered


def test_what_the_caller_fetches_keeps_its_shape():
    """A Cast has the name of the fetched, lowered node, and reads the Reshape."""
    result = check(DENSE + "end = Softmax(biased)", None, ["end", "biased"])
    assert inputs(result, "biased") == ["back"]
    # The Cast is a second reader of the Reshape.
    result = check(DENSE + "end = Softmax(biased)", None, ["end", "back"])
    assert not result.ledger.rewrites


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "must_keep_origin_dtype", "sink_reshapes": None, "rewrites": "-fold_constants"},
        {"mode": "cube_fp16in_fp32out", "sink_reshapes": None, "rewrites": "-fold_constants"},
        {"target": "ascend910", "sink_reshapes": None, "rewrites": "-fold_constants"},
        {"sink_reshapes": False},
    ],
)
def test_it_stays_where_it_was_not_asked_for(options):
    assert not check(DENSE + "end = Softmax(biased)", None, **options).ledger.rewrites


def test_transposed_weights_are_as_wide_as_their_first_dimension():
    text = DENSE.replace("w = Const(shape=4x8)", "w = Const(shape=8x4)")
    text = text.replace("MatMul(x, w)", "MatMul(x, w, transpose_b=True)")
    assert len(check(text + "end = Softmax(biased)", None).ledger.rewrites) == 1


def dense_layer(x, units, activation):
    """Keras' Dense for an input of three dimensions and any batch."""
    kernel = tf.constant(np.random.default_rng(0).normal(size=[4, units]), tf.float32)
    bias = tf.constant(np.linspace(-1, 1, units), tf.float32)
    return activation(tf.nn.bias_add(tf.tensordot(x, kernel, [[2], [0]]), bias))


@needs_functions_by_default
def test_a_function_with_any_batch_agrees_and_keeps_its_shapes(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None, 3, 4])])
    def serve(x):
        x = dense_layer(x, 8, tf.nn.relu)
        return tf.nn.softmax(x)

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "model"))
    ledgers = npu_precision.convert_saved_model(
        tmp_path / "model", tmp_path / "low", precision_mode="allow_mix_precision_bf16"
    )
    assert [entry.by for part in ledgers[0] for entry in part.rewrites].count("sink_reshapes") >= 1
    loaded = tf.saved_model.load(str(tmp_path / "low"))
    x = np.random.default_rng(1).normal(size=[2, 3, 4]).astype("f")
    want, got = serve(x).numpy(), loaded.serve(x).numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, TOLERANCE["bfloat16"], TOLERANCE["bfloat16"])


@needs_onednn
@needs_kernels("bfloat16", "Erf")
@pytest.mark.parametrize("sink_reshapes", [True, False])
def test_bias_and_gelu_are_fused_into_their_product(sink_reshapes, executed_nodes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3, 4], name="x")
        active = dense_layer(x, 8, lambda x: 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2.0))))
        tf.nn.softmax(active, name="end")
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16",
        sink_reshapes=sink_reshapes,
        flatten_mat_muls=False,
    )
    with tf1.Session(graph=graph, config=config) as session:
        nodes = executed_nodes(session, "end:0", {"x:0": np.ones([2, 3, 4])})
    fused = [
        [name.decode() for name in node.attr["fused_ops"].list.s]
        for node in nodes.values()
        if "FusedMatMul" in node.op
    ]
    assert fused == ([["BiasAdd", "GeluExact"]] if sink_reshapes else [])

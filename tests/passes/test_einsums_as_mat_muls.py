"""einsums_as_mat_muls: an Einsum with batch dimensions is a BatchMatMul between Transposes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, UNCHANGED, check_rewrite
from support.einsum_graph import einsum_graph, with_equations
from support.loop_text import loop
from support.text_graph import read_graph
from support.tf_versions import needs_kernels

import npu_precision

check = functools.partial(check_rewrite, einsums_as_mat_muls=True)
tf1 = tf.compat.v1
pytestmark = needs_kernels("float16", "Einsum", "BatchMatMulV2")
# As in Keras' MultiHeadAttention: [batch, words, heads, size].
ATTENTION = """
    q = Placeholder(shape=2x3x4x5)
    k = Placeholder(shape=2x6x4x5)
    v = Placeholder(shape=2x6x4x5)
    scores = Einsum(k, q, equation=?)
    weights = Softmax(scores)
    values = Einsum(weights, v, equation=?)
    end = Softmax(values)
"""
EQUATIONS = {"scores": "aecd,abcd->acbe", "values": "acbe,aecd->abcd"}


def attention(*edits):
    text = ATTENTION
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return with_equations(read_graph(text), **EQUATIONS)


def rewritten(result):
    assert all(
        (entry.before, entry.after) == ("Einsum", "BatchMatMulV2")
        for entry in result.ledger.rewrites
    )
    return [entry.node for entry in result.ledger.rewrites]


def node_of(result, name):
    (node,) = (node for node in result.graph.node if node.name == name)
    return node


def values_of(result, name):
    return tf.make_ndarray(node_of(result, name).attr["value"].tensor).tolist()


def test_the_products_of_attention_are_batch_mat_muls_between_transposes():
    result = check(
        attention(),
        """
        q/npu_transpose_0_0_2_1_3/perm = Const[int32]()
        q/npu_transpose_0_0_2_1_3 = Transpose[float16](q/npu_cast_0_float16,
                                                       q/npu_transpose_0_0_2_1_3/perm)
        k/npu_transpose_0_0_2_1_3/perm = Const[int32]()
        k/npu_transpose_0_0_2_1_3 = Transpose[float16](k/npu_cast_0_float16,
                                                       k/npu_transpose_0_0_2_1_3/perm)
        scores = BatchMatMulV2[float16](q/npu_transpose_0_0_2_1_3, k/npu_transpose_0_0_2_1_3)
        weights = Softmax[float32](scores/npu_cast_0_float32)
        v/npu_transpose_0_0_2_1_3/perm = Const[int32]()
        v/npu_transpose_0_0_2_1_3 = Transpose[float16](v/npu_cast_0_float16,
                                                       v/npu_transpose_0_0_2_1_3/perm)
        values/npu_product = BatchMatMulV2[float16](weights/npu_cast_0_float16,
                                                    v/npu_transpose_0_0_2_1_3)
        values/perm = Const[int32]()
        values = Transpose[float16](values/npu_product, values/perm)
        end = Softmax[float32](values/npu_cast_0_float32)
        """,
    )
    assert rewritten(result) == ["scores", "values"]
    assert node_of(result, "scores").attr["adj_y"].b
    assert not node_of(result, "values/npu_product").attr["adj_y"].b
    assert values_of(result, "values/perm") == [0, 2, 1, 3]


# The third parameter tells which of the operands and the result are transposed.
@pytest.mark.parametrize(
    ("equation", "x", "w", "transposed"),
    [
        ("abc,acd->abd", "2x3x4", "2x4x5", ""),
        ("abc,adc->abd", "2x3x4", "2x5x4", ""),
        ("acb,acd->abd", "2x4x3", "2x4x5", ""),
        ("acb,adc->abd", "2x4x3", "2x5x4", ""),
        ("acd,abc->abd", "2x4x5", "2x3x4", ""),  # the operands in the other order
        ("abc,acd->adb", "2x3x4", "2x4x5", ""),  # the result too
        ("abij,abjk->abik", "2x3x4x5", "2x3x5x6", ""),
        ("abij,bajk->abik", "2x3x4x5", "3x2x5x6", "w"),
        ("abij,abjk->baik", "2x3x4x5", "2x3x5x6", "result"),
        ("abij,bajk->baik", "2x3x4x5", "3x2x5x6", "x"),
        ("BTNH,BSNH->BNTS", "2x3x4x5", "2x6x4x5", "x w"),
        ("BTNH,BSNH->BTNS", "2x3x4x5", "2x6x4x5", "x w result"),
        ("abc,adb->acd", "2x3x4", "2x5x3", ""),
        ("bca,bda->acd", "3x4x2", "3x5x2", "x w"),
        ("ijab,jkab->ikab", "4x5x2x3", "5x6x2x3", "x w result"),
    ],
)
@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
def test_as_few_operands_as_possible_are_transposed(equation, x, w, transposed, mode):
    result = check(einsum_graph(equation, x, w), None, ["end", "product"], mode=mode)
    assert rewritten(result) == ["product"]
    ops = {node.name: node.op for node in result.graph.node}
    assert "Einsum" not in ops.values()
    found = {name[0] for name, op in ops.items() if op == "Transpose" and "/npu_transpose" in name}
    if "product/npu_product" in ops:
        found.add("result")
    assert found == set(transposed.split())


@pytest.mark.parametrize(
    ("equation", "x", "w"),
    [
        ("abc,cd->abd", "2x3x4", "4x8"),  # nothing in common but the sum
        ("ab,ab->a", "3x4", "3x4"),  # no rows, no columns
        ("abc,ac->ab", "2x3x4", "2x4"),  # no columns
        ("abc,abd->abcd", "2x3x4", "2x3x5"),  # no sum
        ("abcd,acde->abe", "2x3x4x5", "2x4x5x6"),  # a sum over two
        ("abcd,ade->abce", "2x3x4x5", "2x5x6"),  # rows of two dimensions
        ("abcx,acd->abd", "2x3x4x5", "2x4x6"),  # a sum of its own
        ("aabc,acd->abd", "2x2x3x4", "2x4x5"),  # a diagonal
        ("...bc,...cd->...bd", "2x3x4", "2x4x5"),
    ],
)
def test_an_einsum_that_is_no_such_product_stays(equation, x, w):
    check_rewrite(einsum_graph(equation, x, w), None)
    assert not rewritten(check(einsum_graph(equation, x, w), None))


def test_an_operand_is_transposed_once_for_all_that_read_it_so():
    more = ("end = ", "again = Einsum(k, q, equation=?)\n    end = ")
    graph = with_equations(
        read_graph(ATTENTION.replace(*more)), again="abcd,aecd->aceb", **EQUATIONS
    )
    result = check(graph, None, ["end", "again"])
    assert rewritten(result) == ["again", "scores", "values"]
    names = {node.name for node in result.graph.node if node.op == "Transpose"}
    assert len(names) == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Einsum(k, q,", "Einsum(k, q, ^v,"),
        ("Einsum(k, q,", "Einsum(k, q, _keep_dtype=1,"),
        ("Placeholder(", "Placeholder[double]("),
        ("k = Placeholder(shape=2x6x4x5)", "k = Placeholder()"),
    ],
)
def test_the_scores_stay(old, new):
    result = check(attention((old, new)), None, run="Placeholder()" not in new)
    assert "scores" not in rewritten(result)


def test_sizes_that_differ_stay_an_error():
    """A BatchMatMul would broadcast dimensions of size 1."""
    graph = attention(("k = Placeholder(shape=2x", "k = Placeholder(shape=1x"))
    assert not rewritten(check(graph, None, run=False))


def test_sizes_may_be_unknown():
    graph = attention(("shape=2x3", "shape=?x?"), ("shape=2x6", "shape=?x?"))
    result = check(graph, None, run=False)
    assert rewritten(result) == ["scores", "values"]
    random = np.random.default_rng(0)
    for batch, words in ((2, 3), (1, 1), (0, 4)):
        feeds = {
            "q:0": random.normal(size=[batch, words, 4, 5]),
            "k:0": random.normal(size=[batch, 6, 4, 5]),
            "v:0": random.normal(size=[batch, 6, 4, 5]),
        }
        values = []
        for graph_def in (graph, result.graph):
            with tf.Graph().as_default() as loaded, tf1.Session(graph=loaded) as session:
                tf.import_graph_def(graph_def, name="")
                values.append(session.run("values:0", feeds))
        np.testing.assert_allclose(values[1], values[0], TOLERANCE["float16"], 1e-2)


def test_values_agree_with_numpy_in_float64():
    result = check(attention(), None)
    random = np.random.default_rng(1)
    q, k, v = (
        random.normal(size=shape).astype(np.float16).astype(np.float64)
        for shape in ([2, 3, 4, 5], [2, 6, 4, 5], [2, 6, 4, 5])
    )
    scores = np.einsum("aecd,abcd->acbe", k, q)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    want = np.einsum("acbe,aecd->abcd", weights, v)
    with tf.Graph().as_default() as loaded, tf1.Session(graph=loaded) as session:
        tf.import_graph_def(result.graph, name="")
        got = session.run("values:0", {"q:0": q, "k:0": k, "v:0": v})
    np.testing.assert_allclose(got, want, TOLERANCE["float16"], 2e-3)


def test_gradients_are_products_of_the_same_kind():
    with tf.Graph().as_default() as graph:
        q, k, v = (
            tf1.placeholder(tf.float32, [2, n, 4, 5], name) for n, name in zip((3, 6, 6), "qkv")
        )
        weights = tf.nn.softmax(tf.einsum("aecd,abcd->acbe", k, q))
        values = tf.einsum("acbe,aecd->abcd", weights, v)
        for x, gradient in zip("qkv", tf.gradients(tf.reduce_sum(values**2), [q, k, v])):
            tf.identity(gradient, name=f"d{x}")
    result = check(graph.as_graph_def(), None, ["dq", "dk", "dv"], mode="allow_mix_precision_bf16")
    assert len(rewritten(result)) == 6
    assert "Einsum" not in {node.op for node in result.graph.node}


def test_in_a_loop_new_constants_are_of_the_loop():
    text = loop(
        "start = Identity(x4)",
        """
        k_enter = Enter(k, frame_name=loop, is_constant=True)
        turn = Einsum(switch:1, k_enter, equation=?)
        """,
    )
    text = "x4 = Placeholder(shape=2x3x4x5)\nk = Const(shape=2x5x4x5)\n" + text
    graph = with_equations(read_graph(text), turn="aecd,abcd->aecb")
    result = check(graph, None)
    assert rewritten(result) == ["turn"]
    assert list(node_of(result, "turn/perm").input) == ["^switch"]


@pytest.mark.parametrize(
    "options",
    [
        {
            "mode": "must_keep_origin_dtype",
            "einsums_as_mat_muls": None,
            "rewrites": "-fold_constants",
        },
        {"mode": "cube_fp16in_fp32out", "einsums_as_mat_muls": None, "rewrites": "-fold_constants"},
        {"target": "ascend910", "einsums_as_mat_muls": None, "rewrites": "-fold_constants"},
        {"einsums_as_mat_muls": False},
    ],
)
def test_einsums_stay_where_it_was_not_asked_for(options):
    assert not rewritten(check(attention(), None, **options))


@pytest.mark.parametrize("listed", ["Einsum", "BatchMatMulV2", "Transpose", "node:scores|values"])
def test_what_a_mixlist_names_stays_as_it_is_written(listed):
    edits = f'{{"black-list": {{"to-add": ["{listed}"]}}}}'
    result = check(attention(), None, mixlist_edits=edits)
    assert not rewritten(result)


def test_what_the_caller_feeds_stays():
    graph = attention()
    _, ledger = npu_precision.rewrite_graph_def(
        graph, "end", feeds=["scores"], precision_mode="allow_mix_precision"
    )
    assert [entry.node for entry in ledger.rewrites] == ["values"]


def test_a_graph_without_einsums_is_unchanged():
    check("x = Placeholder(shape=2x3)\nend = Exp(x)", UNCHANGED)

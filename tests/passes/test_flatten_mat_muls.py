"""flatten_mat_muls: a product with the same weights for the whole batch becomes one MatMul."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE, check_rewrite, run
from support.einsum_graph import einsum_graph
from support.loop_text import loop
from support.text_graph import placed, random_values, read_graph
from support.tf_versions import needs_gpu_kernels, needs_kernels, needs_onednn

import npu_precision

check = functools.partial(check_rewrite, flatten_mat_muls=True)
tf1 = tf.compat.v1
DENSE = """
    x = Placeholder(shape=2x3x4)
    w = Const(shape=4x8)
    b = Const(shape=8)
    product = BatchMatMulV2(x, w)
    biased = AddV2(product, b)
    end = Softmax(biased)
"""
TENSORDOT = """
    x = Placeholder(shape=6x4)
    w = Const(shape=4x8)
    b = Const(shape=8)
    shape = Const[int32](value=[2, 3, 8])
    product = MatMul(x, w)
    back = Reshape(product, shape)
    biased = BiasAdd(back, b)
    end = Softmax(biased)
"""
# Keras 3's graph of an EinsumDense "abc,cde->abde" with a bias "de".
HEADS = """
    x = Placeholder(shape=2x3x4)
    w = Const(shape=4x2x5)
    b = Const(shape=2x5)
    flat = Const[int32](value=[4, -1])
    heads = Const[int32](value=[-1, 3, 2, 5])
    weights = Reshape(w, flat)
    product = BatchMatMulV2(x, weights)
    split = Reshape(product, heads)
    biased = AddV2(split, b)
    end = Softmax(biased)
"""


def rewrites(result):
    return [(entry.node, entry.before, entry.after) for entry in result.ledger.rewrites]


def node_of(result, name):
    (node,) = (node for node in result.graph.node if node.name == name)
    return node


def values_of(result, name):
    return tf.make_ndarray(node_of(result, name).attr["value"].tensor).tolist()


def replaced(text, old, new):
    assert old in text, old
    return text.replace(old, new)


def test_a_product_and_its_bias_become_a_mat_mul_and_a_bias_add():
    result = check(
        DENSE,
        """
        x/npu_rows_0/shape = Const[int32]()
        x/npu_rows_0 = Reshape[float32](x, x/npu_rows_0/shape)
        product = MatMul[float16](x/npu_rows_0/npu_cast_0_float16, w/npu_cast_0_float16)
        biased/npu_bias_add = BiasAdd[float16](product, b/npu_cast_0_float16)
        product/npu_shape = Const[int32]()
        biased = Reshape[float16](biased/npu_bias_add, product/npu_shape)
        end = Softmax[float32](biased/npu_cast_0_float32)
        """,
    )
    assert values_of(result, "x/npu_rows_0/shape") == [-1, 4]
    assert values_of(result, "product/npu_shape") == [2, 3, 8]
    assert rewrites(result) == [
        ("product", "BatchMatMulV2", "MatMul"),
        ("biased", "AddV2", "BiasAdd of product"),
    ]


def test_a_product_without_a_bias_keeps_its_name_behind_the_mat_mul():
    text = replaced(DENSE, "Softmax(biased)", "Softmax(product)")
    result = check(text, None, ["end", "product"])
    assert node_of(result, "product/npu_mat_mul").op == "MatMul"
    assert rewrites(result) == [("product", "BatchMatMulV2", "MatMul")]


def test_a_product_of_two_dimensions_needs_no_reshape():
    text = replaced(DENSE, "x = Placeholder(shape=2x3x4)", "x = Placeholder(shape=6x4)")
    text = replaced(text, "Softmax(biased)", "Softmax(product)")
    check(
        text,
        """
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        biased = AddV2[float16](product, b/npu_cast_0_float16)
        end = Softmax[float32](product/npu_cast_0_float32)
        """,
    )


@pytest.mark.parametrize("op", ["BatchMatMul", "BatchMatMulV2"])
def test_transposed_weights_stay_transposed(op):
    text = replaced(DENSE, "w = Const(shape=4x8)", "w = Const(shape=8x4)")
    text = replaced(text, "BatchMatMulV2(x, w)", f"{op}(x, w, adj_y=True)")
    if op == "BatchMatMul":  # which knows no broadcasting
        text = replaced(text, "shape=2x3x4", "shape=3x4")
    result = check(text, None)
    assert node_of(result, "product").op == "MatMul"
    assert node_of(result, "product").attr["transpose_b"].b


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BatchMatMulV2(x, w)", "BatchMatMulV2(x, w, adj_x=True)"),
        ("w = Const(shape=4x8)", "w = Const(shape=2x4x8)"),
        ("BatchMatMulV2(x, w)", "BatchMatMulV2(x, w, ^b)"),
        ("BatchMatMulV2(x, w)", "BatchMatMulV2(x, w, _keep_dtype=1)"),
        ("Placeholder(shape=2x3x4)", "Placeholder(shape=0x3x4)"),
        ("Placeholder(shape=2x3x4)", "Placeholder[float64](shape=2x3x4)"),
    ],
)
def test_the_product_stays(old, new):
    text = replaced(DENSE, old, new)
    if "adj_x" in new:
        # Square: other sizes would not fit the weights without the transposition.
        text = replaced(text, "shape=2x3x4", "shape=2x4x4")
    if "float64" in new:
        text = replaced(text.replace("= Const(", "= Const[float64]("), "[float64]", "[double]")
    result = check(text, None)
    assert not any(entry.node == "product" for entry in result.ledger.rewrites)


def check_fed(text, shapes):
    """Checks a graph whose placeholders lack sizes, and its values for inputs of these shapes."""
    before = read_graph(text)
    result = check(before, None, run=False)
    feeds = {f"{name}:0": random_values(name, shape) for name, shape in shapes.items()}
    values = []
    for graph_def in (before, result.graph):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            with tf1.Session(graph=graph) as session:
                values.append(session.run("end:0", feeds))
    np.testing.assert_allclose(values[1], values[0], TOLERANCE["float16"], TOLERANCE["float16"])
    return result


def with_shapes(text, **shapes):
    for name, shape in shapes.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{name} = "))
        text = replaced(text, line, f"{name} = Placeholder(shape={shape})")
    return text


@pytest.mark.parametrize(("x", "w"), [("?x3x?", "?x8"), ("?x3x4", "4x?"), ("unknown", "4x8")])
def test_the_product_stays_where_a_size_is_not_known(x, w):
    text = with_shapes(DENSE, x=x, w=w).replace("(shape=unknown)", "")
    assert not rewrites(check_fed(text, {"x": [2, 3, 4], "w": [4, 8]}))


def test_the_product_stays_where_the_rank_of_the_weights_is_not_known():
    text = with_shapes(DENSE, w="unknown").replace("(shape=unknown)", "")
    assert not rewrites(check_fed(text, {"x": [2, 3, 4], "w": [4, 8]}))


@pytest.mark.parametrize(("x", "shape"), [("?x3x4", [-1, 3, 8]), ("2x?x4", [2, -1, 8])])
@pytest.mark.parametrize("batch", [0, 2])
def test_one_size_that_is_not_known_is_left_to_the_reshape(x, shape, batch):
    sizes = [batch, 3, 4] if x[0] == "?" else [2, batch, 4]
    result = check_fed(with_shapes(DENSE, x=x), {"x": sizes})
    assert values_of(result, "product/npu_shape") == shape


@pytest.mark.parametrize("more", ["", "before = Relu(x)"])
def test_rows_of_another_length_fail_as_they_did(more):
    """TensorFlow infers the length from the product. Other rows may not get a result."""
    text = with_shapes(DENSE, x="?x3x?")
    if more:
        text = text.replace("(x, w", "(before, w").replace("product =", f"{more}\n    product =")
    graph, _ = npu_precision.rewrite_graph_def(
        read_graph(text), "end", precision_mode="allow_mix_precision_bf16"
    )
    with tf.Graph().as_default() as loaded, tf.compat.v1.Session(graph=loaded) as session:
        tf.import_graph_def(graph, name="")
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run("end:0", {"x:0": np.ones([4, 3, 8])})


def test_more_sizes_that_are_not_known_are_read_when_the_graph_runs():
    result = check_fed(with_shapes(DENSE, x="?x?x4"), {"x": [2, 3, 4]})
    assert node_of(result, "product/npu_shape").op == "ConcatV2"
    assert len(rewrites(result)) == 2


@needs_kernels("float16", "Einsum")
@pytest.mark.parametrize(
    ("equation", "x", "w"),
    [
        ("ab,bc->ac", "3x4", "4x8"),
        ("abc,cd->abd", "2x3x4", "4x8"),
        ("abc,dc->abd", "2x3x4", "8x4"),
        ("abc,cde->abde", "2x3x4", "4x2x5"),
        ("abcd,cde->abe", "2x3x4x5", "4x5x6"),
        ("abc,bcde->ade", "2x3x4", "3x4x5x6"),
        ("abc,debc->ade", "2x3x4", "5x6x3x4"),
        ("...x,xy->...y", "2x3x4", "4x8"),
        ("...ax,xy->...ay", "2x3x4", "4x8"),
        ("BTD,DNH->BTNH", "2x3x4", "4x2x5"),
        ("bc,abc->a", "4x8", "3x4x8"),
    ],
)
def test_an_einsum_becomes_a_mat_mul(equation, x, w):
    result = check(einsum_graph(equation, x, w), None)
    if equation == "bc,abc->a":  # a sum over all of the first operand has no rows
        assert not rewrites(result)
        return
    assert rewrites(result) == [("product", "Einsum", "MatMul")]
    assert "Einsum" not in {node.op for node in result.graph.node}


@needs_kernels("float16", "Einsum")
def test_the_operands_of_an_einsum_may_be_in_either_order():
    graph = einsum_graph("cd,abc->abd", "4x8", "2x3x4")
    assert rewrites(check(graph, None)) == [("product", "Einsum", "MatMul")]


@needs_kernels("float16", "Einsum")
@pytest.mark.parametrize(
    ("equation", "x", "w"),
    [
        ("abc,abd->acd", "2x3x4", "2x3x5"),  # of each batch
        ("abc,cd->adb", "2x3x4", "4x8"),
        ("abc,cd->dab", "2x3x4", "4x8"),
        ("abc,ced->abde", "2x3x4", "4x2x5"),
        ("acb,cd->abd", "2x4x3", "4x8"),
        ("abc,c->ab", "2x3x4", "4"),
        ("abc,bd->abcd", "2x3x4", "3x5"),
        ("abc,bd->acd", "2x3x4", "3x5"),
        ("aab,bc->ac", "3x3x4", "4x8"),
        ("abb,bc->ac", "3x4x4", "4x8"),
        ("abb,bbc->ac", "3x4x4", "4x4x8"),
        ("ab,b...->a...", "3x4", "4x8"),
        ("...x,...xy->...y", "2x3x4", "4x8"),
        ("ab,bc->c", "3x4", "4x8"),
        ("aecd,abcd->acbe", "2x3x4x5", "2x6x4x5"),
        ("acbe,aecd->abcd", "2x4x6x3", "2x3x4x5"),
    ],
)
def test_an_einsum_that_is_no_such_product_stays(equation, x, w):
    assert not rewrites(check(einsum_graph(equation, x, w), None))


@needs_kernels("float16", "Einsum")
def test_a_bias_of_two_dimensions_follows_the_mat_mul():
    more = "b = Const(shape=2x5)\nbiased = AddV2(product, b)\nend = Softmax(biased)"
    check(
        einsum_graph("abc,cde->abde", "2x3x4", "4x2x5", more),
        """
        x/npu_rows_0/shape = Const[int32]()
        x/npu_rows_0 = Reshape[float32](x, x/npu_rows_0/shape)
        product/npu_weights/shape = Const[int32]()
        product/npu_weights = Reshape[float32](w, product/npu_weights/shape)
        product = MatMul[float16](x/npu_rows_0/npu_cast_0_float16,
                                  product/npu_weights/npu_cast_0_float16)
        biased/npu_bias/shape = Const[int32]()
        biased/npu_bias = Reshape[float32](b, biased/npu_bias/shape)
        biased/npu_bias_add = BiasAdd[float16](product, biased/npu_bias/npu_cast_0_float16)
        product/npu_shape = Const[int32]()
        biased = Reshape[float16](biased/npu_bias_add, product/npu_shape)
        end = Softmax[float32](biased/npu_cast_0_float32)
        """,
    )


def test_a_reshape_between_a_product_and_its_bias_goes():
    result = check(HEADS, None)
    assert rewrites(result) == [
        ("product", "BatchMatMulV2", "MatMul"),
        ("biased", "AddV2", "BiasAdd of product"),
    ]
    assert list(node_of(result, "biased").input) == ["biased/npu_bias_add", "heads"]
    assert "split" not in {node.name for node in result.graph.node}


@pytest.mark.parametrize("bias_add", ["BiasAdd(back, b)", "AddV2(back, b)", "AddV2(b, back)"])
def test_the_reshape_of_a_tensordot_moves_behind_its_bias(bias_add):
    result = check(
        replaced(TENSORDOT, "BiasAdd(back, b)", bias_add),
        """
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        biased/npu_bias_add = BiasAdd[float16](product, b/npu_cast_0_float16)
        biased = Reshape[float16](biased/npu_bias_add, shape)
        end = Softmax[float32](biased/npu_cast_0_float32)
        """,
    )
    before = bias_add.split("(", maxsplit=1)[0]
    assert rewrites(result) == [("biased", before, "BiasAdd of product")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("end = ", "other = Exp(product)\nend = "),
        ("end = ", "other = Exp(back)\nend = "),
        ("end = ", "other = NoOp(^product)\nend = "),
        ("end = ", "other = NoOp(^back)\nend = "),
        ("BiasAdd(back, b)", "BiasAdd(back, b, ^x)"),
        ("Reshape(product, shape)", "Reshape(product, shape, ^x)"),
        ("MatMul(x, w)", "MatMul(x, w, ^b)"),
        ("BiasAdd(back, b)", "BiasAdd(back, b) @ /cpu:1"),
        ("Reshape(product, shape)", "Reshape(product, shape) @ /cpu:1"),
        ("BiasAdd(back, b)", "BiasAdd(back, b, _keep_dtype=1)"),
        ("BiasAdd(back, b)", "Sub(back, b)"),
        ("Reshape(product, shape)", "Squeeze(product)"),
        # As long as a row behind the Reshape, and not as a row of the product.
        (
            "b = Const(shape=8)\n    shape = Const[int32](value=[2, 3, 8])",
            "b = Const(shape=4)\n    shape = Const[int32](value=[4, 3, 4])",
        ),
        # As long as a row of the product, and not as a row behind the Reshape.
        (
            "b = Const(shape=8)\n    shape = Const[int32](value=[2, 3, 8])\n",
            "b = Const(shape=8)\n    shape = Const[int32](value=[6, 8, 1])\n",
        ),
        ("b = Const(shape=8)", "b = Const(shape=1)"),
        ("b = Const(shape=8)", "b = Const(shape=3x8)"),
        ("b = Const(shape=8)", "b = Const(shape=scalar)"),
    ],
)
def test_the_bias_stays(old, new):
    text = replaced(TENSORDOT, old, new)
    if any(part in new for part in ("6, 8, 1", "shape=1)", "3x8", "scalar")):
        text = replaced(text, "BiasAdd(back, b)", "AddV2(back, b)")
    fetches = ["end", "other"] if "other" in new else ["end"]
    assert not rewrites(check(text, None, fetches))


@needs_kernels("bfloat16", "BiasAdd")
def test_a_bias_of_channels_first_stays():
    text = replaced(TENSORDOT, "[2, 3, 8]", "[2, 8, 3]")
    text = replaced(text, "BiasAdd(back, b)", "BiasAdd(back, b, data_format=NCHW)")
    assert not rewrites(check(text, None, mode="allow_mix_precision_bf16"))
    # As many channels as columns: only the data format says that they are not the same.
    square = replaced(replaced(text, "[2, 8, 3]", "[1, 8, 8]"), "shape=6x4", "shape=8x4")
    assert not rewrites(check(square, None, mode="allow_mix_precision_bf16"))


def test_a_bias_that_is_another_vector_of_the_rows_stays():
    """One side of a product with itself: neither is a bias."""
    text = replaced(DENSE, "AddV2(product, b)", "AddV2(product, product)")
    assert rewrites(check(text, None)) == [("product", "BatchMatMulV2", "MatMul")]


@pytest.mark.parametrize("name", ["product", "back"])
def test_what_the_caller_fetches_keeps_its_shape(name):
    assert not rewrites(check(TENSORDOT, None, ["end", name]))


@pytest.mark.parametrize("name", ["product", "biased"])
def test_what_the_caller_feeds_stays(name):
    text = replaced(DENSE, "Softmax(biased)", "Softmax(product)") if name == "product" else DENSE
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(text), "end", feeds=[name], precision_mode="allow_mix_precision"
    )
    assert name not in [entry.node for entry in ledger.rewrites]


def test_what_is_colocated_with_the_product_keeps_the_bias_behind_it():
    graph = read_graph(TENSORDOT)
    graph.node[2].attr["_class"].list.s.append(b"loc:@product")
    assert not rewrites(check(graph, None))


RESIDUAL = """
    x = Placeholder(shape=2x3x4)
    r = Placeholder(shape=2x3x8)
    w = Const(shape=4x8)
    b = Const(shape=8)
    product = BatchMatMulV2(x, w)
    biased = AddV2(product, b)
    sum = AddV2(r, biased)
    end = Softmax(sum)
"""


def test_a_residual_sum_follows_the_bias():
    result = check(
        RESIDUAL,
        """
        x/npu_rows_0/shape = Const[int32]()
        x/npu_rows_0 = Reshape[float32](x, x/npu_rows_0/shape)
        product = MatMul[float16](x/npu_rows_0/npu_cast_0_float16, w/npu_cast_0_float16)
        biased = BiasAdd[float16](product, b/npu_cast_0_float16)
        r/npu_rows_0/shape = Const[int32]()
        r/npu_rows_0 = Reshape[float32](r, r/npu_rows_0/shape)
        sum/npu_add = AddV2[float16](biased, r/npu_rows_0/npu_cast_0_float16)
        product/npu_shape = Const[int32]()
        sum = Reshape[float16](sum/npu_add, product/npu_shape)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )
    assert rewrites(result)[2:] == [("sum", "AddV2", "AddV2 of product")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shape=2x3x8", "shape=3x8"),
        ("shape=2x3x8", "shape=2x1x8"),
        ("end = ", "other = Exp(biased)\nend = "),
        ("AddV2(r, biased)", "AddV2(r, biased, ^x)"),
        ("AddV2(r, biased)", "AddV2(r, biased) @ /cpu:1"),
        ("AddV2(r, biased)", "Mul(r, biased)"),
        ("AddV2(product, b)", "Neg(product)"),
    ],
)
def test_the_residual_sum_stays(old, new):
    fetches = ["end", "other"] if "other" in new else ["end"]
    result = check(replaced(RESIDUAL, old, new), None, fetches)
    assert "sum" not in [entry.node for entry in result.ledger.rewrites]


def test_the_residual_sum_stays_where_a_size_is_not_known():
    text = with_shapes(RESIDUAL, x="?x3x4", r="?x3x8")
    assert len(rewrites(check_fed(text, {"x": [2, 3, 4], "r": [1, 3, 8]}))) == 2


# TensorFlow's arithmetic optimizer first adds up tensors of one shape.
SUM_FIRST = RESIDUAL.replace("biased = AddV2(product, b)", "first = AddN(product, r)").replace(
    "sum = AddV2(r, biased)", "sum = AddV2(first, b)"
)


def test_a_residual_sum_before_the_bias_follows_it():
    result = check(
        SUM_FIRST,
        """
        x/npu_rows_0/shape = Const[int32]()
        x/npu_rows_0 = Reshape[float32](x, x/npu_rows_0/shape)
        product = MatMul[float16](x/npu_rows_0/npu_cast_0_float16, w/npu_cast_0_float16)
        sum/npu_bias_add = BiasAdd[float16](product, b/npu_cast_0_float16)
        r/npu_rows_0/shape = Const[int32]()
        r/npu_rows_0 = Reshape[float32](r, r/npu_rows_0/shape)
        sum/npu_add = AddV2[float16](sum/npu_bias_add, r/npu_rows_0/npu_cast_0_float16)
        product/npu_shape = Const[int32]()
        sum = Reshape[float16](sum/npu_add, product/npu_shape)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )
    assert rewrites(result)[1:] == [
        ("sum", "AddV2", "BiasAdd of product"),
        ("first", "AddN", "AddV2 of product"),
    ]


def test_a_residual_sum_of_unknown_size_before_the_bias_stays_behind_the_reshape():
    text = with_shapes(SUM_FIRST, x="?x3x4", r="?x3x8")
    result = check_fed(text, {"x": [5, 3, 4], "r": [5, 3, 8]})
    assert list(node_of(result, "sum").input) == ["sum/npu_back", "r/npu_cast_0_float16"]
    assert node_of(result, "sum/npu_back").input[0] == "sum/npu_bias_add"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AddN(product, r)", "AddN(product, r, r)"),
        ("AddN(product, r)", "AddN(product, r, ^x)"),
        ("AddN(product, r)", "AddN(product, r) @ /cpu:1"),
        ("end = ", "other = Exp(first)\nend = "),
        ("end = ", "other = NoOp(^first)\nend = "),
    ],
)
def test_a_bias_behind_such_a_sum_stays(old, new):
    fetches = ["end", "other"] if "other" in new else ["end"]
    result = check(replaced(SUM_FIRST, old, new), None, fetches)
    assert rewrites(result) == [("product", "BatchMatMulV2", "MatMul")]


# GPT-2's Conv1D: the bias is added to the MatMul, and the batch is reshaped back only then.
RESHAPED = """
    x = Placeholder(shape=6x4)
    r = Placeholder(shape=2x3x8)
    w = Const(shape=4x8)
    b = Const(shape=1x8)
    shape = Const[int32](value=[2, 3, 8])
    product = MatMul(x, w)
    biased = AddV2(product, b)
    back = Reshape(biased, shape)
    sum = AddV2(r, back)
    end = Softmax(sum)
"""


def test_a_residual_sum_behind_a_reshape_of_the_bias_goes_before_it():
    result = check(
        RESHAPED,
        """
        product = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        biased/npu_bias/shape = Const[int32]()
        biased/npu_bias = Reshape[float32](b, biased/npu_bias/shape)
        biased = BiasAdd[float16](product, biased/npu_bias/npu_cast_0_float16)
        r/npu_rows_0/shape = Const[int32]()
        r/npu_rows_0 = Reshape[float32](r, r/npu_rows_0/shape)
        sum/npu_add = AddV2[float16](biased, r/npu_rows_0/npu_cast_0_float16)
        sum = Reshape[float16](sum/npu_add, shape)
        end = Softmax[float32](sum/npu_cast_0_float32)
        """,
    )
    assert rewrites(result) == [
        ("biased", "AddV2", "BiasAdd of product"),
        ("sum", "AddV2", "AddV2 of product"),
    ]


@pytest.mark.parametrize(
    "sides",
    [
        {"b = Const(shape=1x8)": "b = Const(shape=8)"},
        {"b = Const(shape=1x8)": "b = Const(shape=8)", "AddV2(product, b)": "BiasAdd(product, b)"},
        {"AddV2(product, b)": "AddV2(b, product)", "AddV2(r, back)": "AddV2(back, r)"},
        {"w = Const(shape=4x8)": "w = Const(shape=8x4)", "(x, w)": "(x, w, transpose_b=True)"},
        # The Reshape splits rows.
        {"[2, 3, 8]": "[2, 6, 4]", "shape=2x3x8": "shape=2x6x4"},
    ],
)
def test_such_a_residual_sum_may_be_written_in_many_ways(sides):
    text = functools.reduce(lambda text, side: replaced(text, *side), sides.items(), RESHAPED)
    assert [node for node, _, _ in rewrites(check(text, None))] == ["biased", "sum"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r = Placeholder(shape=2x3x8)", "r = Placeholder(shape=3x8)"),
        ("r = Placeholder(shape=2x3x8)", "r = Placeholder(shape=1x8)"),
        ("b = Const(shape=1x8)", "b = Const(shape=6x8)"),
        ("b = Const(shape=1x8)", "b = Const(shape=6x1)"),
        ("b = Const(shape=1x8)", "b = Const(shape=1)"),
        ("b = Const(shape=1x8)", "b = Const(shape=scalar)"),
        ("end = ", "other = Exp(product)\nend = "),
        ("end = ", "other = Exp(biased)\nend = "),
        ("end = ", "other = Exp(back)\nend = "),
        ("end = ", "other = NoOp(^biased)\nend = "),
        ("end = ", "other = NoOp(^back)\nend = "),
        ("MatMul(x, w)", "MatMul(x, w, ^b)"),
        ("AddV2(product, b)", "AddV2(product, b, ^x)"),
        ("AddV2(product, b)", "AddV2(product, b) @ /cpu:1"),
        ("AddV2(product, b)", "AddV2(product, b, _keep_dtype=1)"),
        ("AddV2(product, b)", "Mul(product, b)"),
        ("Reshape(biased, shape)", "Reshape(biased, shape, ^x)"),
        ("Reshape(biased, shape)", "Reshape(biased, shape) @ /cpu:1"),
        ("AddV2(r, back)", "AddV2(r, back, ^x)"),
        ("AddV2(r, back)", "AddV2(r, back) @ /cpu:1"),
        ("AddV2(r, back)", "AddV2(r, back, _keep_dtype=1)"),
        ("AddV2(r, back)", "Mul(r, back)"),
    ],
)
def test_a_sum_behind_the_reshape_stays(old, new):
    fetches = ["end", "other"] if "other" in new else ["end"]
    assert not rewrites(check(replaced(RESHAPED, old, new), None, fetches))


def test_a_sum_behind_the_reshape_stays_where_a_size_is_not_known():
    text = with_shapes(RESHAPED, x="?x4", r="?x3x8").replace("[2, 3, 8]", "[-1, 3, 8]")
    assert not rewrites(check_fed(text, {"x": [6, 4], "r": [1, 3, 8]}))


# The nodes of a Dropout in inference.
DROPPED = replaced(
    RESIDUAL, "sum = AddV2(r, biased)", "kept = Identity(biased)\n    sum = AddV2(r, kept)"
)
DROPPED_BEHIND_A_RESHAPE = replaced(
    RESHAPED, "sum = AddV2(r, back)", "kept = Identity(back)\n    sum = AddV2(r, kept)"
)


@pytest.mark.parametrize(
    ("text", "without"), [(DROPPED, RESIDUAL), (DROPPED_BEHIND_A_RESHAPE, RESHAPED)]
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_residual_sum_behind_an_identity_is_the_one_without_it(text, without, times):
    if times == 2:
        text = replaced(text, "(r, kept)", "(r, again)").replace(
            "    sum =", "    again = Identity(kept)\n    sum ="
        )
    result, expected = check(text, None), check(without, None)
    assert rewrites(result) == rewrites(expected)
    assert [node.name for node in result.graph.node] == [node.name for node in expected.graph.node]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("end = ", "other = Exp(kept)\nend = "),
        ("end = ", "other = NoOp(^kept)\nend = "),
        ("Identity(biased)", "Identity(biased, ^x)"),
        # The Identity does not wait for a Const, but it has a control input.
        ("Identity(biased)", "Identity(biased, ^b)"),
        ("Identity(biased)", "Identity(biased) @ /cpu:1"),
        ("Identity(biased)", "Identity(biased, _keep_dtype=1)"),
        ("Identity(biased)", "Snapshot(biased)"),
    ],
)
def test_a_sum_behind_an_identity_stays(old, new):
    fetches = ["end", "other"] if "other" in new else ["end"]
    result = check(replaced(DROPPED, old, new), None, fetches)
    assert "sum" not in [entry.node for entry in result.ledger.rewrites]
    assert "kept" in [node.name for node in result.graph.node]


def test_an_identity_that_is_fetched_or_read_from_a_colocated_node_stays():
    fetched = check(DROPPED, None, ["end", "kept"])
    graph = read_graph(DROPPED)
    graph.node[-1].attr["_class"].list.s.append(b"loc:@kept")
    for result in (fetched, check(graph, None)):
        assert "sum" not in [entry.node for entry in result.ledger.rewrites]


@pytest.mark.parametrize("text", [RESHAPED, TENSORDOT], ids=["after", "before"])
def test_a_bias_of_unknown_length_stays(text):
    """A bias of one number would be added to all columns."""
    text = with_shapes(text.replace("BiasAdd", "AddV2"), w="4x?", b="?")
    assert not rewrites(
        check_fed(
            text,
            {"x": [6, 4], "w": [4, 8], "b": [1], **({"r": [2, 3, 8]} if "r = " in text else {})},
        )
    )


def test_the_sum_of_two_products_is_the_residual_sum_of_one():
    text = """
        x = Placeholder(shape=2x3x4)
        v = Const(shape=4x8)
        w = Const(shape=4x8)
        b = Const(shape=8)
        c = Const(shape=8)
        one = BatchMatMulV2(x, v)
        two = BatchMatMulV2(x, w)
        one_biased = AddV2(one, b)
        two_biased = AddV2(two, c)
        sum = AddV2(two_biased, one_biased)
        end = Softmax(sum)
    """
    result = check(text, None)
    assert [node for node, _, _ in rewrites(result)] == [
        "one",
        "one_biased",
        "sum",
        "two",
        "two_biased",
    ]


def test_products_of_one_tensor_read_it_as_one_matrix():
    """With several Reshapes, each would have its own Cast."""
    text = """
        x = Placeholder(shape=2x3x4)
        black = Exp(x)
        v = Const(shape=4x8)
        w = Const(shape=4x8)
        one = BatchMatMulV2(black, v)
        two = BatchMatMulV2(black, w)
        end = AddV2(one, two)
    """
    result = check(text, None)
    ops = [node.op for node in result.graph.node]
    assert ops.count("MatMul") == 2
    assert ops.count("Reshape") == 3
    marked = replaced(text, "BatchMatMulV2(black, w)", "BatchMatMulV2(black, w) @ /cpu:1")
    ops = [node.op for node in check(marked, None).graph.node]
    assert ops.count("Reshape") == 4


def test_in_a_loop_new_constants_are_of_the_loop():
    text = loop(
        "start = Identity(x3)",
        """
        w_enter = Enter(w, frame_name=loop, is_constant=True)
        b_enter = Enter(b, frame_name=loop, is_constant=True)
        product = BatchMatMulV2(switch:1, w_enter)
        biased = AddV2(product, b_enter)
        turn = Tanh(biased)
        """,
    )
    text = "x3 = Placeholder(shape=2x3x4)\nw = Const(shape=4x4)\nb = Const(shape=4)\n" + text
    result = check(text, None)
    assert [node for node, _, _ in rewrites(result)] == ["product", "biased"]
    assert list(node_of(result, "product/npu_shape").input) == ["^w_enter"]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "must_keep_origin_dtype", "flatten_mat_muls": None, "rewrites": "-fold_constants"},
        {"mode": "cube_fp16in_fp32out", "flatten_mat_muls": None, "rewrites": "-fold_constants"},
        {"target": "ascend910", "flatten_mat_muls": None, "rewrites": "-fold_constants"},
        {"flatten_mat_muls": False},
    ],
)
def test_products_stay_where_it_was_not_asked_for(options):
    assert not rewrites(check(DENSE, None, **options))


def test_products_stay_where_the_low_type_is_emulated():
    _, ledger = npu_precision.rewrite_graph_def(
        read_graph(DENSE), "end", precision_mode="allow_mix_precision", emulate=True
    )
    assert not ledger.rewrites


@pytest.mark.parametrize(
    "edits",
    [
        '{"black-list": {"to-add": ["BatchMatMulV2"]}}',
        '{"black-list": {"to-add": ["MatMul"]}}',
        '{"white-list": {"to-add": ["node:product"]}}',
    ],
)
def test_a_product_that_the_mixlist_is_about_stays(edits):
    assert not rewrites(check(DENSE, None, mixlist_edits=edits))


@pytest.mark.parametrize(
    "edits",
    [
        '{"black-list": {"to-add": ["AddV2"]}}',
        '{"black-list": {"to-add": ["BiasAdd"]}}',
        '{"white-list": {"to-add": ["node:biased"]}}',
    ],
)
def test_a_bias_that_the_mixlist_is_about_stays(edits):
    result = check(DENSE, None, mixlist_edits=edits)
    assert rewrites(result) == [("product", "BatchMatMulV2", "MatMul")]


@pytest.mark.parametrize("line", ["product:", "OpType::BatchMatMul", "OpType::MatMulV2"])
def test_a_product_that_customize_dtypes_is_about_stays(line, tmp_path):
    path = tmp_path / "dtypes.txt"
    path.write_text(f"{line}:InputDtype:float32,float32,OutputDtype:float32\n")
    assert not rewrites(check(DENSE, None, customize_dtypes=str(path)))


def weighted(shape, low, variables, name):
    """A weight, and its value in float64 after rounding to the low type."""
    value = random_values(name, shape)
    tensor = tf.constant(value)
    if variables:
        tensor = tf1.get_variable(name, initializer=value, use_resource=True).read_value()
    return tensor, value.astype(low.as_numpy_dtype).astype(np.float64)


@needs_kernels("bfloat16", "MatMul", "BiasAdd")
@pytest.mark.parametrize("variables", [False, True])
@pytest.mark.parametrize("low", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_session_computes_what_float64_computes(low, variables, batch):
    """The projections of MultiHeadAttention, of any batch and length."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, None, 8], name="x")
        w, w64 = weighted([8, 2, 4], low, variables, "w")
        b, b64 = weighted([2, 4], low, variables, "b")
        v, v64 = weighted([2, 4, 6], low, variables, "v")
        c, c64 = weighted([6], low, variables, "c")
        heads = tf.einsum("abc,cde->abde", x, w) + b
        tf.identity(tf.einsum("abcd,cde->abe", heads, v) + c, name="end")
    mode = "allow_mix_precision" if low == tf.float16 else "allow_mix_precision_bf16"
    config = npu_precision.npu_config_proto(precision_mode=mode)
    value = random_values("x", [batch, 3, 8])
    with tf1.Session(graph=graph, config=config) as session:
        if variables:
            with graph.as_default():
                session.run(tf1.global_variables_initializer())
        got = session.run("end:0", {"x:0": value})
    rounded = value.astype(low.as_numpy_dtype).astype(np.float64)
    want = np.einsum("abc,cde->abde", rounded, w64) + b64
    want = np.einsum("abcd,cde->abe", want, v64) + c64
    assert got.shape == want.shape
    tolerance = TOLERANCE["float16" if low == tf.float16 else "bfloat16"]
    np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max())


def test_what_keeps_float32_is_as_exact_as_before(tmp_path):
    black = {"precision_reduce": {"flag": "false"}}
    info = tmp_path / "ops.json"
    info.write_text(json.dumps(dict.fromkeys(("MatMul", "BatchMatMulV2"), black)))
    text = replaced(RESIDUAL, "Softmax(sum)", "Exp(sum)")
    result = check(text, None, ops_info_dir=str(tmp_path))
    assert len(rewrites(result)) == 3
    x, r, w, b = (
        random_values(*given).astype(np.float64)
        for given in [("x", [2, 3, 4]), ("r", [2, 3, 8]), ("w", [4, 8]), ("b", [8])]
    )
    (got,) = run(result.graph, ["end"])
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.exp(x @ w + b + r), rtol=1e-5)


@needs_onednn
@needs_kernels("bfloat16", "MatMul", "BiasAdd")
@pytest.mark.parametrize("variables", [False, True])
@pytest.mark.parametrize("flatten", [True, False])
def test_bias_and_activation_are_fused_into_the_products(flatten, variables, executed_nodes):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3, 8], name="x")
        low = tf.bfloat16
        w, _ = weighted([8, 2, 4], low, variables, "w")
        b, _ = weighted([2, 4], low, variables, "b")
        v, _ = weighted([2, 4, 6], low, variables, "v")
        c, _ = weighted([6], low, variables, "c")
        heads = tf.einsum("abc,cde->abde", x, w) + b
        active = tf.nn.relu(tf.einsum("abcd,cde->abe", heads, v) + c)
        tf.nn.softmax(active, name="end")
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision_bf16", flatten_mat_muls=flatten
    )
    with tf1.Session(graph=graph, config=config) as session:
        if variables:
            with graph.as_default():
                session.run(tf1.global_variables_initializer())
        nodes = executed_nodes(session, "end:0", {"x:0": np.ones([2, 3, 8])})
    fused = [
        [name.decode() for name in node.attr["fused_ops"].list.s]
        for node in nodes.values()
        if "FusedMatMul" in node.op
    ]
    assert sorted(fused) == ([["BiasAdd"], ["BiasAdd", "Relu"]] if flatten else [])


def trained(config):
    """The loss and the gradients of a product of three dimensions with a variable."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3, 8], name="x")
        w = tf1.get_variable("w", initializer=random_values("w", [8, 6]), use_resource=True)
        b = tf1.get_variable("b", initializer=random_values("b", [6]), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w) + b)), name="loss")
        gradients = tf1.gradients(loss, [w, b, x])
        start = tf1.global_variables_initializer()
        with tf1.Session(graph=graph, config=config) as session:
            session.run(start)
            return session.run([loss, *gradients], {x: random_values("x", [4, 3, 8])})


@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
@needs_kernels("bfloat16", "MatMul", "BiasAdd")
def test_loss_and_gradients_agree(mode):
    tolerance = TOLERANCE["bfloat16" if "bf" in mode else "float16"]
    for got, want in zip(
        trained(npu_precision.npu_config_proto(precision_mode=mode)), trained(None)
    ):
        np.testing.assert_allclose(got, want, atol=tolerance * np.abs(want).max())


def test_the_gradient_of_the_weights_stays_and_that_of_the_input_becomes_a_mat_mul():
    text = """
        x = Placeholder(shape=2x3x4)
        d = Placeholder(shape=2x3x8)
        w = Const(shape=4x8)
        product = BatchMatMulV2(x, w)
        gradients/product_grad/BatchMatMulV2 = BatchMatMulV2(d, w, adj_y=True)
        gradients/product_grad/BatchMatMulV2_1 = BatchMatMulV2(x, d, adj_x=True)
        end = Softmax(product)
    """
    names = ["gradients/product_grad/BatchMatMulV2", "gradients/product_grad/BatchMatMulV2_1"]
    result = check(text, None, ["end", *names])
    assert [node for node, _, _ in rewrites(result)] == [names[0], "product"]


@needs_gpu_kernels
def test_on_a_gpu_it_runs_where_it_is_named():
    text = placed(DENSE, "/device:GPU:0")
    assert [name for name, *_ in rewrites(check(text, None))][:1] == ["product"]
    assert not check_rewrite(text, None).ledger.rewrites
    assert not check_rewrite(text, None, squeeze_masks=True).ledger.rewrites

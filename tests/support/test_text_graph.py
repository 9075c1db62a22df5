"""Tests of the text form of graphs, which other tests are written in."""

import numpy as np
import pytest
import tensorflow as tf

from support.text_graph import read_graph, write_graph

TEXT = """
    x = Placeholder(shape=4x8)
    w = Const(shape=8x4)
    axis = Const[int32](value=[1])
    a = MatMul(x, w)                       # a comment
    b = Exp(a, ^x) @ /device:CPU:1
    both = IdentityN(a, axis, b)
    c = Relu(both:2)
    d = Sum(c, axis, keep_dims=True)
    """


def node(graph, name):
    return next(node for node in graph.node if node.name == name)


def test_what_the_text_leaves_out_follows_from_the_inputs_and_the_op():
    assert write_graph(read_graph(TEXT)).splitlines() == [
        "x = Placeholder[float32]()",
        "w = Const[float32]()",
        "axis = Const[int32]()",
        "a = MatMul[float32](x, w)",
        "b = Exp[float32](a, ^x) @ /device:CPU:1",
        "both = IdentityN[float32,int32,float32](a, axis, b)",
        "c = Relu[float32](both:2)",
        "d = Sum[float32](c, axis)",
    ]


def test_sources_that_are_as_they_were_are_left_out_and_others_are_not():
    graph, original = read_graph(TEXT), read_graph(TEXT)
    node(graph, "w").attr["dtype"].type = 19
    assert write_graph(graph, original).splitlines()[:2] == [
        "w = Const[float16]()",
        "a = MatMul[float32](x, w)",
    ]


CASTS = {
    "x/npu_cast_0_float16 = Cast[float32,float16](x)": False,
    "x/npu_cast_1_float16 = Cast[float32,float16](x)": True,
    "x/npu_cast_0_bfloat16 = Cast[float32,float16](x)": True,
    "y/npu_cast_0_float16 = Cast[float32,float16](x)": True,
    "x/npu_cast_0_float16 = Cast[float16,float16](x)": True,
    "x/npu_cast_0_float16 = Cast[float32,float16](x, ^x)": True,
    "x/npu_cast_0_float16 = Cast[float32,float16](x) @ /device:CPU:1": True,
}


@pytest.mark.parametrize("line", CASTS)
def test_only_a_cast_that_is_what_its_name_says_is_left_out(line):
    text = f"x = Placeholder(shape=4)\n{line}\nend = Exp({line.split()[0]})"
    assert (line in write_graph(read_graph(text))) == CASTS[line]


def test_a_cast_that_nothing_reads_is_told():
    text = "x = Placeholder[float32]()\nx/npu_cast_0_float16 = Cast[float32,float16](x)"
    assert write_graph(read_graph(text)) == text


def test_the_text_does_not_depend_on_the_order_of_the_nodes():
    graph, original = read_graph(TEXT), read_graph(TEXT)
    nodes = list(reversed(graph.node))
    del graph.node[:]
    graph.node.extend(nodes)
    assert write_graph(graph, original) == write_graph(original, original)


def test_values_are_the_same_in_every_run_and_attributes_have_their_types():
    graph = read_graph(
        """
        x = Placeholder(shape=?x8x8x3)
        f = Const(shape=3x3x3x2)
        c = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME, use_cudnn_on_gpu=False)
        s = Const[bfloat16](value=0.5)
        m = MatMul(c, c, _keep_dtype=1)
        """
    )
    value = tf.make_ndarray(node(graph, "f").attr["value"].tensor)
    np.testing.assert_allclose(value.ravel()[:2], [-0.03702112, 0.00379819], rtol=1e-6)
    conv = node(graph, "c").attr
    assert list(conv["strides"].list.i) == [1, 1, 1, 1]
    assert (conv["padding"].s, conv["use_cudnn_on_gpu"].b) == (b"SAME", False)
    assert [dim.size for dim in node(graph, "x").attr["shape"].shape.dim] == [-1, 8, 8, 3]
    assert node(graph, "m").attr["_keep_dtype"].i == 1


def test_a_line_that_is_none_is_refused():
    with pytest.raises(AssertionError, match="not a line of a text graph: 'x <- y'"):
        read_graph("x <- y")
    with pytest.raises(AssertionError, match="TensorFlow has no op 'NoSuchOp'"):
        read_graph("x = NoSuchOp()")

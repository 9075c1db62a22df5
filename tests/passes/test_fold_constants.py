"""fold_constants: a constant that only inserted Casts read is stored in the low type."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import UNCHANGED, check_rewrite
from support.text_graph import random_values, read_graph

import npu_precision

check = functools.partial(check_rewrite, fold_constants=True)
low_types = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


def value_of(graph, name):
    (node,) = (node for node in graph.node if node.name == name)
    return tf.make_ndarray(node.attr["value"].tensor)


@low_types
def test_a_weight_read_through_casts_alone_is_stored_low(mode, low):
    result = check(
        """
        x = Placeholder(shape=4x8)
        w = Const(shape=8x8)
        a = MatMul(x, w)
        b = MatMul(a, w)
        end = LogSoftmax(b)
        """,
        f"""
        w/npu_cast_0_{low} = Const[{low}]()
        a = MatMul[{low}](x/npu_cast_0_{low}, w/npu_cast_0_{low})
        b = MatMul[{low}](a, w/npu_cast_0_{low})
        end = LogSoftmax[float32](b/npu_cast_0_float32)
        """,
        mode=mode,
    )
    stored = value_of(result.graph, f"w/npu_cast_0_{low}")
    rounded = random_values("w", [8, 8]).astype(tf.as_dtype(low).as_numpy_dtype)
    assert stored.dtype == rounded.dtype
    np.testing.assert_array_equal(stored, rounded)


def test_a_weight_that_is_read_in_float32_as_well_keeps_both():
    check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        b = Exp(w)
        end = AddN(a, b)
        """,
        """
        w/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        b = Exp[float32](w)
        end = AddN[float32](a/npu_cast_0_float32, b)
        """,
    )


def test_the_identity_of_a_frozen_variable_is_looked_through_and_goes():
    result = check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        w/read = Identity(w)
        a = MatMul(x, w/read)
        end = LogSoftmax(a)
        """,
        """
        w/read/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, w/read/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32)
        """,
    )
    assert {node.name for node in result.graph.node} == {
        "x",
        "x/npu_cast_0_float16",
        "w/read/npu_cast_0_float16",
        "a",
        "a/npu_cast_0_float32",
        "end",
    }


def test_an_identity_that_others_read_stays():
    check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        w/read = Identity(w)
        a = MatMul(x, w/read)
        b = Exp(w/read)
        end = AddN(a, b)
        """,
        """
        w/read = Identity[float32](w)
        w/read/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, w/read/npu_cast_0_float16)
        b = Exp[float32](w/read)
        end = AddN[float32](a/npu_cast_0_float32, b)
        """,
    )


def test_nothing_has_a_control_dependency_on_a_constant_that_is_gone():
    """Keras' functions depend on every variable that they read, which is a constant when frozen."""
    result = check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        read = Identity(w)
        a = MatMul(x, read)
        all_read = NoOp(^read)
        end = LogSoftmax(a, ^all_read)
        """,
        """
        read/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, read/npu_cast_0_float16)
        all_read = NoOp()
        end = LogSoftmax[float32](a/npu_cast_0_float32, ^all_read)
        """,
    )
    assert not {"w", "read"} & {node.name for node in result.graph.node}


def test_not_even_a_placeholder_has_a_control_dependency_on_a_constant_that_is_gone():
    check(
        """
        w = Const(shape=4x4)
        x = Placeholder(shape=4x4, ^w)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """,
        """
        x = Placeholder[float32]()
        w/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32)
        """,
    )


def test_a_constant_that_has_and_is_a_control_input_stays():
    result = check(
        """
        x = Placeholder(shape=4x4)
        first = Exp(x)
        w = Const(shape=4x4, ^first)
        a = MatMul(x, w)
        end = LogSoftmax(a, ^w)
        """,
        """
        first = Exp[float32](x)
        w = Const[float32](^first)
        w/npu_cast_0_float16 = Const[float16](^first)
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32, ^w)
        """,
    )
    assert "w" in {node.name for node in result.graph.node}


def test_a_constant_has_the_control_inputs_of_the_original():
    check(
        """
        x = Placeholder(shape=4x4)
        first = Exp(x)
        w = Const(shape=4x4, ^first)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """,
        """
        first = Exp[float32](x)
        w/npu_cast_0_float16 = Const[float16](^first)
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32)
        """,
    )


def test_an_identity_with_a_control_input_is_not_looked_through():
    check(
        """
        x = Placeholder(shape=4x4)
        first = Exp(x)
        w = Const(shape=4x4)
        w/read = Identity(w, ^first)
        a = MatMul(x, w/read)
        end = LogSoftmax(a)
        """,
        """
        first = Exp[float32](x)
        w/read = Identity[float32](w, ^first)
        a = MatMul[float16](x/npu_cast_0_float16, w/read/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32)
        """,
    )


def test_an_identity_whose_control_input_is_gone_is_looked_through():
    check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        v = Const(shape=4x4)
        v/read = Identity(v, ^w)
        a = MatMul(x, w)
        b = MatMul(a, v/read)
        end = LogSoftmax(b)
        """,
        """
        w/npu_cast_0_float16 = Const[float16]()
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        v/read/npu_cast_0_float16 = Const[float16]()
        b = MatMul[float16](a, v/read/npu_cast_0_float16)
        end = LogSoftmax[float32](b/npu_cast_0_float32)
        """,
    )


def test_a_cast_of_ours_that_has_a_control_input_stays():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        h = Placeholder[float16](shape=4x4)
        first = Exp(x)
        w = Const(shape=4x4)
        low = Cast[float32,float16](w, ^first, _npu_precision_cast=True)
        product = MatMul(h, low)
        lowered = MatMul(x, x)
        """
    )
    result, _ = npu_precision.rewrite_graph_def(
        graph, ["product", "lowered"], precision_mode="allow_mix_precision"
    )
    (low,) = (node for node in result.node if node.name == "low")
    assert (low.op, list(low.input)) == ("Cast", ["w", "^first"])


def test_a_fetched_constant_keeps_name_and_dtype():
    check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """,
        """
        a = MatMul[float16](x/npu_cast_0_float16, w/npu_cast_0_float16)
        end = LogSoftmax[float32](a/npu_cast_0_float32)
        """,
        ["w", "end"],
    )


def test_a_constant_that_is_fed_keeps_its_cast():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """
    )
    rewritten, _ = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="allow_mix_precision", feeds=["w"]
    )
    ops = {node.name: node.op for node in rewritten.node}
    assert ops["w"] == "Const"
    assert ops["w/npu_cast_0_float16"] == "Cast"


def test_constants_in_other_dtypes_are_left_alone():
    check(
        """
        x = Placeholder(shape=4x4)
        h = Const[float16](shape=4x4)
        wide = Cast[float16,float32](h)
        axis = Const[int32](value=[1])
        a = MatMul(x, wide)
        end = Sum(a, axis)
        """,
        """
        wide = Cast[float16,float32](h)
        a = MatMul[float16](x/npu_cast_0_float16, h)
        end = Sum[float32](a/npu_cast_0_float32, axis)
        """,
    )


def test_nothing_is_folded_where_nothing_is_lowered():
    check(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        half = Cast[float32,float16](w)
        wide = Cast[float16,float32](half)
        a = Exp(x)
        end = AddN(a, wide)
        """,
        UNCHANGED,
    )


@low_types
@pytest.mark.parametrize("value", ["1e30", "-1e30", "65519.0", "65520.0", "6e-8", "1e-30", "-0.0"])
def test_extreme_values_are_rounded_as_a_cast_rounds_them(value, mode, low):
    """One value stands for the whole tensor, as TensorFlow writes constants that repeat it."""
    graph = read_graph(
        f"""
        x = Placeholder(shape=4x4)
        w = Const(value={value})
        a = MatMul(x, x)
        b = Mul(a, w)
        end = LogSoftmax(b)
        """
    )
    shape = tf.TensorShape([4, 4]).as_proto()
    graph.node[1].attr["value"].tensor.tensor_shape.CopyFrom(shape)
    # Otherwise, the Mul would keep float32, because this constant is another one in the low type.
    edits = '{"white-list": {"to-add": ["Mul"]}}'
    result, _ = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode=mode, mixlist_edits=edits
    )
    cast = tf.cast(np.full([4, 4], np.float32(value)), low).numpy()
    assert value_of(result, f"w/npu_cast_0_{low}").tobytes() == cast.tobytes()


def test_a_constant_that_another_node_is_placed_with_stays():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """
    )
    graph.node[3].attr["_class"].list.s.append(b"loc:@w")
    result, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="allow_mix_precision")
    ops = {node.name: node.op for node in result.node}
    assert ops["w"] == ops["w/npu_cast_0_float16"] == "Const"


def test_a_frozen_variable_goes_with_the_read_that_is_placed_with_it():
    """TensorFlow 1 freezes variables like this: the Identity is colocated with its input."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        w/read = Identity(w)
        a = MatMul(x, w/read)
        end = LogSoftmax(a)
        """
    )
    graph.node[1].attr["_class"].list.s.append(b"loc:@w")
    graph.node[2].attr["_class"].list.s.append(b"loc:@w")
    result, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="allow_mix_precision")
    ops = {node.name: node.op for node in result.node}
    assert ops.keys().isdisjoint({"w", "w/read"})
    assert ops["w/read/npu_cast_0_float16"] == "Const"
    # One of two nodes colocated with it stays.
    graph.node[4].attr["_class"].list.s.append(b"loc:@w")
    result, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="allow_mix_precision")
    assert {"w", "end"} <= {node.name for node in result.node}
    assert "w/read" not in {node.name for node in result.node}


def test_a_constant_whose_value_is_damaged_keeps_its_cast():
    """Bytes that do not fill the shape are TensorFlow's to complain about."""
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        a = MatMul(x, w)
        end = LogSoftmax(a)
        """
    )
    graph.node[1].attr["value"].tensor.tensor_content = b"123"
    result, _ = npu_precision.rewrite_graph_def(graph, "end", precision_mode="allow_mix_precision")
    ops = {node.name: node.op for node in result.node}
    assert ops["w/npu_cast_0_float16"] == "Cast"

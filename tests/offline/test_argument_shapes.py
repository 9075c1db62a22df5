"""The shapes of function arguments, which follow from calls, determine the sizes of Casts."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from npu_precision.offline.argument_shapes import write_argument_shapes

FLOAT = tf.float32.as_datatype_enum


def function(graph, name, *calls):
    """Adds a function of one argument, x, that calls others with it."""
    added = graph.library.function.add()
    added.signature.name = name
    added.signature.input_arg.add(name="x", type=FLOAT)
    for number, (op, attribute, called) in enumerate(calls):
        node = added.node_def.add(name=f"call_{number}", op=op, input=["x"])
        node.attr[attribute].func.name = called
    return added


def call(graph, name, source, op="PartitionedCall", attribute="f"):
    node = graph.node.add(name=f"{op}_{len(graph.node)}", op=op, input=[source])
    node.attr[attribute].func.name = name


def placeholder(graph, name, *shape):
    node = graph.node.add(name=name, op="Placeholder")
    node.attr["dtype"].type = FLOAT
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())


def shape_of(graph, name, known_functions=()):
    write_argument_shapes(graph, known_functions)
    for each in graph.library.function:
        if each.signature.name == name:
            shapes = each.arg_attr[0].attr["_output_shapes"].list.shape
            return tf.TensorShape(shapes[0]).as_list() if len(shapes) > 0 else None
    raise AssertionError(name)


def test_a_call_tells_through_others_what_is_fed():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4, 8)
    function(graph, "outer", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "outer", "p")
    assert shape_of(graph, "inner") == [4, 8]


def test_calls_that_do_not_agree_tell_nothing():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4, 8)
    placeholder(graph, "q", 8, 8)
    function(graph, "outer", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "outer", "p")
    call(graph, "outer", "q")
    assert shape_of(graph, "inner") is None


def test_what_a_loop_or_a_branch_calls_may_have_any_shape():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4, 8)
    function(graph, "body", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "inner", "p")
    call(graph, "body", "p", op="While", attribute="body")
    assert shape_of(graph, "inner") is None
    assert shape_of(graph, "body") is None


def test_a_function_that_calls_itself_ends():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4)
    function(graph, "again", ("PartitionedCall", "f", "again"))
    call(graph, "again", "p")
    assert shape_of(graph, "again") == [4]


def test_what_a_function_says_itself_is_made_more_exact_or_stays():
    for own, expected in (([None, 8], [4, 8]), ([5, 8], [5, 8])):
        graph = graph_pb2.GraphDef()
        placeholder(graph, "p", 4, 8)
        added = function(graph, "inner")
        shapes = added.arg_attr[0].attr["_output_shapes"].list.shape
        shapes.add().CopyFrom(tf.TensorShape(own).as_proto())
        call(graph, "inner", "p")
        assert shape_of(graph, "inner") == expected


def variable(graph, name, *shape):
    node = graph.node.add(name=name, op="VarHandleOp")
    node.attr["dtype"].type = FLOAT
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())


def handle_shape(graph, name):
    (found,) = (each for each in graph.library.function if each.signature.name == name)
    shapes = found.arg_attr[0].attr["_handle_shapes"].list.shape
    return tf.TensorShape(shapes[0]).as_list() if len(shapes) > 0 else None


def test_a_known_function_may_be_called_from_elsewhere_with_another_shape():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4, 8)
    function(graph, "exported", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "exported", "p")
    assert shape_of(graph, "exported", ["exported"]) is None
    assert shape_of(graph, "inner", ["exported"]) is None


def test_a_known_function_has_the_same_variables_wherever_it_is_called():
    graph = graph_pb2.GraphDef()
    variable(graph, "v", 8, 8)
    function(graph, "exported", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "exported", "v")
    write_argument_shapes(graph, ["exported"])
    assert handle_shape(graph, "exported") == [8, 8]
    assert handle_shape(graph, "inner") == [8, 8]


def test_a_known_function_that_no_node_calls_may_call_with_another_shape():
    graph = graph_pb2.GraphDef()
    placeholder(graph, "p", 4, 8)
    function(graph, "alone", ("PartitionedCall", "f", "between"))
    function(graph, "between", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "inner", "p")
    assert shape_of(graph, "inner", ["alone"]) is None


def test_what_no_node_calls_reads_the_same_variables():
    graph = graph_pb2.GraphDef()
    variable(graph, "v", 8, 8)
    function(graph, "alone", ("PartitionedCall", "f", "between"))
    function(graph, "between", ("PartitionedCall", "f", "inner"))
    function(graph, "inner")
    call(graph, "inner", "v")
    write_argument_shapes(graph, ["alone"])
    assert handle_shape(graph, "inner") == [8, 8]

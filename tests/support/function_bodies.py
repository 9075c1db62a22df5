"""Converts functions of a graph's library to GraphDefs and back."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def
from tensorflow.python.framework.graph_to_function_def import graph_to_function_def

from support.graph_builder import attr_value

RESULT = "result_"


def add_functions(b):
    """Puts the finished bodies of a builder into the library of its graph."""
    # A body that calls another comes before it.
    for name, body in reversed(list(b.bodies.items())):
        if not name:
            continue
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(graph_pb2.GraphDef(library=b.graph_def.library))
            tf.import_graph_def(body.graph_def, name="")
        arguments = [graph.get_tensor_by_name(tensor.name) for tensor in body.arguments]
        results = [graph.get_tensor_by_name(tensor.name) for tensor in body.results]
        inside = [op for op in graph.get_operations() if op.type != "Placeholder"]
        function = graph_to_function_def(
            graph, inside, arguments, results, [f"out_{k}" for k in range(len(results))]
        )
        function.signature.name = name
        function.signature.is_stateful = any(op.op_def.is_stateful for op in inside)
        function.attr["_noinline"].b = body.noinline
        b.graph_def.library.function.add().CopyFrom(function)


def body_graphs(library):
    """The body of each function in a library as a GraphDef whose results are Identity nodes."""
    with tf.Graph().as_default():
        # Otherwise, the functions that the bodies call would be unknown.
        tf.import_graph_def(graph_pb2.GraphDef(library=library))
        return {function.signature.name: _body_graph(function) for function in library.function}


def _body_graph(function):
    graph_def, flat_names = function_def_to_graph_def(function)
    # TensorFlow 1.15 adds every function of the default graph to the library, this one included.
    graph_def.ClearField("library")
    for index, output in enumerate(function.signature.output_arg):
        tensor = function.ret[output.name]
        node = graph_def.node.add(name=f"{RESULT}{index}", op="Identity")
        node.input.append(flat_names.get(tensor, tensor))
        node.attr["T"].CopyFrom(attr_value(tf.as_dtype(output.type)))
    return graph_def


def is_result(name):
    """Whether a node of a body is one of the results."""
    return name.startswith(RESULT)

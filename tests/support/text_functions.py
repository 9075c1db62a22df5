"""Functions in the text form of graphs (see text_graph.py), for While, If and calls.

The functions come after the graph, each after its first caller:

    x = Placeholder(shape=4x4)
    n = Const[int32](value=2)
    y = PartitionedCall(x, n, f=power)
    def power(base, exponent[int32]) -> (result):
        factor = Cast[int32,float32](exponent)
        result = Mul(base, factor)

An argument that is not float32 has its dtype in brackets. A caller's Tout follows from the tensors
that the function returns.
"""

from __future__ import annotations

import re

import tensorflow as tf
from tensorflow.core.framework import function_pb2, graph_pb2

from npu_precision._tf_compat import op_definition
from support.node_dtypes import dtype_name, output_dtypes
from support.text_graph import read_graph, tensor_name, text_lines, write_graph

_HEAD = re.compile(r"def (?P<name>\w+)\((?P<arguments>.*?)\) -> \((?P<results>.*)\):")
_ARGUMENT = re.compile(r"(?P<name>\w+)(\[(?P<dtype>\w+)\])?")


def read_graph_with_functions(text):
    """The GraphDef of a text, with the functions in its library."""
    parts = [[]]
    for line in text_lines(text):
        if line.startswith("def "):
            parts.append([])
        parts[-1].append(line)
    functions, results = [], {}
    for head, *body in reversed(parts[1:]):
        functions.insert(0, _read_function(head, body, results))
        signature = functions[0].signature
        results[signature.name] = [argument.type for argument in signature.output_arg]
    graph = read_graph("\n".join(parts[0]), results)
    graph.library.function.extend(functions)
    return graph


def write_graph_with_functions(graph, original):
    """The text of a GraphDef and of the functions in its library."""
    bodies, before = function_bodies(graph), function_bodies(original)
    texts = [write_graph(graph, original)]
    for function in graph.library.function:
        name = function.signature.name
        results = [node.input[0] for node in bodies[name].node if node.op == "_Retval"]
        arguments = ", ".join(map(_write_argument, function.signature.input_arg))
        texts.append(f"def {name}({arguments}) -> ({', '.join(results)}):")
        lines = write_graph(bodies[name], before.get(name)).splitlines()
        texts += [line for line in lines if " = _Retval[" not in line]
    return "\n".join(texts)


def without_inferred_types(graph):
    """The graph without the type annotations that newer TensorFlow versions add to bodies."""
    copy = graph_pb2.GraphDef()
    copy.CopyFrom(graph)
    for function in copy.library.function:
        for node in function.node_def:
            if "experimental_type" in node.DESCRIPTOR.fields_by_name:
                node.ClearField("experimental_type")
    return copy


def function_bodies(graph):
    """The GraphDef that Grappler makes of each body, with _Arg and _Retval, by function name."""
    return {
        function.signature.name: _body(function)
        for function in without_inferred_types(graph).library.function
    }


def _read_function(head, lines, results):
    match = _HEAD.fullmatch(head)
    assert match, f"not the head of a function: {head!r}"
    arguments = [_ARGUMENT.fullmatch(text).groupdict() for text in match["arguments"].split(", ")]
    placeholders = [f"{a['name']} = Placeholder[{a['dtype'] or 'float32'}]()" for a in arguments]
    body = read_graph("\n".join([*placeholders, *lines]), results)
    nodes = {node.name: node for node in body.node}
    function = function_pb2.FunctionDef()
    function.signature.name = match["name"]
    for argument in arguments:
        dtype = tf.as_dtype(argument["dtype"] or "float32").as_datatype_enum
        function.signature.input_arg.add(name=argument["name"], type=dtype)
    for number, tensor in enumerate(match["results"].split(", ")):
        name, port = tensor_name(tensor)
        function.signature.output_arg.add(
            name=f"result{number}", type=output_dtypes(nodes[name])[port]
        )
        function.ret[f"result{number}"] = _name_in_function(tensor, nodes)
    for node in body.node[len(arguments) :]:
        function.signature.is_stateful |= op_definition(node.op).is_stateful
        copy = function.node_def.add()
        copy.CopyFrom(node)
        copy.input[:] = [_name_in_function(tensor, nodes) for tensor in node.input]
    return function


def _name_in_function(tensor, nodes):
    """The name of "a:1" in a FunctionDef: "a:z:0", the first tensor of the output argument z."""
    name, port = tensor_name(tensor)
    if port < 0 or _is_argument(nodes[name]):
        return tensor
    for argument, begin in _first_ports(nodes[name]).items():
        if begin <= port:
            found = f"{name}:{argument}:{port - begin}"
    return found


def _name_in_graph(tensor, nodes):
    """The reverse of _name_in_function."""
    name, *argument_and_index = tensor.split(":")
    if not argument_and_index:
        return tensor
    argument, index = argument_and_index
    port = _first_ports(nodes[name])[argument] + int(index)
    return f"{name}:{port}" if port else name


def _is_argument(node):
    return node.op == "Placeholder" and not node.input


def _first_ports(node):
    """The number of the first output of each output argument."""
    ports, begin = {}, 0
    for argument in op_definition(node.op).output_arg:
        ports[argument.name] = begin
        if argument.number_attr:
            begin += node.attr[argument.number_attr].i
        elif argument.type_list_attr:
            begin += len(node.attr[argument.type_list_attr].list.type)
        else:
            begin += 1
    return ports


def _write_argument(argument):
    dtype = dtype_name(argument.type)
    return argument.name if dtype == "float32" else f"{argument.name}[{dtype}]"


def _body(function):
    graph = graph_pb2.GraphDef()
    nodes = {node.name: node for node in function.node_def}
    for argument in function.signature.input_arg:
        graph.node.add(name=argument.name, op="_Arg").attr["T"].type = argument.type
    for node in function.node_def:
        copy = graph.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [_name_in_graph(tensor, nodes) for tensor in node.input]
    for result in function.signature.output_arg:
        node = graph.node.add(name=result.name + "_RetVal", op="_Retval")
        node.input.append(_name_in_graph(function.ret[result.name], nodes))
        node.attr["T"].type = result.type
    return graph

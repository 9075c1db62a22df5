"""A compact text form of GraphDefs, so that a test is a few lines of graph and of expectation.

    x = Placeholder(shape=4x8)
    w = Const(shape=8x4)                   values are random, but the same in every run
    axis = Const[int32](value=[1])
    a = MatMul(x, w, transpose_b=False)    inputs, then attributes
    b = Exp(a)
    c = Relu(b:0, ^a) @ /device:CPU:1      an output by number; a control input; a device

The brackets hold the type attributes, in the OpDef's order. An attribute with a default is only
written if it is another float dtype. All are optional when reading: a type that does not follow
from the inputs is float32.

A graph is written in the order of computation. The text leaves out attributes that are no types,
unchanged sources, unchanged nodes without floats, and every Cast that does what its name says,
`a/npu_cast_0_float16`.
"""

import ast
import re
import zlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2

from npu_precision._tf_compat import op_definition
from support.node_dtypes import (
    any_float,
    attribute_value,
    attributes,
    dtype_name,
    output_dtypes,
    type_attributes,
)

_LINE = re.compile(
    r"(?P<name>\S+) = (?P<op>\w+)(\[(?P<dtypes>[\w,]*)\])?"
    r"(\((?P<arguments>.*)\))?( @ (?P<device>\S+))?"
)
_STANDARD_CAST = re.compile(r"(?P<producer>.*)/npu_cast_(?P<port>\d+)_(?P<dtype>\w+)")


def read_graph(text, results=None):
    """The GraphDef of a text; comments start with #.

    Args:
        text: the lines.
        results: the dtypes that a called function returns, by its name.
    """
    graph = graph_pb2.GraphDef()
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    outputs = {}
    for line in text_lines(text):
        _read_node(line, graph.node.add(), outputs, results or {})
    return graph


def placed(text, device):
    """The text of a graph with all nodes, one in each line, on the device."""
    return "\n".join(f"{line.strip()} @ {device}" for line in text.splitlines() if line.strip())


def text_lines(text):
    """The lines of a text without comments and indentation; a line may continue after a comma."""
    text = re.sub(r"[ \t]*(#.*)?$", "", text, flags=re.MULTILINE)
    return [line.strip() for line in re.sub(r",\n\s*", ", ", text).split("\n") if line.strip()]


def write_graph(graph, original=None):
    """The text of a GraphDef; leaves out nodes without floats that are the same in `original`."""
    before = {} if original is None else {node.name: node for node in original.node}
    nodes = {node.name: node for node in graph.node}
    read = {tensor_name(name)[0] for node in graph.node for name in node.input}
    lines = []
    for name in _in_order_of_computation(nodes, first=before):
        node = nodes[name]
        if node == before.get(name) and (_is_source(node) or not _has_floats(node)):
            continue
        if name in read and _is_standard_cast(node, nodes):
            continue
        lines.append(_write_node(node))
    return "\n".join(lines)


def tensor_name(text):
    """ "a:1" -> ("a", 1); "^a" -> ("a", -1)."""
    if text.startswith("^"):
        return text[1:], -1
    name, _, port = text.partition(":")
    return name, int(port or 0)


def random_values(name, shape, dtype=tf.float32):
    """The values of a constant or fed placeholder of this name; the same in every run."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if dtype.is_floating:
        return random.uniform(-1, 1, shape).astype(dtype.as_numpy_dtype)
    return random.integers(0, 2, shape).astype(dtype.as_numpy_dtype)


def _read_node(line, node, outputs, results):
    match = _LINE.fullmatch(line)
    assert match, f"not a line of a text graph: {line!r}"
    node.name, node.op, node.device = match["name"], match["op"], match["device"] or ""
    definition = op_definition(node.op)
    assert definition, f"TensorFlow has no op {node.op!r}: {line!r}"
    given = {}
    for argument in _arguments(match["arguments"] or ""):
        key, equals, value = argument.partition("=")
        if equals:
            given[key] = value
        else:
            node.input.append(argument)
    if match["dtypes"]:
        _set_types(node, definition, match["dtypes"].split(","))
    if node.op == "Const":
        _set_constant(node, given)
    kinds = {attribute.name: attribute.type for attribute in definition.attr}
    for key, value in given.items():
        node.attr[key].CopyFrom(_attr_value(kinds.get(key), value))
    _infer_attributes(node, definition, outputs, results)
    outputs[node.name] = output_dtypes(node)


def _arguments(text):
    """The parts of a text between its commas, except commas inside brackets."""
    depth, arguments = 0, [""]
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += letter
    return list(filter(None, map(str.strip, arguments)))


def _set_types(node, definition, names):
    dtypes = [tf.as_dtype(name).as_datatype_enum for name in names]
    for attribute in definition.attr:
        if attribute.HasField("default_value"):
            continue
        if attribute.type == "list(type)":
            node.attr[attribute.name].list.type.extend(dtypes)
        elif attribute.type == "type":
            node.attr[attribute.name].type = dtypes.pop(0)


def _set_constant(node, given):
    dtype = tf.as_dtype(node.attr["dtype"].type or tf.float32)
    if "value" in given:
        value = np.array(ast.literal_eval(given.pop("value")), dtype.as_numpy_dtype)
    else:
        value = random_values(node.name, _shape(given.pop("shape")), dtype)
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))


def _shape(text):
    return [None if size == "?" else int(size) for size in text.split("x") if size != "scalar"]


def _attr_value(kind, text):
    """The AttrValue of a text; the type of an underscore attribute is guessed from the text."""
    value = attr_value_pb2.AttrValue()
    if kind == "shape":
        value.shape.CopyFrom(tf.TensorShape(_shape(text)).as_proto())
    elif kind == "type":
        value.type = tf.as_dtype(text).as_datatype_enum
    elif kind == "list(int)":
        value.list.i.extend(ast.literal_eval(text))
    elif kind == "list(string)":
        value.list.s.extend(word.encode() for word in ast.literal_eval(text))
    elif kind == "func":
        value.func.name = text
    elif kind == "list(func)":
        for name in text.strip("[]").split(", "):
            value.list.func.add(name=name)
    elif kind == "float":
        value.f = float(text)
    elif text in ("True", "False"):
        value.b = text == "True"
    elif kind == "int" or (kind is None and text.isdecimal()):
        value.i = int(text)
    else:
        value.s = text.encode()
    return value


def _infer_attributes(node, definition, outputs, results):
    """Sets the counts and types that follow from the inputs; an unknown type is float32."""
    data = [name for name in node.input if not name.startswith("^")]
    single = [not (arg.number_attr or arg.type_list_attr) for arg in definition.input_arg]
    begin = 0
    for number, argument in enumerate(definition.input_arg):
        count = 1 if single[number] else len(data) - begin - sum(single[number:])
        dtypes = [_dtype_of(name, outputs) for name in data[begin : begin + count]]
        begin += count
        if argument.number_attr and argument.number_attr not in node.attr:
            node.attr[argument.number_attr].i = count
        if argument.type_list_attr and argument.type_list_attr not in node.attr:
            node.attr[argument.type_list_attr].list.type.extend(d or tf.float32 for d in dtypes)
        known = [dtype for dtype in dtypes if dtype is not None]
        if argument.type_attr and argument.type_attr not in node.attr and known:
            node.attr[argument.type_attr].type = known[0]
    functions = [value.func.name for value in node.attr.values() if value.HasField("func")]
    functions += [func.name for value in node.attr.values() for func in value.list.func]
    for attribute in definition.attr:
        if attribute.name in node.attr:
            continue
        if attribute.HasField("default_value"):
            node.attr[attribute.name].CopyFrom(attribute.default_value)
        elif attribute.type == "type":
            node.attr[attribute.name].type = tf.float32.as_datatype_enum
        elif attribute.type == "list(type)" and functions:
            node.attr[attribute.name].list.type.extend(results[functions[0]])


def _dtype_of(tensor, outputs):
    """The dtype of a tensor; None for a tensor of a later line, which closes a loop."""
    name, port = tensor_name(tensor)
    return tf.as_dtype(outputs[name][port]).base_dtype.as_datatype_enum if name in outputs else None


def _write_node(node):
    shown, types = [], type_attributes(node)
    for attribute in attributes(node):
        dtypes = types.get(attribute.name, [])
        is_default = attribute_value(node, attribute) == attribute.default_value
        if not attribute.HasField("default_value") or (any_float(dtypes) and not is_default):
            shown += dtypes
    text = f"{node.name} = {node.op}"
    if shown:
        text += f"[{','.join(map(dtype_name, shown))}]"
    text += f"({', '.join(node.input)})"
    return f"{text} @ {node.device}" if node.device else text


def _is_source(node):
    return node.op in ("Placeholder", "Const", "_Arg") and not node.input


def _has_floats(node):
    return any_float(sum(type_attributes(node).values(), output_dtypes(node)))


def _is_standard_cast(node, nodes):
    match = _STANDARD_CAST.fullmatch(node.name)
    if not match or node.op != "Cast" or match["producer"] not in nodes:
        return False
    producer, port = nodes[match["producer"]], int(match["port"])
    dtypes = output_dtypes(producer)
    return (
        port < len(dtypes)
        and list(node.input) == [producer.name + (f":{port}" if port else "")]
        and dtype_name(node.attr["DstT"].type) == match["dtype"]
        and node.attr["SrcT"].type == dtypes[port]
        and node.device == producer.device
    )


def _in_order_of_computation(nodes, first):
    """Names of all nodes, each after its inputs except back edges, else in the order of `first`."""
    order, seen = {}, set()

    def visit(name):
        if name in seen:
            return
        seen.add(name)
        for tensor in nodes[name].input:
            producer = tensor_name(tensor)[0]
            if nodes[producer].op != "NextIteration":
                visit(producer)
        order[name] = None

    for name in [*(name for name in first if name in nodes), *nodes]:
        visit(name)
    return list(order)

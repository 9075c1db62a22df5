"""Parses the names of nodes and tensors in a GraphDef."""

from __future__ import annotations

from typing import Any

from tensorflow.core.framework import graph_pb2, node_def_pb2, op_def_pb2

from npu_precision import _errors, _tf_compat


def node_name(
    value: Any,
    nodes: dict[str, node_def_pb2.NodeDef],
    graph_def: graph_pb2.GraphDef,
    argument: str,
) -> str:
    """The name of the node of a fetch or feed.

    Args:
        value: the name of a tensor ("logits:0") or a node, or an object that has such a name.
        nodes: the nodes of the graph by name.
        graph_def: the graph.
        argument: the name of the caller's argument, for error messages.

    Raises:
        ValueError: the graph has no node of this name.
        TypeError: the value has no name.
    """
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str):
        raise TypeError(
            f"{argument}: got {_errors.got(value)}, expected the name of a tensor or op"
        )
    node_name, colon, index = name.partition(":")
    if node_name not in nodes:
        raise ValueError(
            f"{argument}: the graph has no node {node_name!r}"
            f"{_errors.did_you_mean(node_name, nodes)}"
        )
    if colon:
        node = nodes[node_name]
        count = _output_count(node, graph_def)
        if not index.isdecimal() or (count is not None and int(index) >= count):
            has = "any number of" if count is None else str(count)
            raise ValueError(
                f"{argument}: got {name!r}, but {node_name!r} ({node.op}) has {has} output(s), "
                f"counted from 0"
            )
    return node_name


def _output_count(node: node_def_pb2.NodeDef, graph_def: graph_pb2.GraphDef) -> int | None:
    """How many outputs a node has; None for an op that TensorFlow does not know."""
    definition = _tf_compat.op_definition(node.op) or next(
        (
            function.signature
            for function in graph_def.library.function
            if function.signature.name == node.op
        ),
        None,
    )
    if definition is None:
        return None
    return sum(_arg_count(arg, node) for arg in definition.output_arg)


def _arg_count(arg: op_def_pb2.OpDef.ArgDef, node: node_def_pb2.NodeDef) -> int:
    if arg.number_attr:
        return node.attr[arg.number_attr].i
    if arg.type_list_attr:
        return len(node.attr[arg.type_list_attr].list.type)
    return 1


def flat_tensor(name: str, nodes: dict[str, node_def_pb2.NodeDef]) -> tuple[str, str]:
    """The producer of a tensor that a node reads, and the tensor's name with a number ("split:1").

    Args:
        name: an input as a node of a graph has it ("split:1", "relu"), or as a node of a function
            has it, where outputs have names ("split:output:1").
        nodes: the nodes of the graph or function.
    """
    node, _, output = name.partition(":")
    output_name, colon, number = output.partition(":")
    if not colon:
        return node, f"{node}:{output or 0}"
    definition = _tf_compat.op_definition(nodes[node].op) if node in nodes else None
    first = 0
    for argument in definition.output_arg if definition else ():
        if argument.name == output_name:
            break
        first += _arg_count(argument, nodes[node])
    return node, f"{node}:{first + int(number)}"

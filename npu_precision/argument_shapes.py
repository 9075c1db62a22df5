"""What calls tell of the shapes of functions' arguments, which functions need not say."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2

_SHAPES = "_output_shapes"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def write_argument_shapes(graph_def: graph_pb2.GraphDef) -> None:
    """Writes to each function what all who call it agree on about its arguments' shapes.

    As TensorFlow does when it makes functions: of a tensor its shape, of a variable's handle the
    shape of what is in it.
    """
    library = {function.signature.name: function for function in graph_def.library.function}
    # By function and calling node. What callers agree on only ever shrinks, so this ends.
    calls: dict[str, dict[tuple[str, str], list[attr_value_pb2.NameAttrList | None]]] = (
        collections.defaultdict(dict)
    )
    waiting = [("", graph_def.node)]
    while waiting:
        body, nodes = waiting.pop()
        sources = {node.name: _of_source(node) for node in nodes}
        if body:
            sources.update(_agreed(library[body], calls[body].values()))
        for node in nodes:
            name = _called_by(node, library)
            if name is None:
                continue
            before = _agreed(library[name], calls[name].values()) if calls[name] else None
            given = [sources.get(tensor.partition(":")[0]) for tensor in node.input]
            calls[name][body, node.name] = given
            if _agreed(library[name], calls[name].values()) != before:
                waiting.append((name, library[name].node_def))
    for name, given_in in calls.items():
        agreed = _agreed(library[name], given_in.values())
        for number, argument in enumerate(library[name].signature.input_arg):
            told = library[name].arg_attr[number].attr
            attributes = agreed.get(argument.name)
            for key, value in attributes.attr.items() if attributes else ():
                _write(key, value, told)


def _write(key: str, value: attr_value_pb2.AttrValue, told: Any) -> None:
    if key in told and key == _SHAPES:
        own, given = (tf.TensorShape(each.list.shape[0]) for each in (told[key], value))
        with contextlib.suppress(ValueError):  # They contradict each other: the function's stays.
            told[key].list.shape[0].CopyFrom(own.merge_with(given).as_proto())
    elif key not in told:
        told[key].CopyFrom(value)


def _called_by(
    node: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> str | None:
    name = node.attr["f"].func.name if node.op in _CALLS else node.op
    return name if name in library else None


def _agreed(
    function: function_pb2.FunctionDef, calls: Iterable[list[attr_value_pb2.NameAttrList | None]]
) -> dict[str, attr_value_pb2.NameAttrList]:
    """By name of an argument, what all calls say of it."""
    calls = list(calls)
    agreed = {}
    for number, argument in enumerate(function.signature.input_arg):
        given = [call[number] if number < len(call) else None for call in calls]
        first = given[0] if given else None
        if first is not None and all(each == first for each in given):
            agreed[argument.name] = first
    return agreed


def _of_source(node: node_def_pb2.NodeDef) -> attr_value_pb2.NameAttrList | None:
    result = attr_value_pb2.NameAttrList()
    if node.op in _PLACEHOLDERS and "shape" in node.attr:
        result.attr[_SHAPES].list.shape.add().CopyFrom(node.attr["shape"].shape)
    elif node.op == "VarHandleOp":
        result.attr[_SHAPES].list.shape.add()
        result.attr["_handle_dtypes"].list.type.append(node.attr["dtype"].type)
        result.attr["_handle_shapes"].list.shape.add().CopyFrom(node.attr["shape"].shape)
    else:
        return None
    return result

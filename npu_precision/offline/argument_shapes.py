"""Infers the shapes of function arguments from the calls; functions need not record them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2

from npu_precision.offline.reachable import function_attributes

_SHAPES = "_output_shapes"
_HANDLES = "_handle_shapes"
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def write_argument_shapes(
    graph_def: graph_pb2.GraphDef, known_functions: Collection[str] = ()
) -> None:
    """Annotates each function with the argument shapes that all its callers in the graph agree on.

    TensorFlow does the same when it makes functions: for a tensor it records the shape, for a
    variable's handle the shape of the variable. Nothing is known about functions called by a loop,
    a branch or a data set.

    Args:
        graph_def: the graph, whose library is annotated.
        known_functions: names of functions that have other callers too, which may pass tensors of
            other shapes, but the same variables.
    """
    library = {function.signature.name: function for function in graph_def.library.function}
    # The attributes that callers agree on, per argument, by function. They only shrink, so the loop
    # ends.
    agreed: dict[str, list[attr_value_pb2.NameAttrList | None]] = {}
    # Only other callers reach functions that no node of the graph calls.
    unreached: set[str] = set()
    roots = sorted(library.keys() & set(known_functions), reverse=True)
    worklist = [("", graph_def.node)]
    while worklist:
        body, nodes = worklist.pop()
        sources = {node.name: _of_source(node) for node in nodes}
        if body:
            arguments = library[body].signature.input_arg
            sources.update((each.name, known) for each, known in zip(arguments, agreed[body]))
        for node in nodes:
            for name, is_call in _functions_of(node, library):
                given = [sources.get(each.partition(":")[0]) for each in node.input]
                count = len(library[name].signature.input_arg)
                if not is_call or len(given) < count:
                    given = [None] * count
                elif name in known_functions:
                    given = [one if _is_handle(one) else None for one in given]
                before = agreed.get(name, given)
                now = [
                    one if one == other or (body in unreached and _is_handle(one)) else None
                    for one, other in zip(before, given)
                ]
                if name not in agreed or now != before:
                    worklist.append((name, library[name].node_def))
                    if name not in agreed and body in unreached:
                        unreached.add(name)
                agreed[name] = now
        while roots and not worklist:
            root = roots.pop()
            if root not in agreed:
                agreed[root] = [None] * len(library[root].signature.input_arg)
                unreached.add(root)
                worklist.append((root, library[root].node_def))
    for name, arguments_of in agreed.items():
        for number, attributes in enumerate(arguments_of):
            recorded = library[name].arg_attr[number].attr if attributes else None
            for key, value in attributes.attr.items() if attributes else ():
                _write(key, value, recorded)


def _write(key: str, value: attr_value_pb2.AttrValue, recorded: Any) -> None:
    if key in recorded and key == _SHAPES and len(recorded[key].list.shape) > 0:
        own, given = (tf.TensorShape(each.list.shape[0]) for each in (recorded[key], value))
        with contextlib.suppress(ValueError):  # On a contradiction, the own one stays.
            recorded[key].list.shape[0].CopyFrom(own.merge_with(given).as_proto())
    elif key not in recorded:
        recorded[key].CopyFrom(value)


def _is_handle(attributes: attr_value_pb2.NameAttrList | None) -> bool:
    return attributes is not None and _HANDLES in attributes.attr


def _functions_of(
    node: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> Iterator[tuple[str, bool]]:
    """The functions that a node calls, each with whether the node's inputs are its arguments."""
    if node.op in library:
        yield node.op, True
    for function in function_attributes(node):
        if function.name in library:
            yield function.name, node.op in _CALLS


def _of_source(node: node_def_pb2.NodeDef) -> attr_value_pb2.NameAttrList | None:
    result = attr_value_pb2.NameAttrList()
    if node.op in _PLACEHOLDERS and "shape" in node.attr:
        result.attr[_SHAPES].list.shape.add().CopyFrom(node.attr["shape"].shape)
    elif node.op == "VarHandleOp":
        result.attr[_SHAPES].list.shape.add()
        result.attr["_handle_dtypes"].list.type.append(node.attr["dtype"].type)
        result.attr[_HANDLES].list.shape.add().CopyFrom(node.attr["shape"].shape)
    else:
        return None
    return result

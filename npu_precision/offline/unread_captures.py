"""Drops captured tensors that a signature's function does not read.

To TensorFlow, a call with a variable among its inputs has effects. Where it inlines such a call, it
adds a control input to each constant, and its remapper then fuses no Swish behind a bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2


def drop(
    function: function_pb2.FunctionDef,
    meta_graph: meta_graph_pb2.MetaGraphDef,
    call_ops: Sequence[str],
) -> None:
    """Drops captures that no node reads, and the inputs of the calls that pass them.

    Nothing changes if anything besides a call in the main graph refers to the function.

    Args:
        function: the name of a function of meta_graph that its objects refer to.
        meta_graph: the MetaGraph, which is changed.
        call_ops: the ops that call functions.
    """
    name = function.signature.name
    captured = meta_graph.object_graph_def.concrete_functions[name].bound_inputs
    arguments = function.signature.input_arg
    first = len(arguments) - len(captured)
    read = {each.partition(":")[0] for node in function.node_def for each in node.input}
    read |= {each.partition(":")[0] for each in function.ret.values()}
    kept = [
        place for place, argument in enumerate(arguments) if place < first or argument.name in read
    ]
    library = meta_graph.graph_def.library
    callers = [node for node in meta_graph.graph_def.node if _refers(node, name)]
    elsewhere = any(_refers(node, name) for each in library.function for node in each.node_def)
    if elsewhere or any(node.op not in call_ops for node in callers):
        return
    _keep(captured, [place - first for place in kept if place >= first])
    _keep(arguments, kept)
    if "_input_shapes" in function.attr:
        _keep(function.attr["_input_shapes"].list.shape, kept)
    places = {before: after for after, before in enumerate(kept)}
    attributes = {place: _copy(each) for place, each in function.arg_attr.items()}
    function.arg_attr.clear()
    for place, attribute in attributes.items():
        if place in places:
            function.arg_attr[places[place]].CopyFrom(attribute)
    for node in callers:
        _keep_inputs(node, kept, places)


def _refers(node: node_def_pb2.NodeDef, name: str) -> bool:
    return any(
        name in (value.func.name, *(each.name for each in value.list.func))
        for value in node.attr.values()
    )


def _keep_inputs(
    node: node_def_pb2.NodeDef, kept: Sequence[int], places: Mapping[int, int]
) -> None:
    controls = [each for each in node.input if each.startswith("^")]
    _keep(node.input, kept)
    node.input.extend(controls)
    _keep(node.attr["Tin"].list.type, kept)
    if "_read_only_resource_inputs" in node.attr:
        read_only = node.attr["_read_only_resource_inputs"].list.i
        read_only[:] = [places[place] for place in read_only if place in places]


def _keep(repeated: Any, kept: Sequence[int]) -> None:
    """Keeps only the elements of a repeated field at these places."""
    values = [_copy(repeated[place]) for place in kept]
    del repeated[:]
    repeated.extend(values)


def _copy(value: Any) -> Any:
    """Copies a message, so that it survives the clearing of its field; returns other values."""
    return (
        type(value).FromString(value.SerializeToString()) if hasattr(value, "CopyFrom") else value
    )

"""Carries what a model keeps in its session to other sessions: tables, and variables it writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from npu_precision.offline.frozen_signatures import WRITES

VARIABLE = "VarHandleOp"
# By op type of a table: the op that fills it.
_FILLS = {"HashTableV2": "InitializeTableV2", "MutableHashTableV2": "LookupTableImportV2"}


class State(NamedTuple):
    """A lookup table or a variable, with its content.

    Attributes:
        node: the node that yields it. Its shared_name identifies it in a session.
        content: the keys and values of a table, or the value of a variable.
    """

    node: node_def_pb2.NodeDef
    content: tuple[np.ndarray, ...]


def written_variables(graph_def: graph_pb2.GraphDef) -> set[str]:
    """The nodes of the variables that an op outside of functions writes."""
    nodes = {node.name: node for node in graph_def.node}
    found = set()
    for node in graph_def.node:
        if not WRITES.fullmatch(node.op):
            continue
        for tensor in node.input:
            source = nodes.get(tensor.partition(":")[0])
            while source is not None and source.op == "Identity":
                source = nodes.get(source.input[0].partition(":")[0])
            if source is not None and source.op == VARIABLE:
                found.add(source.name)
    return found


def is_table(node: node_def_pb2.NodeDef) -> bool:
    """Whether the node yields a lookup table."""
    return "HashTable" in node.op


def read(session: tf.compat.v1.Session, nodes: Iterable[str]) -> dict[str, State]:
    """The tables and variables that nodes yield, by node, if they have a content to fill in."""
    found = {}
    for op in map(session.graph.get_operation_by_name, sorted(nodes)):
        if op.type not in _FILLS and op.type != VARIABLE:
            continue
        with session.graph.as_default():
            content = _content(op)
        # What was not initialized has no content.
        uninitialized = (tf.errors.AbortedError, tf.errors.FailedPreconditionError)
        with contextlib.suppress(*uninitialized):
            found[op.name] = State(op.node_def, tuple(session.run(content)))
    return found


def _content(op: tf.Operation) -> list[tf.Tensor]:
    handle = op.outputs[0]
    if op.type == VARIABLE:
        return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=op.get_attr("dtype"))]
    dtypes = {"Tkeys": op.get_attr("key_dtype"), "Tvalues": op.get_attr("value_dtype")}
    return list(tf.raw_ops.LookupTableExportV2(table_handle=handle, **dtypes))


def needed_by(graph_def: graph_pb2.GraphDef, states: Mapping[str, State]) -> tuple[State, ...]:
    """The tables and variables of a graph. Its nodes get shared names."""
    found = []
    for node in graph_def.node:
        if node.name not in states:
            continue
        if not node.attr["shared_name"].s:
            node.attr["shared_name"].s = node.name.encode()
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(node)
        found.append(states[node.name]._replace(node=copy))
    return tuple(found)


def apart(graph_def: graph_pb2.GraphDef, states: Iterable[State], suffix: str) -> tuple[State, ...]:
    """The states of a copy of the graph that runs in the same session and writes its own variables.

    Args:
        graph_def: the copy, which is changed.
        states: the states of the graph.
        suffix: the end of the names of the copy's variables.
    """
    found = []
    for state in states:
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(state.node)
        copy.attr["shared_name"].s += suffix.encode()
        found.append(state._replace(node=copy))
    names = {state.node.name for state in found}
    for node in graph_def.node:
        if node.name in names:
            node.attr["shared_name"].s += suffix.encode()
    return tuple(found)


def fill(session: tf.compat.v1.Session, states: Iterable[State]) -> None:
    """Fills the tables and variables of a session."""
    for state in states:
        node = state.node
        with session.graph.as_default():
            (handle,) = tf.import_graph_def(
                graph_pb2.GraphDef(node=[node]),
                name="npu_state",
                return_elements=[f"{node.name}:0"],
            )
            values = [tf.compat.v1.placeholder(array.dtype) for array in state.content]
            if node.op == VARIABLE:
                filled = tf.raw_ops.AssignVariableOp(resource=handle, value=values[0])
            else:
                filled = getattr(tf.raw_ops, _FILLS[node.op])(
                    table_handle=handle, keys=values[0], values=values[1]
                )
        session.run(filled, dict(zip(values, state.content)))

"""Carries the content of lookup tables from one session to others, as a frozen model needs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

# By op type of a table: the op that fills it.
_FILLS = {"HashTableV2": "InitializeTableV2", "MutableHashTableV2": "LookupTableImportV2"}


class Table(NamedTuple):
    """A lookup table with its content.

    Attributes:
        node: the node that yields the table. Its shared_name identifies the table in a session.
        keys: the keys.
        values: the value of each key.
    """

    node: node_def_pb2.NodeDef
    keys: np.ndarray
    values: np.ndarray


def read(session: tf.compat.v1.Session) -> dict[str, Table]:
    """The tables of a session that have a content which can be filled in again, by node."""
    found = {}
    for op in session.graph.get_operations():
        if op.type not in _FILLS:
            continue
        definition = op.node_def
        dtypes = (definition.attr[name].type for name in ("key_dtype", "value_dtype"))
        handle = op.outputs[0]
        with session.graph.as_default():
            content = tf.raw_ops.LookupTableExportV2(
                table_handle=handle, **dict(zip(("Tkeys", "Tvalues"), dtypes))
            )
        # A table that was not initialized has no content.
        with contextlib.suppress(tf.errors.AbortedError):
            found[op.name] = Table(definition, *session.run(content))
    return found


def needed_by(
    graph_def: graph_pb2.GraphDef, contents: Mapping[str, Table], path: str
) -> tuple[Table, ...]:
    """The tables of a graph, which get shared names, so that copies of the graph share them.

    Args:
        graph_def: the graph; it is changed.
        contents: the tables by node, from read().
        path: the model's path, for the error.

    Raises:
        ValueError: the content of a table is not known.
    """
    found = []
    for node in graph_def.node:
        if "HashTable" not in node.op:
            continue
        if node.name not in contents:
            raise ValueError(
                f"{path!r} looks something up in a table ({node.name!r}) whose content is not "
                f"known ({node.op}): ask for what does not need it, with --fetch"
            )
        if not node.attr["shared_name"].s:
            node.attr["shared_name"].s = node.name.encode()
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(node)
        found.append(contents[node.name]._replace(node=copy))
    return tuple(found)


def fill(session: tf.compat.v1.Session, tables: Iterable[Table]) -> None:
    """Fills the tables of a session."""
    for table in tables:
        with session.graph.as_default():
            handle = tf.import_graph_def(
                graph_pb2.GraphDef(node=[table.node]),
                name="npu_table",
                return_elements=[f"{table.node.name}:0"],
            )[0]
            keys, values = (
                tf.compat.v1.placeholder(table.node.attr[name].type)
                for name in ("key_dtype", "value_dtype")
            )
            filled = getattr(tf.raw_ops, _FILLS[table.node.op])(
                table_handle=handle, keys=keys, values=values
            )
        session.run(filled, {keys: table.keys, values: table.values})

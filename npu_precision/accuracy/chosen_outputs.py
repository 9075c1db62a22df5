"""Chooses the outputs of a signature that a frozen model can compute."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping, Sequence

from tensorflow.core.framework import graph_pb2

from npu_precision.offline.reachable import needed_nodes


def choose(
    graph_def: graph_pb2.GraphDef,
    outputs: tuple[str, ...],
    names: dict[str, str],
    tables: Collection[str],
    is_asked: bool,
    path: str,
) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Leaves out the outputs that look something up in a table that cannot be frozen.

    Args:
        graph_def: the graph, with its calls inlined; it is changed.
        outputs: the nodes to compute.
        names: the output tensors, by their names in the signature.
        tables: the nodes of tables that cannot be frozen.
        is_asked: whether the user named the outputs.
        path: the path of the model, for the error.

    Returns:
        (outputs, names, left_out): the nodes and tensors to compute, and the names that are left
        out.

    Raises:
        ValueError: all outputs need such a table, or one that the user named does.
    """
    table = _table_of(graph_def, outputs, tables)
    left_out: tuple[str, ...] = ()
    if is_asked or (table and len(names) > 1):
        outputs, names = _apart(graph_def, names, tables)
    if table and len(names) > 1 and not is_asked:
        left_out = tuple(
            name for name in names if _table_of(graph_def, [_node(names[name])], tables)
        )
        names = {name: names[name] for name in names if name not in left_out}
        outputs = tuple(dict.fromkeys(map(_node, names.values())))
    if not outputs or _table_of(graph_def, outputs, tables):
        raise ValueError(
            f"{path!r} looks something up in a table ({table!r}) whose content is not known: ask "
            "for what does not need it, with --fetch"
        )
    return outputs, names, left_out


def _apart(
    graph_def: graph_pb2.GraphDef, names: Mapping[str, str], tables: Collection[str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Gives each output that a call yields a node of its own, because the call yields all results.

    Ops of a function also run for their effects, which are control dependencies of its results. An
    op that depends on a table has none that an output is about.

    Args:
        graph_def: the graph, with its calls inlined; it is changed.
        names: the output tensors, by their names in the signature.
        tables: the nodes of tables that cannot be frozen.

    Returns:
        (outputs, names): the nodes, and the tensors by their names in the signature.
    """
    of_tables = _of_tables(graph_def, tables)
    for node in graph_def.node:
        kept = [name for name in node.input if name[0] != "^" or name[1:] not in of_tables]
        del node.input[:]
        node.input.extend(kept)
    nodes = {node.name: node for node in graph_def.node}
    found = {}
    for name, tensor in names.items():
        node, found[name] = nodes[_node(tensor)], tensor
        if node.op == "IdentityN":
            number = int(tensor.rpartition(":")[2])
            copy = graph_def.node.add(name=f"{node.name}_npu_output_{number}", op="Identity")
            copy.input.append(node.input[number])
            copy.attr["T"].type = node.attr["T"].list.type[number]
            found[name] = f"{copy.name}:0"
    return tuple(dict.fromkeys(map(_node, found.values()))), found


def _of_tables(graph_def: graph_pb2.GraphDef, tables: Collection[str]) -> set[str]:
    """The tables, and the nodes that compute with what comes of them."""
    readers = collections.defaultdict(list)
    for node in graph_def.node:
        for tensor in node.input:
            readers[_node(tensor)].append(node.name)
    worklist = [node.name for node in graph_def.node if node.name in tables]
    found = set(worklist)
    while worklist:
        new = [name for name in readers[worklist.pop()] if name not in found]
        found.update(new)
        worklist += new
    return found


def _node(tensor: str) -> str:
    return tensor.partition(":")[0]


def _table_of(
    graph_def: graph_pb2.GraphDef, outputs: Sequence[str], tables: Collection[str]
) -> str:
    """One of the tables that these nodes look something up in, or ""."""
    needed = needed_nodes(graph_def, outputs)
    return next((node.name for node in needed if node.name in tables), "")

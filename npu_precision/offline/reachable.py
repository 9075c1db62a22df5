"""Finds the nodes of a graph that are needed or can be fetched, and the called functions."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2


def needed_nodes(graph_def: graph_pb2.GraphDef, roots: Iterable[str]) -> list[node_def_pb2.NodeDef]:
    """The nodes that the roots depend on, in the graph's order; all nodes if there are no roots."""
    by_name = {node.name: node for node in graph_def.node}
    worklist = list(roots) or list(by_name)
    needed = set(worklist)
    while worklist:
        for tensor in by_name[worklist.pop()].input:
            source = tensor.lstrip("^").partition(":")[0]
            if source not in needed:
                needed.add(source)
                worklist.append(source)
    return [node for node in graph_def.node if node.name in needed]


def called_functions(
    nodes: Iterable[node_def_pb2.NodeDef], library: Mapping[str, function_pb2.FunctionDef]
) -> list[str]:
    """The functions that the nodes call, callers first."""
    called: dict[str, None] = {}
    worklist = collections.deque([nodes])
    while worklist:
        for node in worklist.popleft():
            for name in [node.op, *(function.name for function in function_attributes(node))]:
                if name in library and name not in called:
                    called[name] = None
                    worklist.append(library[name].node_def)
    return list(called)


def function_attributes(node: node_def_pb2.NodeDef) -> Iterator[attr_value_pb2.NameAttrList]:
    """The attributes of a node that name functions."""
    for _, value in sorted(node.attr.items()):
        if value.WhichOneof("value") == "func":
            yield value.func
        yield from value.list.func


def keep_called_functions(graph_def: graph_pb2.GraphDef, suffix: str = "") -> None:
    """Drops the functions that nothing calls, and adds a suffix to the names of the others."""
    library = {function.signature.name: function for function in graph_def.library.function}
    kept = [library[name] for name in called_functions(graph_def.node, library)]
    kept = [function_pb2.FunctionDef.FromString(each.SerializeToString()) for each in kept]
    del graph_def.library.function[:]
    del graph_def.library.gradient[:]
    graph_def.library.function.extend(kept)
    rename_functions(
        graph_def, {each.signature.name: each.signature.name + suffix for each in kept}
    )


def rename_functions(graph_def: graph_pb2.GraphDef, names: Mapping[str, str]) -> None:
    """Renames functions in the library and in calls, by a mapping of names."""
    functions = graph_def.library.function
    for nodes in (graph_def.node, *(function.node_def for function in functions)):
        for node in nodes:
            node.op = names.get(node.op, node.op)
            for function in function_attributes(node):
                function.name = names.get(function.name, function.name)
    for definition in functions:
        name = definition.signature.name
        definition.signature.name = names.get(name, name)


def fetchable_nodes(graph_def: graph_pb2.GraphDef) -> set[str]:
    """The nodes that are neither in a loop nor in a branch that may not be taken."""
    readers: dict[str, list[str]] = collections.defaultdict(list)
    ops = {node.name: node.op for node in graph_def.node}
    for node in graph_def.node:
        for tensor in node.input:
            readers[tensor.lstrip("^").partition(":")[0]].append(node.name)
    loops = _depths(ops, readers, _LOOPS, ops.keys())
    outside = {name for name in ops if loops[name] == 0}
    branches = _depths(ops, readers, _BRANCHES, outside)
    return {name for name in outside if branches[name] == 0}


_LOOPS = {"Enter": 1, "RefEnter": 1, "Exit": -1, "RefExit": -1}
_BRANCHES = {"Switch": 1, "RefSwitch": 1, "_SwitchN": 1, "Merge": -1, "RefMerge": -1}


def _depths(
    ops: Mapping[str, str],
    readers: Mapping[str, list[str]],
    steps: Mapping[str, int],
    counted: Collection[str],
) -> dict[str, int]:
    """The nesting depth, in loops or branches, of each node's outputs: the maximum over all paths.

    Args:
        ops: the op types by node.
        readers: the consumers by node.
        steps: by op type, the depth of its outputs minus the depth of its inputs.
        counted: the nodes to which steps apply.
    """
    read = dict.fromkeys(ops, 0)

    def yielded(name: str) -> int:
        return max(read[name] + (steps.get(ops[name], 0) if name in counted else 0), 0)

    worklist = collections.deque(ops)
    while worklist:
        name = worklist.popleft()
        for reader in readers[name]:
            if yielded(name) > read[reader]:
                read[reader] = yielded(name)
                worklist.append(reader)
    return {name: yielded(name) for name in ops}

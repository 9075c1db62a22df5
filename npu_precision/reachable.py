"""What of a graph is needed, called, or can be asked for."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping

from tensorflow.core.framework import attr_value_pb2, function_pb2, graph_pb2, node_def_pb2


def needed_nodes(graph_def: graph_pb2.GraphDef, roots: Iterable[str]) -> list[node_def_pb2.NodeDef]:
    """The nodes that the roots need, in the graph's order; without roots, all."""
    by_name = {node.name: node for node in graph_def.node}
    waiting = list(roots) or list(by_name)
    needed = set(waiting)
    while waiting:
        for tensor in by_name[waiting.pop()].input:
            source = tensor.lstrip("^").partition(":")[0]
            if source not in needed:
                needed.add(source)
                waiting.append(source)
    return [node for node in graph_def.node if node.name in needed]


def called_functions(
    nodes: Iterable[node_def_pb2.NodeDef], library: Mapping[str, function_pb2.FunctionDef]
) -> list[str]:
    """The functions that the nodes call, each before those that it calls."""
    called: dict[str, None] = {}
    waiting = collections.deque([nodes])
    while waiting:
        for node in waiting.popleft():
            for name in [node.op, *(function.name for function in _function_attributes(node))]:
                if name in library and name not in called:
                    called[name] = None
                    waiting.append(library[name].node_def)
    return list(called)


def _function_attributes(node: node_def_pb2.NodeDef) -> Iterator[attr_value_pb2.NameAttrList]:
    for _, value in sorted(node.attr.items()):
        if value.WhichOneof("value") == "func":
            yield value.func
        yield from value.list.func


def keep_called_functions(graph_def: graph_pb2.GraphDef, suffix: str = "") -> None:
    """Drops the functions that nothing calls, and adds a suffix to the names of the others."""
    library = {function.signature.name: function for function in graph_def.library.function}
    called = called_functions(graph_def.node, library)
    kept = [library[name] for name in called]
    for nodes in (graph_def.node, *(function.node_def for function in kept)):
        for node in nodes:
            if node.op in library:
                node.op += suffix
            for function in _function_attributes(node):
                if function.name in library:
                    function.name += suffix
    for function in kept:
        function.signature.name += suffix
    kept = [function_pb2.FunctionDef.FromString(each.SerializeToString()) for each in kept]
    del graph_def.library.function[:]
    del graph_def.library.gradient[:]
    graph_def.library.function.extend(kept)


def fetchable_nodes(graph_def: graph_pb2.GraphDef) -> set[str]:
    """The nodes that are neither inside a loop nor in a branch that may not be taken."""
    readers: dict[str, list[str]] = collections.defaultdict(list)
    ops = {node.name: node.op for node in graph_def.node}
    for node in graph_def.node:
        for tensor in node.input:
            readers[tensor.lstrip("^").partition(":")[0]].append(node.name)
    # By node, in how many loops, and in how many branches, its inputs are at most.
    inside = dict.fromkeys(ops, (0, 0))
    waiting = collections.deque(ops)
    while waiting:
        name = waiting.popleft()
        yielded = _outputs_inside(ops[name], *inside[name])
        for reader in readers[name]:
            loops, branches = inside[reader]
            if yielded[0] > loops or yielded[1] > branches:
                inside[reader] = max(loops, yielded[0]), max(branches, yielded[1])
                waiting.append(reader)
    return {name for name in ops if _outputs_inside(ops[name], *inside[name]) == (0, 0)}


def _outputs_inside(op: str, loops: int, branches: int) -> tuple[int, int]:
    if op in ("Enter", "RefEnter"):
        return loops + 1, branches
    if op in ("Exit", "RefExit"):
        return max(loops - 1, 0), branches
    if loops == 0 and op in ("Switch", "RefSwitch", "_SwitchN"):
        return loops, branches + 1
    if loops == 0 and op in ("Merge", "RefMerge"):
        return loops, max(branches - 1, 0)
    return loops, branches

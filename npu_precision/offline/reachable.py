"""What of a graph is needed, called, or can be asked for."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping

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
            for name in [node.op, *(function.name for function in function_attributes(node))]:
                if name in library and name not in called:
                    called[name] = None
                    waiting.append(library[name].node_def)
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
    called = called_functions(graph_def.node, library)
    kept = [library[name] for name in called]
    for nodes in (graph_def.node, *(function.node_def for function in kept)):
        for node in nodes:
            if node.op in library:
                node.op += suffix
            for function in function_attributes(node):
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
    """How deep inside of loops or branches what each node yields is, at most.

    Args:
        ops: the op type of each node.
        readers: who reads each node.
        steps: by op type, how much deeper what it yields is than what it reads.
        counted: the nodes whose steps count.
    """
    read = dict.fromkeys(ops, 0)

    def yielded(name: str) -> int:
        return max(read[name] + (steps.get(ops[name], 0) if name in counted else 0), 0)

    waiting = collections.deque(ops)
    while waiting:
        name = waiting.popleft()
        for reader in readers[name]:
            if yielded(name) > read[reader]:
                read[reader] = yielded(name)
                waiting.append(reader)
    return {name: yielded(name) for name in ops}

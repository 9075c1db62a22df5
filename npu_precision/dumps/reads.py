"""Finds out what each op of a dump read: how wrong that was, and who reads the op's own error."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from npu_precision.dump_layout import clean
from npu_precision.dumps import differences, matching
from npu_precision.dumps.differences import Difference
from npu_precision.dumps.folders import Dump
from npu_precision.dumps.matching import Pair


class Reads(NamedTuple):
    """What the ops of measured tensors read.

    Attributes:
        given: for each tensor, the largest error of what its op read.
        passes_on: whether an op that reads the tensor diverges too, by at least a quarter of its
            error; also if nothing reads it, or this is not known. What no reader shows is written
            in another way, and no error: a pass may have moved a part of the op behind it.
        known: "graph", "inputs", or "order", where an op is taken to read all that was computed
            before.
    """

    given: list[float]
    passes_on: list[bool]
    known: str


def of_dumps(
    first: Dump,
    second: Dump,
    measured: Sequence[tuple[Pair, Difference]],
    threshold: float,
    graph: Any,
) -> Reads:
    """Finds out what ops read, by the graph that ran, the inputs in the dumps, or the order.

    Args:
        first: the dump whose order counts.
        second: the other one.
        measured: the tensors of both, in this order.
        threshold: the error above which a tensor diverges.
        graph: the GraphDef, or None.
    """
    names = [matching.original(pair.first.name) for pair, _ in measured]
    errors = [difference.error for _, difference in measured]
    if graph is not None:
        return _by_graph(names, errors, threshold, graph)
    inputs = matching.match(first, second, "input").pairs
    if inputs and any(pair.first.way == "output" for pair, _ in measured):
        return Reads(_of_inputs(names, inputs), [True] * len(names), "inputs")
    worst, given = 0.0, []
    for error in errors:
        given.append(worst)
        worst = max(worst, error)
    return Reads(given, [True] * len(names), "order")


def _by_graph(names: Sequence[str], errors: Sequence[float], threshold: float, graph: Any) -> Reads:
    producers = _producers(graph, set(names))
    worst: dict[str, float] = collections.defaultdict(float)
    for name, error in zip(names, errors):
        worst[name] = max(worst[name], error)
    of_readers: dict[str, list[float]] = collections.defaultdict(list)
    for name in worst:
        for producer in producers[name]:
            of_readers[producer].append(worst[name])
    passes_on = {
        name: not of_readers[name]
        or max(of_readers[name]) > max(threshold, min(worst[name], 1.0) / 4)
        for name in worst
    }
    # What is written in another way is as wrong as what it was made of.
    shown: dict[str, float] = {}
    given = []
    for name in names:
        read = max((shown.get(each, worst[each]) for each in producers[name]), default=0.0)
        given.append(read)
        shown[name] = worst[name] if passes_on[name] else min(read, worst[name])
    return Reads(given, [passes_on[name] for name in names], "graph")


def _of_inputs(names: Sequence[str], inputs: Iterable[Pair]) -> list[float]:
    read: Mapping[str, list[float]] = collections.defaultdict(list)
    for pair in inputs:
        difference = differences.of_values(pair.first.load(), pair.second.load())
        if isinstance(difference, Difference):
            read[matching.original(pair.first.name)].append(difference.error)
    return [max(read[name], default=0.0) for name in names]


def _producers(graph: Any, known: set[str]) -> dict[str, set[str]]:
    """By the name of an op: the known ops that it reads, through others."""
    nodes = {clean(node.name): node for node in graph.node}
    found: dict[str, set[str]] = collections.defaultdict(set)
    for name in known:
        seen, open_names = {name}, [name]
        while open_names:
            node = nodes.get(open_names.pop())
            for text in node.input if node is not None else ():
                producer = clean(text.partition(":")[0])
                if text.startswith("^") or producer in seen:
                    continue
                seen.add(producer)
                # A Cast took over the name of a renamed op.
                original = matching.original(producer)
                if original in known and original != name:
                    found[name].add(original)
                else:
                    open_names.append(producer)
    return found

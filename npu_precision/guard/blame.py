"""Finds the op at which a step went wrong, in the record of a watch."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from npu_precision.flight import forward
from npu_precision.flight.tensor_watch import WatchedGraph, WatchedStep, WatchedTensor

# Half of the smallest number that is not zero: smaller values become zero.
_LOST_BELOW = {"float16": 2.0**-25, "bfloat16": 2.0**-134}
# Ops that the graph reads from, which no list changes.
_IS_READ = re.compile(r"_Arg|Placeholder\w*|ReadVariableOp|Const|IteratorGetNext\w*|VariableV2")
_STAGES = ("overflow", "infinity", "nan")
# Ops with values of other ranks.
_FROM_OTHERS = ("Collective", "Nccl")
# The share of values that counts as most.
_MOST = 0.5
# Magnitudes differ if one is so many times as large as the other.
_DIFFERS = 4.0


class Blamed(NamedTuple):
    """The place where a fault began.

    Attributes:
        what: the fault, for people.
        nodes: the nodes to keep in float32: the first list; if that changes nothing, the next.
        lowered: all nodes that the mode lowers: in the order of computation from the fault on, then
            those of other graphs, then those before the fault.
    """

    what: str
    nodes: list[list[str]]
    lowered: list[str]
    # The index in _STAGES. A NaN may come from another device or rank, where it was an infinity
    # before, and an overflow at first. So the least stage is the cause of the others.
    stage: int = 0
    # Its place in the order of computation.
    place: int = 0


def not_finite(steps: Sequence[WatchedStep], usual: Collection[str] = ()) -> Blamed | None:
    """The first tensor that is not finite, or becomes so by rounding.

    Args:
        steps: the steps of the graphs that ran.
        usual: the nodes that are not finite in good steps either, as behind a mask.
    """
    found = [each for each in (_first_in(step, usual, steps) for step in steps) if each is not None]
    return min(found, key=lambda each: each.stage, default=None)


def _first_in(
    step: WatchedStep, usual: Collection[str], steps: Sequence[WatchedStep]
) -> Blamed | None:
    for index in step.not_finite():
        tensor = step.graph.tensors[index]
        if tensor.op.startswith(_FROM_OTHERS):
            return None
        if tensor.node not in usual:
            what = forward.describe(_where(step, index))
            return _blamed(tensor, what, step, steps, _STAGES.index(step.value(index)))
    return None


def usual_faults(steps: Sequence[WatchedStep]) -> set[str]:
    """The nodes that are not finite in good steps."""
    return {step.graph.tensors[index].node for step in steps for index in step.not_finite()}


def vanished(steps: Sequence[WatchedStep], exact: Sequence[WatchedStep]) -> Blamed | None:
    """The first tensor that is zero, or becomes so by rounding, but is not in float32's step.

    If there is none, the first tensor with most values below the low type's normal numbers, because
    single values that count may be zeros.
    """
    right = _magnitudes(exact)
    for step in steps:
        for tensor, largest in _in_order(step):
            is_lost = largest < _LOST_BELOW.get(tensor.low_type, 0.0)
            if is_lost and right.get((tensor.node, tensor.port), 0.0) > 0:
                what = f"nothing but zeros of {tensor.low_type} {_in(tensor)}"
                return _blamed(tensor, what, step, steps)
    for step in steps:
        nonzero = step.counts["elements"] - step.counts["zeros"]
        shares = step.counts["under"] / np.maximum(nonzero, 1)
        for index in np.flatnonzero(shares > _MOST):
            tensor = step.graph.tensors[index]
            if tensor.low_type in _LOST_BELOW:
                what = f"below {tensor.low_type}'s normal numbers are {shares[index]:.0%}"
                return _blamed(tensor, f"{what} of {tensor.node} ({tensor.op})", step, steps)
    return None


def differs(steps: Sequence[WatchedStep], exact: Sequence[WatchedStep]) -> Blamed | None:
    """The first tensor whose magnitude differs much from that in float32's step."""
    right = _magnitudes(exact)
    for step in steps:
        for tensor, largest in _in_order(step):
            expected = right.get((tensor.node, tensor.port))
            if expected is None or tensor.low_type == "float32" or not (expected and largest):
                continue
            if max(largest / expected, expected / largest) > _DIFFERS:
                what = f"up to {largest:.2g} rather than {expected:.2g} {_in(tensor)}"
                return _blamed(tensor, what, step, steps)
    return None


def _blamed(
    tensor: WatchedTensor,
    what: str,
    step: WatchedStep,
    steps: Sequence[WatchedStep],
    stage: int = 0,
) -> Blamed:
    own = [] if _IS_READ.fullmatch(tensor.op) else [[tensor.node]]
    nodes = own + ([tensor.readers] if tensor.readers else [])
    return Blamed(what, nodes, _lowered(step.graph, tensor.place, steps), stage, tensor.place)


def _lowered(graph: WatchedGraph, place: int, steps: Sequence[WatchedStep]) -> list[str]:
    """All lowered nodes, as Blamed has them; the fault is at `place` of `graph`."""
    others = {each.graph.number: each.graph.lowered for each in steps}
    del others[graph.number]
    after = [node for node, at in graph.lowered if at >= place]
    before = [node for node, at in graph.lowered if at < place]
    return [*after, *(node for nodes in others.values() for node, _ in nodes), *before]


def _in(tensor: WatchedTensor) -> str:
    return f"in {tensor.node} ({tensor.op})"


def _in_order(step: WatchedStep) -> list[tuple[WatchedTensor, float]]:
    computed = np.flatnonzero(step.counts["elements"])
    return [(step.graph.tensors[index], float(step.counts["largest"][index])) for index in computed]


def _magnitudes(steps: Sequence[WatchedStep]) -> dict[tuple[str, int], float]:
    return {
        (tensor.node, tensor.port): largest for step in steps for tensor, largest in _in_order(step)
    }


def _where(step: WatchedStep, index: int) -> dict[str, object]:
    tensor = step.graph.tensors[index]
    where: dict[str, object] = {"node": tensor.node, "op": tensor.op, "low_type": tensor.low_type}
    where["value"] = step.value(index)
    if tensor.loop >= 0:
        where["iteration"] = int(step.counts["iteration"][index])
    return where

"""Turns what a watch counts in a graph's tensors into events, and into a summary for people."""

from __future__ import annotations

import collections
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_precision.flight import scopes
from npu_precision.flight.tensor_watch import WatchedGraph, WatchedStep

# The largest finite numbers of the types.
LARGEST = {"float16": 65504.0, "bfloat16": 3.38953139e38, "float32": 3.40282347e38}
STATISTICS = ("mean", "deviation", "norm_l1", "norm_l2", "least", "most")
_MOST_NAMES = 20
# Each end of a drift is the median of so many recorded steps.
_FEW = 3
# A scope drifts if its largest magnitude changes by this power of two.
_DRIFTS = 1.0


def limits_of(low_types: Sequence[str]) -> np.ndarray:
    """The largest finite numbers of these types."""
    return np.array([LARGEST[low_type] for low_type in low_types])


def reached(largest: np.ndarray, over: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The largest magnitudes, where a value beyond its range counts as the end of the range.

    Args:
        largest: the largest finite magnitudes.
        over: how many values are beyond the range, or their share; not zero if any is.
        limits: the ends of the ranges.
    """
    return np.where(over > 0, limits, largest)


class Drift:
    """Tracks how the largest magnitudes of a graph's scopes change from the first steps on."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._first: list[np.ndarray] = []
        self._last: collections.deque[np.ndarray] = collections.deque(maxlen=_FEW)

    def add(self, largest: np.ndarray) -> None:
        """Adds a recorded step: the largest magnitude per scope."""
        logarithms = np.log2(np.where(largest > 0, largest, np.nan))
        if len(self._first) < _FEW:
            self._first.append(logarithms)
        self._last.append(logarithms)

    def worst(self) -> tuple[str, float] | None:
        """The scope that changed most, and the power of two; None if no scope drifts."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # A scope may be all zeros.
            changed = np.nanmedian(self._last, axis=0) - np.nanmedian(self._first, axis=0)
        if not np.isfinite(changed).any():
            return None
        worst = int(np.nanargmax(np.where(np.isfinite(changed), np.abs(changed), np.nan)))
        bits = float(changed[worst])
        return (self._names[worst], bits) if abs(bits) >= _DRIFTS else None


class GraphRecord:
    """The record of one graph: an event per step, and a summary of a few lines.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: WatchedGraph) -> None:
        self.graph = graph
        of_tensors = scopes.scopes_of([tensor.node for tensor in graph.tensors])
        self._scopes = sorted(set(of_tensors), key=of_tensors.index)
        self._scope_of = np.array([self._scopes.index(scope) for scope in of_tensors])
        # TensorFlow does not expose which function a graph belongs to.
        tops = collections.Counter(scope.split("/")[0] for scope in of_tensors)
        del tops[scopes.TOP]
        self._name = ", ".join(top for top, _ in tops.most_common(3)) or scopes.TOP
        self._limits = limits_of([tensor.low_type for tensor in graph.tensors])
        self._drift = Drift(self._scopes)
        self._recorded = 0
        self._first_bad: dict[str, Any] | None = None
        self._last: WatchedStep | None = None
        # Whether only a PrecisionGuard ran it, to find what heals a step.
        self.is_trial = True

    def description(self) -> dict[str, Any]:
        """The event that names the tensors; events of steps number them from 0."""
        names = [[tensor.node, tensor.port] for tensor in self.graph.tensors]
        return {
            "event": "tensors",
            "graph": self.graph.number,
            "name": self._name,
            "tensors": [f"{node}:{port}" if port else node for node, port in names],
            "ops": [tensor.op for tensor in self.graph.tensors],
            "low_types": [tensor.low_type for tensor in self.graph.tensors],
            "scopes": self._scopes,
            "scope_of": self._scope_of.tolist(),
        }

    def event(self, step: WatchedStep) -> dict[str, Any]:
        """The event of a step. Shares are of the elements of a tensor."""
        counts = step.counts
        bad = step.not_finite()
        event: dict[str, Any] = {
            "event": "forward",
            "graph": self.graph.number,
            "step": step.step,
            "largest": [_short(value) for value in counts["largest"]],
            "over": self._shares(step, "over", "infinities"),
            "under": self._shares(step, "under"),
            "zeros": self._shares(step, "zeros"),
            "nans": self._shares(step, "nans"),
            "not_finite_count": len(bad),
            "not_finite": bad[:_MOST_NAMES],
        }
        if "mean" in counts:
            event["statistics"] = {name: list(map(_exact, counts[name])) for name in STATISTICS}
        if bad:
            event["first"] = self._where(step, bad[0])
            nans = [index for index in bad if counts["nans"][index]]
            if nans and nans[0] != bad[0]:
                event["first_nan"] = self._where(step, nans[0])
            self._first_bad = self._first_bad or {**event["first"], "step": step.step}
        over = counts["over"] + counts["infinities"]
        self._drift.add(self._by_scope(reached(counts["largest"], over, self._limits)))
        drift = self._drift.worst()
        if drift is not None:
            event["drift"] = {"scope": drift[0], "bits": _short(drift[1])}
        self._recorded, self._last = self._recorded + 1, step
        return event

    def scalars(self, step: WatchedStep) -> dict[str, float]:
        """TensorBoard's points of a step.

        They are the binary logarithm of the largest magnitude per scope, the shares of all elements
        that are over and under the range of their low type, and the number of tensors that are not
        finite.
        """
        points = {}
        for scope, largest in zip(self._scopes, self._by_scope(step.counts["largest"])):
            if largest > 0:
                points[f"largest_log2/{scope}"] = math.log2(largest)
        elements = max(int(step.counts["elements"].sum()), 1)
        for name, columns in (("over", ("over", "infinities")), ("under", ("under",))):
            points[name] = sum(int(step.counts[each].sum()) for each in columns) / elements
        points["not_finite"] = float(len(step.not_finite()))
        return {f"graph{self.graph.number}/{name}": point for name, point in points.items()}

    def summary(self, steps: int, dropped: int) -> list[str]:
        """A few lines for people.

        Args:
            steps: how often the graph ran.
            dropped: how many steps found no memory.
        """
        lost = f", {dropped} found no memory" if dropped else ""
        lost += ", a trial of the PrecisionGuard" if self.is_trial else ""
        lines = [
            f"graph {self.graph.number} ({self._name}): {steps} steps, {self._recorded} recorded"
            f"{lost}, {len(self.graph.tensors)} tensors"
        ]
        if self._first_bad is not None:
            bad = self._first_bad
            lines.append(f"  first not finite: step {bad['step']}, {describe(bad)}")
        if self._last is not None:
            lines.append(f"  {self._nearest(self._last)}")
            lines.extend(self._most_under(self._last))
        drift = self._drift.worst()
        if drift is not None:
            lines.append(f"  range drifts: {drift[0]}, by 2^{drift[1]:.1f} since the first steps")
        return lines

    def _nearest(self, step: WatchedStep) -> str:
        shares = step.counts["largest"] / self._limits
        nearest = int(np.argmax(shares))
        tensor = self.graph.tensors[nearest]
        return (
            f"step {step.step}: nearest to the end of its range is {tensor.node}, up to "
            f"{step.counts['largest'][nearest]:.3g} in {tensor.low_type}"
        )

    def _most_under(self, step: WatchedStep) -> list[str]:
        shares = np.array(self._shares(step, "under"))
        most = int(np.argmax(shares))
        if not shares[most]:
            return []
        tensor = self.graph.tensors[most]
        return [
            f"  step {step.step}: below {tensor.low_type}'s normal numbers are {shares[most]:.1%} "
            f"of {tensor.node}"
        ]

    def _where(self, step: WatchedStep, index: int) -> dict[str, Any]:
        tensor, iteration = self.graph.tensors[index], int(step.counts["iteration"][index])
        in_loop = {"iteration": iteration} if tensor.loop >= 0 and iteration >= 0 else {}
        return {
            "tensor": index,
            "node": tensor.node,
            "op": tensor.op,
            "dtype": tensor.dtype,
            "low_type": tensor.low_type,
            "value": step.value(index),
            **in_loop,
        }

    def _by_scope(self, values: np.ndarray) -> np.ndarray:
        largest = np.zeros(len(self._scopes))
        np.maximum.at(largest, self._scope_of, values)
        return largest

    def _shares(self, step: WatchedStep, *columns: str) -> list[float]:
        elements = np.maximum(step.counts["elements"], 1)
        shares = sum(step.counts[column] for column in columns) / elements
        return [_short(share) for share in shares]


def describe(where: dict[str, Any]) -> str:
    """Describes a fault to people: "overflow of float16 in dense/MatMul (MatMul)"."""
    what = f"overflow of {where['low_type']}" if where["value"] == "overflow" else where["value"]
    iteration = f", iteration {where['iteration']}" if "iteration" in where else ""
    return f"{what} in {where['node']} ({where['op']}{iteration})"


def _exact(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.7g}")


def _short(value: float) -> float:
    return float(f"{value:.4g}")

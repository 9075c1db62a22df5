"""The front of step time and error: chooses the trials to measure, and the fastest mixlist."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import FrozenSet, Tuple, TypeVar

from npu_precision.tuning.step_time import StepTime
from npu_precision.tuning.trials import Trial

# A set of kept nodes, and its trial.
Tried = Tuple[FrozenSet[str], Trial]
_Item = TypeVar("_Item")
# About how many trials to measure. Each is a session, which holds all weights.
_MOST = 8


@dataclasses.dataclass(frozen=True)
class Point:
    """A precision, with its time and its error.

    Attributes:
        kept: the nodes that are kept; None for float32, the untouched model.
        trial: its trial; None for float32.
        worse: its error, or how much worse than float32's the metric is.
        time: its step time.
    """

    kept: frozenset[str] | None
    trial: Trial | None
    worse: float
    time: StepTime

    @property
    def is_good(self) -> bool:
        """Whether it is within the limit."""
        return self.trial is None or self.trial.is_good


@dataclasses.dataclass(frozen=True)
class Times:
    """The measured points.

    Attributes:
        points: all points; the first is float32.
        shows_front: whether the front was asked for, and not only the fastest.
    """

    points: tuple[Point, ...]
    shows_front: bool

    @property
    def front(self) -> list[Point]:
        """The points that no other is both faster and more accurate than; the fastest first.

        The chosen one is among them.
        """
        return front(self.points, _costs)

    @property
    def chosen(self) -> Point:
        """The fastest point within the limit: float32, unless one is faster beyond the noise."""
        faster = [point for point in self.points if point.is_good and point.time.is_faster]
        return min(faster, key=_costs, default=self.points[0])

    @property
    def is_float32(self) -> bool:
        """Whether float32 is chosen."""
        return self.chosen.kept is None

    @property
    def decisive(self) -> Point:
        """The point that the result rests on.

        It is the chosen one, or if that is float32, the one that keeps most nodes, which stands in
        for float32.
        """
        if not self.is_float32:
            return self.chosen
        return max(self.points[1:], key=lambda point: len(point.kept or ()))

    def refusing(self, which: Point) -> Times:
        """The same times, with one point beyond the limit."""
        assert which.trial is not None
        refused = dataclasses.replace(which, trial=dataclasses.replace(which.trial, is_met=False))
        points = tuple(refused if point is which else point for point in self.points)
        return dataclasses.replace(self, points=points)

    def measured_again(self, which: Point, time: StepTime) -> Times:
        """The same times, with another measurement of one point."""
        again = dataclasses.replace(which, time=time)
        points = tuple(again if point is which else point for point in self.points)
        return dataclasses.replace(self, points=points)

    @property
    def as_fast(self) -> list[Point]:
        """The other points within the limit whose quartiles overlap those of the chosen one."""
        chosen = self.chosen
        return [
            point
            for point in self.points
            if point is not chosen
            and point.is_good
            and point.time.low <= chosen.time.high
            and chosen.time.low <= point.time.high
        ]


def _costs(point: Point) -> tuple[float, float]:
    """The time and the error. A point that differs from float32 only by noise counts as equal."""
    is_apart = point.time.is_faster or point.time.is_slower
    return point.time.ratio if is_apart else 1.0, max(point.worse, 0.0)


def front(items: Iterable[_Item], costs: Callable[[_Item], tuple[float, float]]) -> list[_Item]:
    """The items that no other item equals or beats in both costs; the first of equal ones.

    Args:
        items: the items.
        costs: the two costs of an item, which are not NaN; less is better.
    """
    found: list[_Item] = []
    for item in sorted(items, key=costs):
        if not found or costs(item)[1] < costs(found[-1])[1]:
            found.append(item)
    return found


def worth_measuring(
    tried: Sequence[Tried],
    worse: Callable[[Trial], float],
    only_good: bool,
    always: Container[frozenset[str]] = (),
) -> list[Tried]:
    """The trials to measure, those that lower most first.

    These are first the trials on the front of lowered nodes and error, spread evenly if there are
    many. Then come others within the limit, because lowering more is not always faster. The trial
    that keeps all nodes is always measured, and so is the one that lowers most within the limit.

    Args:
        tried: the trials; the one that keeps most nodes is good.
        worse: the error of a trial, or how much worse than float32's its metric is.
        only_good: whether to leave out trials beyond the limit.
        always: the sets of kept nodes whose trials are measured however many there are.
    """

    def costs(each: Tried) -> tuple[float, float]:
        return -each[1].lowered, worse(each[1])

    sound = [
        each
        for each in tried
        if each[1].is_good
        or (not only_good and each[1].fault is None and math.isfinite(worse(each[1])))
    ]
    edge = front(sound, costs)
    good = [each for each in sound if each[1].is_good]
    # Two trials of the same costs most likely lower the same nodes.
    seen = {costs(each) for each in edge}
    others = {costs(each): each for each in reversed(good) if costs(each) not in seen}
    chosen = _spread(edge, _MOST)
    chosen += _spread(sorted(others.values(), key=costs), _MOST - len(chosen))
    chosen.append(min(good, key=costs))
    chosen += [each for each in sound if each[0] in always]
    chosen.append(max(sound, key=lambda each: len(each[0])))
    return sorted({kept: (kept, trial) for kept, trial in chosen}.values(), key=costs)


def _spread(items: Sequence[_Item], most: int) -> list[_Item]:
    """At most `most` of the items, at even distances, with the first and the last."""
    if len(items) <= most:
        return [*items]
    last = len(items) - 1
    return [items[round(place * last / max(most - 1, 1))] for place in range(most)]

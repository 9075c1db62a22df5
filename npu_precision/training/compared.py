"""Compares the curves of a mode with those of float32, and with those of other seeds in float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npu_precision.training.curves import Curves

# A difference is the median over so many steps, so that noise in one step does not count.
_WINDOW = 11
_LEAST = 1e-30


class VariableRow(NamedTuple):
    """How the gradients and the values of a variable differ.

    Attributes:
        name: the name of the variable.
        op: the op that its gradient belongs to, or "".
        first_step: the first step in which the gradient's norm differs more than with other seeds,
            or None.
        ratio: the largest difference of the norm, as a multiple of that with other seeds.
        distance: the distance of the values after the last step, relative to how far float32 moved
            them.
    """

    name: str
    op: str
    first_step: int | None
    ratio: float
    distance: float


class Compared(NamedTuple):
    """The comparison of a mode's training with float32's.

    Attributes:
        exact: float32's curves.
        mode: the mode's curves.
        others: float32's curves with other seeds.
        difference: the difference of the losses, per step, smoothed.
        yardstick: the difference between float32's runs.
        first_step: the first step in which the difference is larger than the yardstick, or None.
        first_bad: the first step whose loss is not finite, but is in float32; or None.
        rows: the variables, in the order in which their gradients begin to differ.
    """

    exact: Curves
    mode: Curves
    others: Sequence[Curves]
    difference: np.ndarray
    yardstick: np.ndarray
    first_step: int | None
    first_bad: int | None
    rows: list[VariableRow]

    @property
    def is_within(self) -> bool:
        """Whether the mode's losses differ no more from float32's than those of other seeds do."""
        return self.first_step is None and self.first_bad is None

    @property
    def ratio(self) -> float:
        """The largest difference, as a multiple of the yardstick of its step."""
        return _largest_ratio(self.difference, self.yardstick)


def compare(exact: Curves, mode: Curves, others: Sequence[Curves]) -> Compared:
    """Compares the curves; `others` has at least one run."""
    difference, yardstick = _of(exact.losses, mode.losses, [each.losses for each in others])
    bad = np.flatnonzero(~np.isfinite(mode.losses) & np.isfinite(exact.losses))
    rows = [_row(index, exact, mode, others) for index in range(len(exact.names))]
    rows.sort(key=lambda row: (row.first_step is None, row.first_step or 0, -_finite(row.ratio)))
    return Compared(
        exact,
        mode,
        others,
        difference,
        yardstick,
        _first_beyond(difference, yardstick),
        int(bad[0]) if len(bad) else None,
        rows,
    )


def _row(index: int, exact: Curves, mode: Curves, others: Sequence[Curves]) -> VariableRow:
    first_step, ratio = None, math.nan
    if exact.norms.shape[1]:
        difference, yardstick = _of(
            exact.norms[:, index], mode.norms[:, index], [each.norms[:, index] for each in others]
        )
        first_step, ratio = (
            _first_beyond(difference, yardstick),
            _largest_ratio(difference, yardstick),
        )
    moved = np.linalg.norm(np.subtract(exact.last[index], exact.first[index], dtype=np.float64))
    apart = np.linalg.norm(np.subtract(mode.last[index], exact.last[index], dtype=np.float64))
    distance = float(apart / moved) if moved else (0.0 if not apart else math.inf)
    return VariableRow(exact.names[index], exact.ops[index], first_step, ratio, distance)


def _of(
    exact: np.ndarray, mode: np.ndarray, others: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The mode's difference, and the largest one between runs in float32, both smoothed."""
    runs = [exact, *others]
    apart = [
        _smooth(np.abs(one - other))
        for place, one in enumerate(runs)
        for other in runs[place + 1 :]
    ]
    # Curves that cross may still differ, so the yardstick is the largest value of a window.
    return _smooth(np.abs(mode - exact)), _widened(np.max(apart, axis=0))


def _smooth(values: np.ndarray) -> np.ndarray:
    """Medians over a window; not finite if half of the window is not."""
    values = np.where(np.isfinite(values), values, np.inf)
    half = _WINDOW // 2
    return np.array(
        [np.median(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]
    )


def _widened(values: np.ndarray) -> np.ndarray:
    """The largest value per window."""
    half = _WINDOW // 2
    return np.array([values[max(0, at - half) : at + half + 1].max() for at in range(len(values))])


def _first_beyond(difference: np.ndarray, yardstick: np.ndarray) -> int | None:
    beyond = np.flatnonzero(difference > np.maximum(yardstick, _LEAST))
    return int(beyond[0]) if len(beyond) else None


def _largest_ratio(difference: np.ndarray, yardstick: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        ratios = difference / np.maximum(yardstick, _LEAST)
    return float(np.max(np.where(np.isnan(ratios), 1.0, ratios)))


def _finite(value: float) -> float:
    return 0.0 if math.isnan(value) else value

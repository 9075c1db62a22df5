"""Compares the curves of a mode with those of float32, and with what other seeds make of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npu_precision.training.curves import Curves

# Steps whose median a difference is, so that one step's noise is none.
_WINDOW = 11
_LEAST = 1e-30


class VariableRow(NamedTuple):
    """How the gradients and the values of a variable differ.

    Attributes:
        name: of the variable.
        op: the op that its gradient belongs to, or "".
        first_step: in which its norm first differs by more than with other seeds, or None.
        ratio: its largest difference, as a multiple of the largest with other seeds.
        distance: of the values after the last step, relative to how far float32 moved them.
    """

    name: str
    op: str
    first_step: int | None
    ratio: float
    distance: float


class Compared(NamedTuple):
    """The comparison.

    Attributes:
        exact: float32's curves.
        mode: the mode's.
        others: float32's, with other seeds.
        difference: of the losses, per step, smoothed.
        yardstick: that between float32's runs.
        first_step: in which the difference is first larger than the yardstick, or None.
        first_bad: the step whose loss is first not finite, but is in float32; or None.
        rows: the variables, those first whose gradients differ first.
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
        """Whether the mode's losses stay within what other seeds make of float32's."""
        return self.first_step is None and self.first_bad is None

    @property
    def ratio(self) -> float:
        """The largest difference, as a multiple of the yardstick of its step."""
        return _largest_ratio(self.difference, self.yardstick)


def compare(exact: Curves, mode: Curves, others: Sequence[Curves]) -> Compared:
    """Compares them; others has one run at least."""
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
    """The difference of the mode, and the largest one between runs in float32, both smoothed."""
    runs = [exact, *others]
    apart = [
        _smooth(np.abs(one - other))
        for place, one in enumerate(runs)
        for other in runs[place + 1 :]
    ]
    # Curves that cross are not alike there.
    return _smooth(np.abs(mode - exact)), _widened(np.max(apart, axis=0))


def _smooth(values: np.ndarray) -> np.ndarray:
    """Medians over a window; where half of it is not finite, so is the median."""
    values = np.where(np.isfinite(values), values, np.inf)
    half = _WINDOW // 2
    return np.array(
        [np.median(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]
    )


def _widened(values: np.ndarray) -> np.ndarray:
    """The largest of each window."""
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

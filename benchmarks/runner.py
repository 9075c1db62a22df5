"""What takes turns in a row: a step of a contender, in whatever process."""

from __future__ import annotations

from typing import Protocol

import numpy as np

# Casts that ran, the share of the kernels' time in a low type, and that of each op.
Ran = tuple[int, float, dict[str, float]]


class Runner(Protocol):
    """A contender that is ready for its first step."""

    def first(self) -> np.ndarray:
        """Runs the first step, and returns its result."""

    def step(self) -> object:
        """Runs a step."""

    def what_ran(self) -> Ran | None:
        """What one more step ran, or None where that cannot be known."""

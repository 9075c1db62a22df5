"""What takes turns in a row: a step of a contender, in whatever process."""

from __future__ import annotations

from typing import Optional, Protocol

import numpy as np

# Casts that ran, the share of the kernels' time in a low type, and that of each op: None where that
# cannot be known.
Ran = tuple[Optional[int], Optional[float], Optional[dict[str, float]]]


class Runner(Protocol):
    """A contender that is ready for its first step."""

    def first(self) -> np.ndarray:
        """Runs the first step, and returns its result."""

    def step(self) -> object:
        """Runs a step."""

    def what_ran(self) -> Ran:
        """What one more step ran, or the first one."""

"""Runner: the steps of one contender, in this process or another."""

from __future__ import annotations

from typing import Optional, Protocol

import numpy as np

# The number of Casts that ran, the share of the kernels' time in a low type, and the share of each
# op; None for a figure that cannot be known.
Ran = tuple[Optional[int], Optional[float], Optional[dict[str, float]]]


class Runner(Protocol):
    """A contender that is ready for its first step."""

    def first(self) -> np.ndarray:
        """Runs the first step, and returns its result."""

    def step(self) -> object:
        """Runs a step."""

    def what_ran(self) -> Ran:
        """The figures of the kernels that ran in one more step, or in the first one."""

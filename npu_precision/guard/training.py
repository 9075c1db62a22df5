"""What a guard asks of a training, however its steps run."""

from __future__ import annotations

import abc
import contextlib
from typing import Any, NamedTuple

from npu_precision.options import PrecisionOptions

# Of a variable that others may set between steps: a learning rate, a counter or a scale.
MOST_ELEMENTS = 16
# The steps after which a weight should have changed.
SEVERAL = 2


class Outcome(NamedTuple):
    """What came of a step.

    Attributes:
        result: what the caller of the step gets.
        loss: of this step.
        is_finite: whether all weights are, after it.
    """

    result: Any
    loss: float
    is_finite: bool


class Training(abc.ABC):
    """A training whose steps can be run again.

    Attributes:
        needs_file: whether use() takes no other mixlist than the one in the guard's file.
    """

    needs_file: bool

    @abc.abstractmethod
    def run(self, inputs: Any) -> Outcome:
        """Makes a step."""

    @abc.abstractmethod
    def save(self, inputs: Any = None) -> Any:
        """All that a step changes: weights, slots, counters, random numbers, the loss scale.

        Args:
            inputs: of the first step, before which no more need be known.
        """

    @abc.abstractmethod
    def changes(self) -> Any:
        """What others have changed since the last step, such as the learning rate."""

    @abc.abstractmethod
    def change(self, changes: Any) -> None:
        """Makes the same changes again."""

    @abc.abstractmethod
    def restore(self, state: Any) -> None:
        """Brings back what save() returned."""

    @abc.abstractmethod
    def unchanged(self, state: Any) -> set[str]:
        """The weights that are trained and are as they were then, though several steps were made.

        A step that loss scaling skips is not made.
        """

    @abc.abstractmethod
    def size_of(self, inputs: Any) -> int:
        """Their bytes."""

    def scopes(self) -> set[str]:
        """The names of scopes that get a number by how often they were used before."""
        return set()

    @abc.abstractmethod
    def options(self) -> PrecisionOptions | None:
        """Those in force for the next step, or None without a precision mode."""

    @abc.abstractmethod
    def under(
        self, options: PrecisionOptions | None, is_diagnosis: bool = False
    ) -> contextlib.AbstractContextManager[Any]:
        """A context in which steps run with these options; None for float32.

        Args:
            options: the options.
            is_diagnosis: whether a watch will be opened in it, for which no ops are fused.
        """

    @abc.abstractmethod
    def use(self, options: PrecisionOptions) -> None:
        """Runs all later steps with these options."""

"""The interface of a training for a guard."""

from __future__ import annotations

import abc
import contextlib
from typing import Any, NamedTuple

from npu_precision.options import PrecisionOptions

# The most elements of a variable that others may set between steps: a learning rate, a counter or a
# scale.
MOST_ELEMENTS = 16
# The steps after which a weight should have changed.
SEVERAL = 2


class Outcome(NamedTuple):
    """The outcome of a step.

    Attributes:
        result: the result for the caller of the step.
        loss: the loss of this step.
        is_finite: whether all weights are finite after the step.
    """

    result: Any
    loss: float
    is_finite: bool


class Training(abc.ABC):
    """A training whose steps can be run again.

    Attributes:
        needs_file: whether use() only takes the mixlist in the guard's file.
    """

    needs_file: bool

    @abc.abstractmethod
    def run(self, inputs: Any) -> Outcome:
        """Makes a step."""

    @abc.abstractmethod
    def save(self, inputs: Any = None) -> Any:
        """Returns all that a step changes: weights, slots, counters, random numbers, the loss
        scale.

        Args:
            inputs: the inputs of the first step, given only before that step.
        """

    @abc.abstractmethod
    def changes(self) -> Any:
        """The changes that others made since the last step, such as to the learning rate."""

    @abc.abstractmethod
    def change(self, changes: Any) -> None:
        """Repeats such changes."""

    @abc.abstractmethod
    def restore(self, state: Any) -> None:
        """Restores a result of save()."""

    @abc.abstractmethod
    def unchanged(self, state: Any) -> set[str]:
        """The trained weights that still have their values in `state` after several steps.

        A step that loss scaling skips does not count.
        """

    @abc.abstractmethod
    def size_of(self, inputs: Any) -> int:
        """The size of a step's inputs in bytes."""

    def scopes(self) -> set[str]:
        """The names of scopes that TensorFlow numbers at each use."""
        return set()

    @abc.abstractmethod
    def options(self) -> PrecisionOptions | None:
        """The options in force for the next step, or None without a precision mode."""

    @abc.abstractmethod
    def under(
        self, options: PrecisionOptions | None, is_diagnosis: bool = False
    ) -> contextlib.AbstractContextManager[Any]:
        """A context in which steps run with these options; None for float32.

        Args:
            options: the options.
            is_diagnosis: whether a watch will be opened in the context; then no ops are fused.
        """

    @abc.abstractmethod
    def use(self, options: PrecisionOptions) -> None:
        """Runs all later steps with these options."""

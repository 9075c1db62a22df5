"""The goals of tuning: a limit on the error, or on the loss in the user's metric."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Dict, List, Tuple, Union

import numpy as np

from npu_precision import _errors
from npu_precision.accuracy import model_inputs

# For each batch: the inputs and the outputs of a model, by name.
Batches = List[Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]]


@dataclasses.dataclass(frozen=True)
class MaxError:
    """A limit on the error of each output.

    Attributes:
        limit: root mean square error over root mean square, as Comparison.error().
        margin: the share of the limit that the search leaves free, so that other inputs stay within
            it.
    """

    limit: float
    margin: float = 0.0

    @property
    def searched(self) -> float:
        """The limit less the margin."""
        return self.limit * (1 - self.margin)

    def __str__(self) -> str:
        return f"error at most {limit_text(self.limit)}"

    def texts(
        self, error: float, metric: float | None, reference: float | None
    ) -> tuple[str, str | None]:
        """An error, in digits that show whether the limit is met, and None."""
        return apart(error, self.searched), None

    def worse(self, error: float, metric: float | None, reference: float | None) -> float:
        """The limited value: the error."""
        return error

    def is_met(self, error: float, metric: float | None, reference: float | None) -> bool:
        """Whether an error is small enough, with the margin; NaN is not."""
        return self.worse(error, metric, reference) <= self.searched


@dataclasses.dataclass(frozen=True)
class Metric:
    """A limit on how much worse than with float32 a metric of the outputs may be.

    Attributes:
        name: "module:function"; the function takes a list with a pair of mappings for each batch,
            its inputs and its outputs by name, and returns a number.
        budget: how much worse it may be.
        smaller_is_better: whether smaller values are better, as for a loss.
        margin: the share of the budget that the search leaves free, so that other inputs stay
            within it.
    """

    name: str
    budget: float
    smaller_is_better: bool = False
    margin: float = 0.0

    @property
    def searched(self) -> float:
        """The budget less the margin."""
        return self.budget * (1 - self.margin)

    def __str__(self) -> str:
        direction = "above" if self.smaller_is_better else "below"
        return f"{self.name} at most {limit_text(self.budget)} {direction} float32's"

    def texts(
        self, error: float, metric: float | None, reference: float | None
    ) -> tuple[str, str | None]:
        """An error and a metric, in digits that show whether the limit is met."""
        assert metric is not None
        assert reference is not None
        text = f"{metric:g}"
        is_met = self.is_met(error, metric, reference)
        if self.is_met(error, float(text), float(f"{reference:g}")) != is_met:
            worse = self.worse(error, metric, reference)
            text += f", worse by {apart(worse, self.searched)}"
        return f"{error:.1e}", text

    def function(self) -> Callable[[Batches], float]:
        """The function that computes the metric.

        Raises:
            ValueError: there is no such function; when called, it fails or returns no number.
        """
        function = model_inputs.load_function(self.name)

        def measure(batches: Batches) -> float:
            return _number(self.name, model_inputs.called(self.name, function, batches))

        return measure

    def worse(self, error: float, metric: float | None, reference: float | None) -> float:
        """The limited value: how much worse than float32's the metric is."""
        assert metric is not None
        assert reference is not None
        return metric - reference if self.smaller_is_better else reference - metric

    def is_met(self, error: float, metric: float | None, reference: float | None) -> bool:
        """Whether a metric is good enough compared to float32's, with the margin; NaN is not."""
        return self.worse(error, metric, reference) <= self.searched


def limit_text(limit: float) -> str:
    """A limit, as the user gave it."""
    return f"{limit:.15g}"


def apart(value: float, limit: float) -> str:
    """A number in at least two digits, and in as many as show whether it is within a limit."""
    texts = (f"{value:.{digits}e}" for digits in range(1, 17))
    shown = float(limit_text(limit))
    return next((text for text in texts if (float(text) <= shown) == (value <= limit)), repr(value))


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} returned {type(value).__name__}, expected a number") from None


Objective = Union[MaxError, Metric]

# The values of --objective, the default first.
_AIMS = ("error", "time", "pareto")


def check_aim(name: str) -> str:
    """Checks the value of --objective, and returns it.

    Raises:
        ValueError: there is no such aim.
    """
    if name not in _AIMS:
        raise ValueError(
            f"--objective: got {name!r}, expected one of {', '.join(_AIMS)}"
            f"{_errors.did_you_mean(name, _AIMS)}"
        )
    return name


def check(value: float, what: str) -> float:
    """Checks a limit or budget, and returns it.

    Raises:
        ValueError: it is negative, NaN or infinite.
    """
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{what}: got {value:g}, expected a number from 0 on")
    return value


def check_share(value: float, what: str) -> float:
    """Checks a share, which must be less than the whole, and returns it.

    Raises:
        ValueError: it is negative, NaN, or 1 or more.
    """
    if 0 <= value < 1:
        return value
    percent = f"; {value:g} % is {value / 100:g}" if 1 < value < 100 else ""
    raise ValueError(f"{what}: got {value:g}, expected a share from 0 to less than 1{percent}")

"""Selection: the steps and tensors that a watch records."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from npu_precision import _errors
from npu_precision.loss_scaling import strategies

_EVERY_N_STEPS = 100


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is recorded of the graphs that run.

    Attributes:
        steps: the runs of a graph, counted from 0.
        scopes: scopes of the tensors' names; none for all tensors.
        statistics: whether means, deviations, norms and extremes are counted too.
        stops: whether a step fails where a value is not finite.
    """

    steps: range = range(sys.maxsize)
    scopes: tuple[str, ...] = ()
    statistics: bool = False
    stops: bool = False

    def members(self) -> dict[str, Any]:
        """The members of FlightSelection in cc/flight_store.h."""
        return {
            "first": self.steps.start,
            "last": self.steps[-1],
            "every_n_steps": self.steps.step,
            "scopes": list(self.scopes),
            "statistics": self.statistics,
            "stops": self.stops,
        }


def every(number: int) -> range:
    """The first of every so many steps."""
    return range(0, sys.maxsize, number)


def of_arguments(
    every_n_steps: int | None,
    steps: range | None,
    scopes: Sequence[str],
    statistics: bool,
    stop_at_infinity: bool,
) -> Selection:
    """Makes a selection of a recorder's arguments.

    Raises:
        ValueError: a value is not valid; see FlightRecorder.
    """
    for name, value in (("statistics", statistics), ("stop_at_infinity", stop_at_infinity)):
        if not isinstance(value, bool):
            raise ValueError(f"{name}: got {_errors.got(value)}, expected a bool")
    if steps is None:
        default = 1 if stop_at_infinity else _EVERY_N_STEPS
        number = default if every_n_steps is None else every_n_steps
        strategies.check_count("every_n_steps", number)
        steps = every(number)
    elif every_n_steps is not None:
        raise ValueError("every_n_steps and steps are both given, expected one of the two")
    elif not isinstance(steps, range) or not steps or steps.start < 0 or steps.step < 1:
        raise ValueError(
            f"steps: got {_errors.got(steps)}, expected a range of steps from 0 on, as "
            "range(500, 600) or range(0, 1000, 10)"
        )
    if not isinstance(scopes, (list, tuple)) or not all(
        isinstance(scope, str) and scope.strip("/") for scope in scopes
    ):
        raise ValueError(
            f"scopes: got {_errors.got(scopes)}, expected a list of names, as ['encoder/layer_3']"
        )
    return Selection(
        steps, tuple(scope.strip("/") for scope in scopes), statistics, stop_at_infinity
    )

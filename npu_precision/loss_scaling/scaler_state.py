"""Converts a GradScaler's state to a dictionary, with its own names or torch's five, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from npu_precision import _errors
from npu_precision.loss_scaling.strategies import DynamicLossScale, Growth, LossScaleState
from npu_precision.loss_scaling.variables import GrowthVariables

# The names in torch.amp.GradScaler.state_dict().
TORCH = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
_NOT_TORCHS = ("hysteresis", "min_scale", "max_scale")


def as_dict(strategy: Any, growth: GrowthVariables | None, state: LossScaleState) -> dict[str, Any]:
    """The strategy's parameters, with the current growth, and the state."""
    numbers = dataclasses.asdict(strategy)
    numbers.pop("init_scale", None)
    if growth is not None:
        numbers.update(growth.numbers()._asdict())
    trackers = {"_growth_tracker": state.good_steps, "_hysteresis_tracker": state.bad_steps}
    return {**numbers, "scale": state.scale, **trackers}


def check_is_torchs(strategy: Any) -> None:
    """Raises ValueError unless torch's GradScaler would continue in the same way."""
    if not isinstance(strategy, DynamicLossScale):
        raise ValueError(
            f"torch=True: got a scaler with {_errors.got(strategy)}, expected one with a "
            "DynamicLossScale"
        )
    for name in _NOT_TORCHS:
        value, expected = getattr(strategy, name), getattr(DynamicLossScale, name)
        if value != expected:
            raise ValueError(
                f"torch=True: got a scaler with {name} {value!r}, expected {expected!r}: torch's "
                "has no such number"
            )


def from_dict(state_dict: Any, own: Mapping[str, Any]) -> tuple[LossScaleState, Growth]:
    """Returns the state in a dictionary, and its growth, whose numbers are None for a fixed scale.

    Args:
        state_dict: a dictionary with the names of `own`, or with torch's.
        own: as_dict() of the scaler.

    Raises:
        ValueError: the names differ, or a parameter differs from the one in `own`.
    """
    names = set(state_dict) if isinstance(state_dict, Mapping) else None
    if names == set(TORCH) and names < set(own):
        state_dict = {**own, "_hysteresis_tracker": 0, **state_dict}
    elif names != set(own):
        what = state_dict if names is None else sorted(names)
        raise ValueError(
            f"state_dict: got {what!r}, expected the names {sorted(own)}; the state of a "
            "scaler that is not enabled is empty"
        )
    changes = {"_growth_tracker", "_hysteresis_tracker", *Growth._fields}
    # A strategy without growth has a fixed scale.
    changes |= {"scale"} if "growth_factor" in own else set()
    for name in sorted(set(own) - changes):
        if state_dict[name] != own[name]:
            raise ValueError(
                f"state_dict: got {name} {state_dict[name]!r}, and this scaler has {own[name]!r}"
            )
    state = LossScaleState(
        *(state_dict.get(name) for name in ("scale", "_growth_tracker", "_hysteresis_tracker"))
    )
    return state, Growth(*(state_dict.get(name) for name in Growth._fields))

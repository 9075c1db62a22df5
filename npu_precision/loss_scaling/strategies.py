"""How a loss scale changes from step to step: small frozen objects, without state of their own."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from npu_precision import _errors

_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_COUNT = 2**31 - 1
_SMALLEST = float(np.finfo(np.float32).tiny)


class LossScaleState(NamedTuple):
    """What a strategy changes: numbers, or scalar tensors.

    Attributes:
        scale: what the loss is multiplied by, float32.
        good_steps: steps without an overflow since the scale or `bad_steps` last changed, int32.
        bad_steps: steps with an overflow since the scale last changed, int32.
    """

    scale: Any
    good_steps: Any = 0
    bad_steps: Any = 0


@dataclasses.dataclass(frozen=True)
class NoLossScale:
    """The loss as it is; a step that overflows is made all the same."""

    checks_overflow = False
    adjusts = False

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(1.0)

    def adjust(self, state: LossScaleState, all_finite: tf.Tensor) -> LossScaleState:
        """The state as it is."""
        del all_finite
        return state


@dataclasses.dataclass(frozen=True)
class FixedLossScale:
    """Always the same scale.

    Args:
        scale: positive and finite.
        checks_overflow: whether a step whose gradients are not all finite is skipped.

    Raises:
        ValueError: a scale that is not positive and finite.
    """

    scale: float
    checks_overflow: bool = True

    adjusts = False

    def __post_init__(self) -> None:
        check_scale("scale", self.scale)

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(float(self.scale))

    def adjust(self, state: LossScaleState, all_finite: tf.Tensor) -> LossScaleState:
        """The state as it is."""
        del all_finite
        return state


@dataclasses.dataclass(frozen=True)
class DynamicLossScale:
    """As large a scale as the gradients allow.

    After `growth_interval` finite steps the scale is multiplied by `growth_factor`. After
    `hysteresis` steps that overflowed, not necessarily in a row, it is multiplied by
    `backoff_factor`; an overflow before that ends the row of finite steps.

    Args:
        init_scale: positive and finite, between min_scale and max_scale.
        growth_factor: above 1.
        backoff_factor: above 0, below 1.
        growth_interval: finite steps, at least 1.
        hysteresis: steps that overflowed, at least 1.
        min_scale, max_scale: positive and finite. By default the least and the largest normal
            float32: growth that is not finite is left out.

    Raises:
        ValueError: an argument out of its range.
    """

    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    hysteresis: int = 1
    min_scale: float = _SMALLEST
    max_scale: float = _LARGEST

    checks_overflow = True
    adjusts = True

    def __post_init__(self) -> None:
        for name in ("init_scale", "min_scale", "max_scale"):
            check_scale(name, getattr(self, name))
        if self.min_scale > self.max_scale:
            raise ValueError(
                f"min_scale: got {self.min_scale!r}, which is above max_scale, {self.max_scale!r}"
            )
        if not self.min_scale <= self.init_scale <= self.max_scale:
            raise ValueError(
                f"init_scale: got {self.init_scale!r}, expected a number from min_scale, "
                f"{self.min_scale!r}, to max_scale, {self.max_scale!r}"
            )
        check_growth("growth_factor", self.growth_factor)
        check_backoff("backoff_factor", self.backoff_factor)
        for name in ("growth_interval", "hysteresis"):
            check_count(name, getattr(self, name))

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(float(self.init_scale))

    def adjust(self, state: LossScaleState, all_finite: tf.Tensor) -> LossScaleState:
        """The state after a step; tensors.

        Args:
            state: that of the step.
            all_finite: whether its gradients were all finite; a scalar bool tensor.
        """
        scale = tf.convert_to_tensor(state.scale, tf.float32)
        overflowed = tf.logical_not(all_finite)
        zero = tf.zeros([], tf.int32)
        good = tf.where(overflowed, zero, state.good_steps + 1)
        bad = tf.where(overflowed, state.bad_steps + 1, state.bad_steps + zero)
        grows = good >= self.growth_interval
        backs_off = tf.logical_and(overflowed, bad >= self.hysteresis)

        grown = scale * self.growth_factor
        grown = tf.where(tf.math.is_finite(grown), tf.minimum(grown, self.max_scale), scale)
        backed_off = tf.maximum(scale * self.backoff_factor, self.min_scale)
        scale = tf.where(grows, grown, tf.where(backs_off, backed_off, scale))
        changed = tf.logical_or(grows, backs_off)
        return LossScaleState(scale, tf.where(changed, zero, good), tf.where(changed, zero, bad))


def check_scale(name: str, value: object) -> None:
    """Raises ValueError unless it is a positive, finite number that float32 holds."""
    if not (_is_finite(value) and 0 < float(value) <= _LARGEST):  # type: ignore[arg-type]
        raise ValueError(
            f"{name}: got {_errors.got(value)}, expected a positive, finite number that float32 "
            "can hold"
        )


def check_growth(name: str, value: object) -> None:
    """Raises ValueError unless it is a finite number above 1."""
    if not (_is_finite(value) and value > 1):  # type: ignore[operator]
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a finite number above 1")


def check_backoff(name: str, value: object) -> None:
    """Raises ValueError unless it is a number above 0 and below 1."""
    if not (_is_finite(value) and 0 < value < 1):  # type: ignore[operator]
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a number above 0 and below 1")


def check_count(name: str, value: object) -> None:
    """Raises ValueError unless it is a whole number of at least 1."""
    if not (_is_whole(value) and 1 <= value <= _LARGEST_COUNT):  # type: ignore[operator]
        raise ValueError(
            f"{name}: got {_errors.got(value)}, expected a whole number from 1 to {_LARGEST_COUNT}"
        )


def check_below(name: str, value: object, end: int) -> None:
    """Raises ValueError unless it is a whole number from 0 on, and below `end`."""
    if not (_is_whole(value) and 0 <= value < end):  # type: ignore[operator]
        raise ValueError(
            f"{name}: got {_errors.got(value)}, expected a whole number from 0 to {end - 1}"
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]

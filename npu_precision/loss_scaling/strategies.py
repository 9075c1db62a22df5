"""The strategies by which a loss scale changes from step to step: frozen objects without state."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from npu_precision import _errors, _tf_compat

_LARGEST = float(np.finfo(np.float32).max)
LARGEST_COUNT = 2**31 - 1
_SMALLEST = float(np.finfo(np.float32).tiny)


class LossScaleState(NamedTuple):
    """The state that a strategy adjusts: numbers, or scalar tensors.

    Attributes:
        scale: the factor of the loss, float32.
        good_steps: steps without an overflow since the scale or `bad_steps` last changed, int32.
        bad_steps: steps with an overflow since the scale last changed, int32.
    """

    scale: Any
    good_steps: Any = 0
    bad_steps: Any = 0


class Growth(NamedTuple):
    """The numbers of a DynamicLossScale that may change during a training, or scalar tensors."""

    growth_factor: Any
    backoff_factor: Any
    growth_interval: Any


class _Constant:
    """A strategy that adjusts nothing."""

    adjusts = False

    def adjust(
        self, state: LossScaleState, all_finite: tf.Tensor, growth: Growth | None = None
    ) -> LossScaleState:
        """Returns the state as it is."""
        del all_finite, growth
        return state


@dataclasses.dataclass(frozen=True)
class NoLossScale(_Constant):
    """Leaves the loss as it is. Steps that overflow are not skipped."""

    checks_overflow = False

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(1.0)


@dataclasses.dataclass(frozen=True)
class FixedLossScale(_Constant):
    """A constant scale.

    Args:
        scale: positive and finite.
        checks_overflow: whether a step whose gradients are not all finite is skipped.

    Raises:
        ValueError: a scale that is not positive and finite.
    """

    scale: float
    checks_overflow: bool = True

    def __post_init__(self) -> None:
        check_scale("scale", self.scale)

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(float(self.scale))


@dataclasses.dataclass(frozen=True)
class DynamicLossScale:
    """The largest scale that the gradients allow.

    After `growth_interval` finite steps in a row the scale is multiplied by `growth_factor`. After
    `hysteresis` steps that overflowed, which need not be in a row, it is multiplied by
    `backoff_factor`. In both cases, counting starts again.

    Args:
        init_scale: positive and finite, between min_scale and max_scale.
        growth_factor: above 1.
        backoff_factor: above 0, below 1.
        growth_interval: finite steps, at least 1.
        hysteresis: steps that overflowed, at least 1.
        min_scale, max_scale: positive and finite; by default the least and the largest normal
            float32. The scale never grows to infinity.

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
        check_all_growth(self.growth())
        check_count("hysteresis", self.hysteresis)

    def initial(self) -> LossScaleState:
        """The state to begin with."""
        return LossScaleState(float(self.init_scale))

    def growth(self) -> Growth:
        """The initial values of the numbers that may change."""
        return Growth(self.growth_factor, self.backoff_factor, self.growth_interval)

    def adjust(
        self, state: LossScaleState, all_finite: tf.Tensor, growth: Growth | None = None
    ) -> LossScaleState:
        """Returns the state after a step, as tensors.

        Args:
            state: the state of the step.
            all_finite: whether all gradients of the step are finite, a scalar bool tensor.
            growth: numbers in place of growth().
        """
        growth = growth or self.growth()
        scale = tf.convert_to_tensor(state.scale, tf.float32)
        overflowed = tf.logical_not(all_finite)
        zero = tf.zeros([], tf.int32)
        good = _tf_compat.where(overflowed, zero, state.good_steps + 1)
        bad = _tf_compat.where(overflowed, state.bad_steps + 1, state.bad_steps + zero)
        grows = good >= growth.growth_interval
        backs_off = tf.logical_and(overflowed, bad >= self.hysteresis)

        grown = scale * growth.growth_factor
        grown = _tf_compat.where(tf.math.is_finite(grown), tf.minimum(grown, self.max_scale), scale)
        backed_off = tf.maximum(scale * growth.backoff_factor, self.min_scale)
        scale = _tf_compat.where(grows, grown, _tf_compat.where(backs_off, backed_off, scale))
        changed = tf.logical_or(grows, backs_off)
        return LossScaleState(
            scale, _tf_compat.where(changed, zero, good), _tf_compat.where(changed, zero, bad)
        )


def check_scale(name: str, value: object) -> None:
    """Raises ValueError unless it is a positive, finite number that float32 holds."""
    is_right = _is_finite(value) and 0 < float(value) <= _LARGEST  # type: ignore[arg-type]
    _check(name, value, is_right, "a positive, finite number that float32 can hold")


def check_growth(name: str, value: object) -> None:
    """Raises ValueError unless it is a finite number above 1."""
    is_right = _is_finite(value) and value > 1  # type: ignore[operator]
    _check(name, value, is_right, "a finite number above 1")


def check_backoff(name: str, value: object) -> None:
    """Raises ValueError unless it is a number above 0 and below 1."""
    is_right = _is_finite(value) and 0 < value < 1  # type: ignore[operator]
    _check(name, value, is_right, "a number above 0 and below 1")


def check_all_growth(growth: Growth) -> None:
    """Raises ValueError unless each is in its range."""
    check_growth("growth_factor", growth.growth_factor)
    check_backoff("backoff_factor", growth.backoff_factor)
    check_count("growth_interval", growth.growth_interval)


def check_whole(name: str, value: object, first: int, last: int) -> None:
    """Raises ValueError unless it is a whole number from first to last."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    is_right = is_whole and first <= value <= last  # type: ignore[operator]
    _check(name, value, is_right, f"a whole number from {first} to {last}")


def check_count(name: str, value: object) -> None:
    """Raises ValueError unless it is a whole number of at least 1."""
    check_whole(name, value, 1, LARGEST_COUNT)


def _check(name: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{name}: got {_errors.got(value)}, expected {expected}")


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]

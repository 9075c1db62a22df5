"""npu_bridge's loss-scale managers: its argument names over the strategies."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision.loss_scaling import strategies
from npu_precision.loss_scaling.variables import LossScaleVariables


class LossScaleManager(tf.Module):
    """Gives NPULossScaleOptimizer the scale, and adjusts it after each step."""

    def __init__(self, strategy: Any) -> None:
        super().__init__()
        self.state = LossScaleVariables(strategy)

    def get_loss_scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        return self.state.scale()

    def update_loss_scale(self, finite_grads: tf.Tensor) -> tf.Operation | None:
        """Returns the op that adjusts the scale after a step; None in eager code.

        Args:
            finite_grads: whether all gradients of the step are finite, a scalar bool tensor.
        """
        return self.state.update(tf.convert_to_tensor(finite_grads))

    def get_enable_overflow_check(self) -> bool:
        """Whether a step that overflows is skipped."""
        return self.state.strategy.checks_overflow


class FixedLossScaleManager(LossScaleManager):
    """A constant loss scale.

    Args:
        loss_scale: at least 1, and finite.
        enable_overflow_check: whether a step whose gradients are not all finite is skipped.

    Raises:
        ValueError: a loss_scale out of its range.

    Source: npu_bridge's FixedLossScaleManager.
    """

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True) -> None:
        _check_at_least_1("loss_scale", loss_scale)
        super().__init__(strategies.FixedLossScale(loss_scale, bool(enable_overflow_check)))


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A loss scale that grows while gradients are finite, and shrinks when they are not.

    After `incr_every_n_steps` finite steps in a row it is multiplied by `incr_ratio`, unless that
    is infinite. After `decr_every_n_nan_or_inf` steps that overflowed, which need not be in a row,
    it is multiplied by `decr_ratio`, but stays at least 1. In both cases, counting starts again.

    Args:
        init_loss_scale: at least 1, and finite.
        incr_every_n_steps: at least 1.
        decr_every_n_nan_or_inf: at least 1.
        incr_ratio: above 1.
        decr_ratio: above 0, below 1.

    Raises:
        ValueError: an argument out of its range.

    Source: npu_bridge's ExponentialUpdateLossScaleManager.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:
        _check_at_least_1("init_loss_scale", init_loss_scale)
        strategies.check_count("incr_every_n_steps", incr_every_n_steps)
        strategies.check_count("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf)
        strategies.check_growth("incr_ratio", incr_ratio)
        strategies.check_backoff("decr_ratio", decr_ratio)
        super().__init__(
            strategies.DynamicLossScale(
                init_scale=float(init_loss_scale),
                growth_factor=float(incr_ratio),
                backoff_factor=float(decr_ratio),
                growth_interval=int(incr_every_n_steps),
                hysteresis=int(decr_every_n_nan_or_inf),
                min_scale=1.0,
            )
        )


def _check_at_least_1(name: str, value: float) -> None:
    strategies.check_scale(name, value)
    if not value >= 1:
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a number of at least 1")

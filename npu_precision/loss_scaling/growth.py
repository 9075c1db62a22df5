"""The growth of a loss scale in variables: functions that are traced already see a change."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling import strategies
from npu_precision.loss_scaling.strategies import Growth


class GrowthVariables(tf.Module):
    """growth_factor, backoff_factor and growth_interval of a DynamicLossScale, which may change.

    Checkpoints save them. Make it in eager code.

    Args:
        strategy: the DynamicLossScale whose numbers they begin with.
    """

    def __init__(self, strategy: strategies.DynamicLossScale) -> None:
        super().__init__()
        initial = strategy.growth()
        # float64, since Python's floats come back as they were.
        self.growth_factor = _variable(initial.growth_factor, tf.float64, "growth_factor")
        self.backoff_factor = _variable(initial.backoff_factor, tf.float64, "backoff_factor")
        self.growth_interval = _variable(initial.growth_interval, tf.int32, "growth_interval")

    def tensors(self) -> Growth:
        """The numbers as scalar tensors: float32, float32 and int32."""
        return Growth(
            tf.cast(self.growth_factor.read_value(), tf.float32),
            tf.cast(self.backoff_factor.read_value(), tf.float32),
            self.growth_interval.read_value(),
        )

    def numbers(self) -> Growth:
        """The numbers as Python numbers, in eager code."""
        return Growth(*(tf.convert_to_tensor(one).numpy().item() for one in self._variables()))

    def set(self, growth: Growth) -> None:
        """Sets all numbers, in eager code.

        Raises:
            ValueError: one is out of its range; then none is set.
        """
        strategies.check_all_growth(growth)
        for variable, value in zip(self._variables(), growth):
            variable.assign(value)

    def _variables(self) -> Growth:
        return Growth(self.growth_factor, self.backoff_factor, self.growth_interval)


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)

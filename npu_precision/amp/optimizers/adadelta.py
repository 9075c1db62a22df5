"""NpuFusedAdadelta: torch's Adadelta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part


@registered
class NpuFusedAdadelta(FusedOptimizer):
    """Adadelta as torch has it.

        gradient += weight_decay * variable
        square_avg = rho * square_avg + (1 - rho) * gradient^2
        delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * gradient
        acc_delta = rho * acc_delta + (1 - rho) * delta^2
        variable -= lr * delta

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        rho: a number from 0 to below 1.
        eps, weight_decay: numbers from 0.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedAdadelta of Ascend's Apex; torch.optim.Adadelta.
    """

    def __init__(
        self,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        **others: Any,
    ) -> None:
        own = {
            "rho": arguments.number("rho", rho, 0.0, 1.0),
            "eps": arguments.number("eps", eps),
            "weight_decay": arguments.number("weight_decay", weight_decay),
        }
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        return {"lr": lr, "rho": tf.constant(self.options.rho, tf.float64)}

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        gradient = self.decayed(gradient, target)
        tf.raw_ops.ResourceApplyAdadelta(
            var=target.handle,
            accum=part.slots["square_avg"].handle,
            accum_update=part.slots["acc_delta"].handle,
            lr=numbers["lr"],
            rho=numbers["rho"],
            epsilon=tf.constant(self.options.eps, part.dtype),
            grad=gradient,
        )

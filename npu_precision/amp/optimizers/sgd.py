"""NpuFusedSGD: torch's SGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part


@registered
class NpuFusedSGD(FusedOptimizer):
    """Stochastic gradient descent as torch has it.

        gradient += weight_decay * variable
        momentum_buffer = momentum * momentum_buffer + (1 - dampening) * gradient
        variable -= lr * momentum_buffer

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        momentum, dampening, weight_decay: numbers from 0. The first step has no dampening.
        nesterov: whether the variable moves by gradient + momentum * momentum_buffer.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer; nesterov without momentum, or with
            dampening.

    Source: apex.optimizers.NpuFusedSGD of Ascend's Apex; torch.optim.SGD.
    """

    def __init__(
        self,
        lr: Any,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        **others: Any,
    ) -> None:
        own = {
            "momentum": arguments.number("momentum", momentum),
            "dampening": arguments.number("dampening", dampening),
            "weight_decay": arguments.number("weight_decay", weight_decay),
            "nesterov": arguments.flag("nesterov", nesterov),
        }
        if nesterov and (not momentum or dampening):
            raise ValueError(
                f"nesterov: got True with momentum {momentum} and dampening {dampening}, expected "
                "a momentum above 0 and no dampening"
            )
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        return {"momentum_buffer": 0.0} if self.options.momentum else {}

    def may_group(self) -> bool:
        return bool(self.options.momentum)  # Without a momentum, one op per variable is enough.

    def takes_slices(self) -> bool:
        return not self.options.momentum and not self.options.weight_decay

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        share = tf.where(steps > 0, 1.0 - self.options.dampening, 1.0)
        return {"lr": lr, "share": share, "momentum": tf.constant(self.options.momentum)}

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        if isinstance(gradient, tf.IndexedSlices):
            rows = tf.IndexedSlices(numbers["lr"] * gradient.values, gradient.indices)
            target.scatter_sub(rows)
            return
        gradient = self.decayed(gradient, target)
        if not self.options.momentum:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=target.handle, alpha=numbers["lr"], delta=gradient
            )
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=target.handle,
            accum=part.slots["momentum_buffer"].handle,
            lr=numbers["lr"],
            grad=gradient * numbers["share"] if self.options.dampening else gradient,
            momentum=numbers["momentum"],
            use_nesterov=self.options.nesterov,
        )

"""NpuFusedLamb: LAMB without bias correction, as Ascend's Apex has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part

_LARGEST_NORM = 10.0


@registered
class NpuFusedLamb(FusedOptimizer):
    """LAMB, without bias correction.

        exp_avg = betas[0] * exp_avg + (1 - betas[0]) * gradient
        exp_avg_sq = betas[1] * exp_avg_sq + (1 - betas[1]) * gradient^2
        step = exp_avg / (sqrt(exp_avg_sq) + eps) + weight_decay * variable
        variable -= lr * trust_ratio * step

    The trust_ratio of each variable is its norm, at most 10, over the norm of its step; 1 if one of
    the two is 0.

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        betas: two numbers from 0 to below 1.
        eps, weight_decay: numbers from 0.
        adam: whether the trust_ratio is always 1.
        use_global_grad_norm: whether all gradients are divided by their global norm if that is
            above 1.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedLamb of Ascend's Apex; https://arxiv.org/abs/1904.00962.
    """

    def __init__(
        self,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
        **others: Any,
    ) -> None:
        own = {
            "betas": arguments.pair_of_betas(betas),
            "eps": arguments.number("eps", eps),
            "weight_decay": arguments.number("weight_decay", weight_decay),
            "adam": arguments.flag("adam", adam),
            "use_global_grad_norm": arguments.flag("use_global_grad_norm", use_global_grad_norm),
        }
        if use_global_grad_norm and others.get("global_clipnorm") is not None:
            raise ValueError("global_clipnorm: got use_global_grad_norm too, expected one of them")
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def reads_values(self) -> bool:
        return True

    def needs_norm(self) -> bool:
        return self.options.use_global_grad_norm or super().needs_norm()

    def factor_of_norm(self, norm: tf.Tensor) -> tf.Tensor:
        if self.options.use_global_grad_norm:
            return 1.0 / tf.maximum(norm, 1.0)
        return super().factor_of_norm(norm)

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        options, values = self.options, target.read_value()
        (beta1, beta2), slots = options.betas, part.slots
        slots["exp_avg"].assign(beta1 * slots["exp_avg"].read_value() + (1.0 - beta1) * gradient)
        squares = beta2 * slots["exp_avg_sq"].read_value() + (1.0 - beta2) * tf.square(gradient)
        slots["exp_avg_sq"].assign(squares)
        step = slots["exp_avg"].read_value() / (tf.sqrt(squares) + options.eps)
        if options.weight_decay:
            step += options.weight_decay * values
        if not options.adam:
            step *= part.spread(
                [
                    _trust_ratio(value, of_step)
                    for value, of_step in zip(part.unpacked(values), part.unpacked(step))
                ]
            )
        tf.raw_ops.ResourceApplyGradientDescent(var=target.handle, alpha=numbers["lr"], delta=step)


def _trust_ratio(values: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    norm, of_step = tf.minimum(tf.norm(values), _LARGEST_NORM), tf.norm(step)
    return tf.where((norm > 0) & (of_step > 0), tf.math.divide_no_nan(norm, of_step), 1.0)

"""NpuFusedBertAdam: BERT's Adam, with its warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.adam import apply_adam, rounded
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part

# The learning rate's factor after the warm-up, as functions of the share of steps done.
_SCHEDULES = {
    "warmup_linear": lambda done, warmup: tf.maximum((1.0 - done) / (1.0 - warmup), 0.0),
    "warmup_constant": lambda done, warmup: tf.ones_like(done),
    "warmup_cosine": lambda done, warmup: 0.5 * (1.0 + tf.cos(math.pi * done)),
    "warmup_poly": lambda done, warmup: tf.sqrt(tf.maximum(1.0 - done, 0.0)),
}


@registered
class NpuFusedBertAdam(FusedOptimizer):
    """BERT's Adam: no bias correction, weight decay that is not in the averages, and a warm-up.

        exp_avg = b1 * exp_avg + (1 - b1) * gradient
        exp_avg_sq = b2 * exp_avg_sq + (1 - b2) * gradient^2
        variable -= lr * factor * (exp_avg / (sqrt(exp_avg_sq) + e) + weight_decay * variable)

    The factor rises from 0 to 1 in the first `warmup` of `t_total` steps. Then it is, with x for
    the share of the steps that are done: (1 - x) / (1 - warmup), or 0 beyond t_total, for
    "warmup_linear"; 1 for "warmup_constant"; (1 + cos(pi * x)) / 2 for "warmup_cosine";
    sqrt(1 - x), or 0 beyond t_total, for "warmup_poly".

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        warmup: the share of t_total, a number from 0 to below 1; -1 is 0.
        t_total: the number of steps, or -1, for which the factor is always 1.
        schedule: one of those above.
        b1, b2: numbers from 0 to below 1.
        e, weight_decay: numbers from 0.
        max_grad_norm: the global norm to which gradients are clipped, or -1, which clips nothing.
        **others: name, clipnorm, clipvalue, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedBertAdam of Ascend's Apex, which clips by the norm of all
        gradients of a dtype, where pytorch-pretrained-bert's BertAdam clips each one.
    """

    def __init__(
        self,
        lr: Any,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.99,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = -1,
        **others: Any,
    ) -> None:
        if schedule not in _SCHEDULES:
            raise ValueError(
                f"schedule: got {_errors.got(schedule)}, expected one of {', '.join(_SCHEDULES)}"
                + _errors.did_you_mean(str(schedule), _SCHEDULES)
            )
        if "global_clipnorm" in others and others["global_clipnorm"] is not None:
            raise ValueError("global_clipnorm: got a number, expected max_grad_norm in its place")
        own = {
            "warmup": -1 if warmup == -1 else arguments.number("warmup", warmup, 0.0, 1.0),
            "t_total": -1 if t_total == -1 else arguments.number("t_total", t_total, 1.0),
            "schedule": schedule,
            "b1": arguments.number("b1", b1, 0.0, 1.0),
            "b2": arguments.number("b2", b2, 0.0, 1.0),
            "e": arguments.number("e", e),
            "weight_decay": arguments.number("weight_decay", weight_decay),
            "max_grad_norm": -1
            if max_grad_norm == -1
            else arguments.number("max_grad_norm", max_grad_norm, is_open=True),
        }
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def needs_norm(self) -> bool:
        return self.options.max_grad_norm > 0

    def factor_of_norm(self, norm: tf.Tensor) -> tf.Tensor:
        return tf.minimum(self.options.max_grad_norm / (norm + 1e-6), 1.0)

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        options = self.options
        if options.t_total != -1:
            warmup, done = max(options.warmup, 0.0), steps / options.t_total
            after = _SCHEDULES[options.schedule](done, warmup)
            lr *= tf.where(done < warmup, done / warmup, after) if warmup else after
        return {
            "lr": lr,
            "eps": tf.constant(options.e, tf.float64),
            "beta1": tf.constant(rounded(options.b1, dtype), tf.float64),
            "beta2": tf.constant(rounded(options.b2, dtype), tf.float64),
            "kept": 1.0 - lr * options.weight_decay,
        }

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        if self.options.weight_decay:
            target.assign(target.read_value() * numbers["kept"])
        apply_adam(target, part, gradient, numbers)

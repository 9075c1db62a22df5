"""NpuFusedAdamP: Adam without the steps that only make scale-invariant weights grow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.adam import rounded
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part


@registered
class NpuFusedAdamP(FusedOptimizer):
    """AdamP: a step of Adam, without its radial part for weights that do not depend on their norm.

    A variable counts as scale-invariant if it has two or more axes and its gradient is nearly
    orthogonal to it: for each unit of the last axis, or else for the whole variable, the largest
    absolute cosine of gradient and variable is below delta / sqrt(elements of a unit). The weight
    decay of such a variable is multiplied by wd_ratio.

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        betas: two numbers from 0 to below 1.
        eps, weight_decay: numbers from 0; the weight decay is as AdamW's.
        delta, wd_ratio: numbers from 0.
        nesterov: whether the step is of betas[0] * exp_avg + (1 - betas[0]) * gradient.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedAdamP of Ascend's Apex; https://arxiv.org/abs/2006.08217. The
        units are the first axis of torch's weights, and the last of Keras'.
    """

    def __init__(
        self,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        delta: float = 0.1,
        wd_ratio: float = 0.1,
        nesterov: bool = False,
        **others: Any,
    ) -> None:
        own = {
            "betas": arguments.pair_of_betas(betas),
            "eps": arguments.number("eps", eps),
            "weight_decay": arguments.number("weight_decay", weight_decay),
            "delta": arguments.number("delta", delta),
            "wd_ratio": arguments.number("wd_ratio", wd_ratio),
            "nesterov": arguments.flag("nesterov", nesterov),
        }
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def reads_values(self) -> bool:
        return True

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        beta1, beta2 = (
            tf.constant(rounded(beta, dtype), tf.float64) for beta in self.options.betas
        )
        return {
            "lr": lr / (1.0 - beta1 ** (steps + 1.0)),
            "root": tf.sqrt(1.0 - beta2 ** (steps + 1.0)),
            "beta1": beta1,
            "beta2": beta2,
            "rest1": 1.0 - beta1,
            "rest2": 1.0 - beta2,
            "decay": lr * self.options.weight_decay,
        }

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        slots, beta1, rest1 = part.slots, numbers["beta1"], numbers["rest1"]
        slots["exp_avg"].assign(beta1 * slots["exp_avg"].read_value() + rest1 * gradient)
        squares = numbers["rest2"] * tf.square(gradient)
        slots["exp_avg_sq"].assign(numbers["beta2"] * slots["exp_avg_sq"].read_value() + squares)
        step = slots["exp_avg"].read_value()
        if self.options.nesterov:
            step = beta1 * step + rest1 * gradient
        step /= tf.sqrt(slots["exp_avg_sq"].read_value()) / numbers["root"] + self.options.eps
        values = target.read_value()
        projected = [
            self._projected(*each)
            for each in zip(part.unpacked(values), part.unpacked(gradient), part.unpacked(step))
        ]
        step = part.packed([each for each, _ in projected])
        if self.options.weight_decay:
            ratios = part.spread([ratio for _, ratio in projected])
            values *= 1.0 - numbers["decay"] * ratios
        target.assign(values - numbers["lr"] * step)

    def _projected(
        self, values: tf.Tensor, gradient: tf.Tensor, step: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The step, without its radial part for scale-invariant weights, and the decay's factor."""
        one = tf.ones([], step.dtype)
        if values.shape.rank < 2:
            return step, one
        units, ratio, is_open = step, one, tf.constant(True)
        count = values.shape.num_elements()
        for axes in (list(range(values.shape.rank - 1)), list(range(values.shape.rank))):
            elements = count // (values.shape[-1] if len(axes) < values.shape.rank else 1)
            norm = _norm(values, axes) + self.options.eps
            both = (_norm(gradient, axes) + self.options.eps) * norm
            cosine = tf.abs(tf.reduce_sum(values * gradient, axes, keepdims=True)) / both
            is_small = tf.reduce_max(cosine) < self.options.delta / math.sqrt(elements)
            unit = values / norm
            without = step - unit * tf.reduce_sum(unit * step, axes, keepdims=True)
            applies = is_open & is_small
            units = tf.where(applies, without, units)
            ratio = tf.where(applies, self.options.wd_ratio * one, ratio)
            is_open &= ~is_small
        return units, ratio


def _norm(tensor: tf.Tensor, axes: list[int]) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(tf.square(tensor), axes, keepdims=True))

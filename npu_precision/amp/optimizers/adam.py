"""NpuFusedAdam and NpuFusedAdamW: torch's Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part


def rounded(value: float, dtype: tf.DType) -> float:
    """Rounds the value to the dtype, as TensorFlow's op does."""
    return float(dtype.as_numpy_dtype(value))


def apply_adam(
    target: Any, part: Part, gradient: tf.Tensor, numbers: Mapping[str, tf.Tensor]
) -> None:
    """TensorFlow's op, without its bias correction.

    Args:
        target: the variable.
        part: has the slots exp_avg and exp_avg_sq, and max_exp_avg_sq with AMSGrad.
        gradient: the gradient.
        numbers: lr and eps, with the bias correction in them, beta1 and beta2.
    """
    slots = part.slots
    given = {
        "var": target.handle,
        "m": slots["exp_avg"].handle,
        "v": slots["exp_avg_sq"].handle,
        "beta1_power": tf.zeros([], part.dtype),
        "beta2_power": tf.zeros([], part.dtype),
        "lr": numbers["lr"],
        "beta1": numbers["beta1"],
        "beta2": numbers["beta2"],
        "epsilon": numbers["eps"],
        "grad": gradient,
    }
    if "max_exp_avg_sq" in slots:
        vhat = slots["max_exp_avg_sq"].handle
        tf.raw_ops.ResourceApplyAdamWithAmsgrad(vhat=vhat, **given)
    else:
        tf.raw_ops.ResourceApplyAdam(**given)


class _Adam(FusedOptimizer):
    """The common part of Adam and AdamW."""

    def __init__(
        self,
        lr: Any,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        amsgrad: bool,
        others: Mapping[str, Any],
    ) -> None:
        own = {
            "betas": arguments.pair_of_betas(betas),
            "eps": arguments.number("eps", eps),
            "weight_decay": arguments.number("weight_decay", weight_decay),
            "amsgrad": arguments.flag("amsgrad", amsgrad),
        }
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        names = ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if self.options.amsgrad else [])]
        return dict.fromkeys(names, 0.0)

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        beta1, beta2 = (
            tf.constant(rounded(beta, dtype), tf.float64) for beta in self.options.betas
        )
        # In float64, because 1 - 0.999 has few digits left in float32. The op adds eps to the root
        # before the bias correction.
        first = 1.0 - beta1 ** (steps + 1.0)
        second = tf.sqrt(1.0 - beta2 ** (steps + 1.0))
        return {
            "lr": lr * second / first,
            "eps": self.options.eps * second,
            "beta1": beta1,
            "beta2": beta2,
            "kept": 1.0 - lr * self.options.weight_decay,
        }


@registered
class NpuFusedAdam(_Adam):
    """Adam as torch has it.

        gradient += weight_decay * variable
        exp_avg = betas[0] * exp_avg + (1 - betas[0]) * gradient
        exp_avg_sq = betas[1] * exp_avg_sq + (1 - betas[1]) * gradient^2
        m, v = exp_avg / (1 - betas[0]^step), exp_avg_sq / (1 - betas[1]^step)
        variable -= lr * m / (sqrt(v) + eps)

    Keras' own Adam adds its epsilon to the root before the bias correction.

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        betas: two numbers from 0 to below 1.
        eps, weight_decay: numbers from 0.
        amsgrad: whether to use the largest exp_avg_sq so far.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedAdam of Ascend's Apex; torch.optim.Adam.
    """

    def __init__(
        self,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, amsgrad, others)

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        gradient = self.decayed(gradient, target)
        apply_adam(target, part, gradient, numbers)


@registered
class NpuFusedAdamW(_Adam):
    """AdamW as torch has it: Adam, where the variable is first multiplied by 1 - lr * weight_decay.

    Args:
        lr, betas, eps, amsgrad, **others: as for NpuFusedAdam.
        weight_decay: a number from 0.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedAdamW of Ascend's Apex; torch.optim.AdamW.
    """

    def __init__(
        self,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **others: Any,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay, amsgrad, others)

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        if self.options.weight_decay:
            target.assign(target.read_value() * numbers["kept"])
        apply_adam(target, part, gradient, numbers)

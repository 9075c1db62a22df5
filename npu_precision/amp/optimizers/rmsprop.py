"""NpuFusedRMSprop and NpuFusedRMSpropTF: torch's RMSprop, and timm's, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.fused_optimizer import FusedOptimizer, registered
from npu_precision.amp.optimizers.parts import Part


def _checked(
    alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool
) -> dict[str, Any]:
    return {
        "alpha": arguments.number("alpha", alpha, 0.0, 1.0),
        "eps": arguments.number("eps", eps),
        "weight_decay": arguments.number("weight_decay", weight_decay),
        "momentum": arguments.number("momentum", momentum),
        "centered": arguments.flag("centered", centered),
    }


def _mean_square(part: Part, gradient: tf.Tensor, alpha: float, centered: bool) -> tf.Tensor:
    """Updates the moving averages; returns the mean square, less the squared mean if centered."""
    square_avg, share = part.slots["square_avg"], 1.0 - alpha
    square_avg.assign(alpha * square_avg.read_value() + share * tf.square(gradient))
    mean_square = square_avg.read_value()
    if centered:
        grad_avg = part.slots["grad_avg"]
        grad_avg.assign(alpha * grad_avg.read_value() + share * gradient)
        mean_square -= tf.square(grad_avg.read_value())
    return mean_square


@registered
class NpuFusedRMSprop(FusedOptimizer):
    """RMSprop as torch has it: eps is added to the root.

        gradient += weight_decay * variable
        square_avg = alpha * square_avg + (1 - alpha) * gradient^2
        step = gradient / (sqrt(square_avg) + eps)
        momentum_buffer = momentum * momentum_buffer + step  # with a momentum
        variable -= lr * (momentum_buffer if momentum else step)

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        alpha: a number from 0 to below 1.
        eps, weight_decay, momentum: numbers from 0.
        centered: whether the root is of square_avg less the square of the gradient's average.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedRMSprop of Ascend's Apex; torch.optim.RMSprop.
    """

    def __init__(
        self,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        **others: Any,
    ) -> None:
        own = _checked(alpha, eps, weight_decay, momentum, centered)
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        more = {"momentum_buffer": self.options.momentum, "grad_avg": self.options.centered}
        return dict.fromkeys(["square_avg", *(name for name, used in more.items() if used)], 0.0)

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        options = self.options
        gradient = self.decayed(gradient, target)
        # TensorFlow's op adds eps below the root.
        mean_square = _mean_square(part, gradient, options.alpha, options.centered)
        step = gradient / (tf.sqrt(mean_square) + options.eps)
        if options.momentum:
            buffer = part.slots["momentum_buffer"]
            buffer.assign(options.momentum * buffer.read_value() + step)
            step = buffer.read_value()
        tf.raw_ops.ResourceApplyGradientDescent(var=target.handle, alpha=numbers["lr"], delta=step)


@registered
class NpuFusedRMSpropTF(FusedOptimizer):
    """RMSprop as TensorFlow 1 has it: eps is added below the root, and square_avg begins at 1.

        gradient += weight_decay * variable
        square_avg += (1 - alpha) * (gradient^2 - square_avg)
        step = gradient / sqrt(square_avg + eps)
        momentum_buffer = momentum * momentum_buffer + lr * step
        variable -= momentum_buffer

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        alpha: a number from 0 to below 1.
        eps, weight_decay, momentum: numbers from 0.
        centered: whether the root is of square_avg less the square of the gradient's average.
        decoupled_decay: whether the variable is first multiplied by 1 - lr * weight_decay, instead
            of adding to the gradient.
        lr_in_momentum: False leaves lr out of the momentum_buffer, and multiplies by it afterwards.
        **others: name, clipnorm, clipvalue, global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError, TypeError, RuntimeError: as FusedOptimizer.

    Source: apex.optimizers.NpuFusedRMSpropTF of Ascend's Apex; timm.optim.RMSpropTF.
    """

    def __init__(
        self,
        lr: Any = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
        **others: Any,
    ) -> None:
        own = _checked(alpha, eps, weight_decay, momentum, centered)
        own["decoupled_decay"] = arguments.flag("decoupled_decay", decoupled_decay)
        own["lr_in_momentum"] = arguments.flag("lr_in_momentum", lr_in_momentum)
        super().__init__(lr, own, others)

    def slot_values(self) -> dict[str, float]:
        more = {"grad_avg": 0.0} if self.options.centered else {}
        return {"square_avg": 1.0, "momentum_buffer": 0.0, **more}

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        return {"lr": lr, "kept": 1.0 - lr * self.options.weight_decay}

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        options, slots = self.options, part.slots
        if options.weight_decay and options.decoupled_decay:
            target.assign(target.read_value() * numbers["kept"])
        else:
            gradient = self.decayed(gradient, target)
        if options.momentum and not options.lr_in_momentum:
            mean_square = _mean_square(part, gradient, options.alpha, options.centered)
            step = gradient * tf.math.rsqrt(mean_square + options.eps)
            buffer = slots["momentum_buffer"]
            buffer.assign(options.momentum * buffer.read_value() + step)
            tf.raw_ops.ResourceApplyGradientDescent(
                var=target.handle, alpha=numbers["lr"], delta=buffer.read_value()
            )
            return
        given = {
            "var": target.handle,
            "ms": slots["square_avg"].handle,
            "mom": slots["momentum_buffer"].handle,
            "lr": numbers["lr"],
            "rho": tf.constant(options.alpha, part.dtype),
            "momentum": tf.constant(options.momentum, part.dtype),
            "epsilon": tf.constant(options.eps, part.dtype),
            "grad": gradient,
        }
        if options.centered:
            tf.raw_ops.ResourceApplyCenteredRMSProp(mg=slots["grad_avg"].handle, **given)
        else:
            tf.raw_ops.ResourceApplyRMSProp(**given)

"""NpuLossScaleOptimizer: Keras' LossScaleOptimizer, which also skips steps that saturate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat, scope
from npu_precision.hccl import groups, hccl_ops
from npu_precision.loss_scaling import gradients, replicas

__all__ = ["NpuLossScaleOptimizer"]


class NpuLossScaleOptimizer:
    """A tf.keras.mixed_precision.LossScaleOptimizer that also detects overflows that leave no
    infinity.

    An emulated Ascend 910 saturates. Steps with saturated values are skipped, as steps with
    infinite gradients are. If one of several ranks, or replicas of a strategy, skips a step, all
    do. The product of the loss and the scale is computed in float32, whatever the precision mode.

    It has all attributes and methods of TensorFlow's Keras optimizer. In fit() it scales and
    unscales by itself. A custom training loop calls it:

        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(compute_loss(model(x), y))
        grads = tape.gradient(loss, model.trainable_variables)
        grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    Args:
        inner_optimizer: a Keras optimizer.
        dynamic: whether the scale changes: it doubles after dynamic_growth_steps finite steps, and
            is halved by each that is not.
        initial_scale: the first scale, 2 ** 15 by default; without `dynamic` it must be given.
        dynamic_growth_steps: 2000 by default; only with `dynamic`.

    Raises:
        ValueError, TypeError: as Keras' LossScaleOptimizer.

    Source: npu_device's train.optimizer.NpuLossScaleOptimizer.
    """

    def __new__(
        cls,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
    ) -> Any:
        """Makes Keras' optimizer, whose class depends on the inner optimizer."""
        _check(dynamic, initial_scale, dynamic_growth_steps)
        base = tf.keras.mixed_precision.LossScaleOptimizer
        if _tf_compat.is_keras_3(base):
            made = base(inner_optimizer, initial_scale or 2.0**15, dynamic_growth_steps or 2000)
            methods: Any = _OfKeras3
        else:
            made = base(inner_optimizer, dynamic, initial_scale, dynamic_growth_steps)
            methods = _OfKeras2
        _tf_compat.change_class(made, {}, methods, NpuLossScaleOptimizer)
        made._begin(dynamic)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: __new__ has made it."""


def _check(dynamic: Any, initial_scale: Any, dynamic_growth_steps: Any) -> None:
    """Raises the errors of Keras 2, some of which Keras 3 lacks."""
    if not isinstance(dynamic, bool):
        raise TypeError(f"dynamic: got {dynamic!r} ({type(dynamic).__name__}), expected a bool")
    if not dynamic and initial_scale is None:
        raise ValueError("initial_scale: got None, expected a number, since dynamic is False")
    if not dynamic and dynamic_growth_steps is not None:
        raise ValueError(
            f"dynamic_growth_steps: got {dynamic_growth_steps}, expected None, since dynamic is "
            "False"
        )


class _OfKeras2:
    """The methods of Keras 2, whose minimize() and fit() call them too."""

    def _begin(self, dynamic: bool) -> None:
        """Keras 2 needs no preparation."""

    def get_scaled_loss(self: Any, loss: Any) -> Any:
        self._loss_has_been_scaled = True  # Otherwise Keras warns.
        return _scaled(loss, self.loss_scale)

    def get_unscaled_gradients(self: Any, grads: Iterable[Any]) -> list[Any]:
        self._gradients_have_been_unscaled = True
        return _marked(_unscaled(grads, self.loss_scale))


class _OfKeras3:
    """The methods of Keras 2 that Keras 3 lacks. Its fit() calls scale_loss() and apply()."""

    def _begin(self: Any, dynamic: bool) -> None:
        # Keras would make them in build(). Until then it scales by a constant, which a tf.function
        # traced before would keep.
        made = {
            name: self.add_variable((), initial, dtype, aggregation="none", name=name)
            for name, initial, dtype in (
                ("step_counter", "zeros", "int"),
                ("dynamic_scale", tf.keras.initializers.Constant(self.initial_scale), "float32"),
            )
        }
        # Not by setattr: Keras would track them a second time.
        vars(self).update(made, _made=made, _dynamic=dynamic)
        # Whether get_unscaled_gradients() was called since the last step.
        with tf.init_scope():
            only_first = tf.VariableAggregation.ONLY_FIRST_REPLICA
            vars(self)["_is_unscaled"] = tf.Variable(False, trainable=False, aggregation=only_first)

    def add_variable(self: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        made = vars(self).get("_made", {})
        return made[name] if name in made else super().add_variable(*args, name=name, **kwargs)  # type: ignore[misc]

    @property
    def dynamic(self: Any) -> bool:
        return self._dynamic

    @property
    def loss_scale(self: Any) -> tf.Tensor:
        return tf.convert_to_tensor(self.dynamic_scale)

    @property
    def dynamic_counter(self: Any) -> Any:
        return self.step_counter if self._dynamic else None

    def scale_loss(self: Any, loss: Any) -> Any:
        return _scaled(loss, self.loss_scale)

    def get_scaled_loss(self: Any, loss: Any) -> Any:
        return self.scale_loss(loss)

    def get_unscaled_gradients(self: Any, grads: Iterable[Any]) -> list[Any]:
        self._is_unscaled.assign(True)
        return _marked(_unscaled(grads, self.loss_scale))

    def apply(self: Any, grads: Iterable[Any], trainable_variables: Any = None) -> None:
        with scope.keep_dtype_scope():
            # Keras divides by the scale, so this reverses get_unscaled_gradients().
            factor = tf.where(self._is_unscaled.read_value(), self.loss_scale, 1.0)
            scaled = [
                gradients.map_values(grad, lambda values: values * tf.cast(factor, values.dtype))
                for grad in grads
            ]
            self._is_unscaled.assign(False)
        super().apply(_marked(scaled), trainable_variables)  # type: ignore[misc]
        if not self._dynamic:
            self.dynamic_scale.assign(self.initial_scale)


def _scaled(loss: Any, scale: tf.Tensor) -> Any:
    """Multiplies the loss, which may be a function, by the scale."""
    if callable(loss):
        return lambda: gradients.scaled(_tf_compat.converted(loss)(), scale)
    return gradients.scaled(loss, scale)


def _unscaled(grads: Iterable[Any], scale: tf.Tensor) -> list[Any]:
    with scope.keep_dtype_scope():
        return gradients.unscaled(grads, scale)


def _marked(grads: list[Any]) -> list[Any]:
    """Returns the gradients, with a NaN in the first if a rank or replica has to skip the step."""
    first = next((index for index, grad in enumerate(grads) if grad is not None), None)
    if first is None:
        return grads
    with scope.keep_dtype_scope():
        # Keras 3 lets the first replica of a strategy decide for all.
        finite = replicas.all_true(gradients.all_finite(grads))
        if groups.find().size > 1 and not tf.distribute.has_strategy():
            skips = hccl_ops.allreduce(tf.cast(tf.logical_not(finite), tf.float32), "sum")
            finite = tf.equal(skips, 0.0)
        added = tf.where(finite, 0.0, math.nan)
        marked = gradients.map_values(
            grads[first], lambda values: values + tf.cast(added, values.dtype)
        )
    return [*grads[:first], marked, *grads[first + 1 :]]

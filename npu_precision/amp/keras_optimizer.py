"""What initialize() makes of an optimizer of Keras: its class gets loss scaling into its steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat, scope
from npu_precision.loss_scaling import gradients
from npu_precision.loss_scaling.made_steps import make_or_skip, refuse_replicas
from npu_precision.loss_scaling.observed_gradients import observed
from npu_precision.loss_scaling.optimizer_rounds import GivenGradients, check
from npu_precision.loss_scaling.variables import LossScaleVariables

_ATTRIBUTE = "npu_precision_losses"


class KerasLosses(tf.Module):
    """The losses that one optimizer minimizes: what was scaled, unscaled and checked of each.

    In variables, since the calls may be in several tf.functions, each traced once and run often.

    Args:
        scales: of each loss.
        combine_grad: whether gradients are unscaled and checked in one buffer per dtype.

    Raises:
        RuntimeError: made in the graph of a session.
    """

    def __init__(self, scales: Sequence[LossScaleVariables], combine_grad: bool) -> None:
        super().__init__()
        self.scales = list(scales)
        self._combine_grad = combine_grad
        self._given = GivenGradients()
        # Whose they are, once they are added to it.
        self.optimizer: Callable[[], Any] = lambda: None
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    "amp takes Keras' optimizers in eager code and tf.function; in the graph of a "
                    "session, give it an optimizer of tf.compat.v1.train"
                )
            for scale in scales:
                scale.scale()  # makes its variables
            self._rounds = [_Round() for _ in scales]
            self.skipped_steps = tf.Variable(0, False, dtype=tf.int64, name="skipped_steps")

    @property
    def num_losses(self) -> int:
        """How many."""
        return len(self.scales)

    def scaled(self, loss: Any, loss_id: int) -> tf.Tensor:
        """The loss times the scale of this one."""
        scale = self.scales[loss_id].scale()
        self._rounds[loss_id].begin(scale)
        return gradients.scaled(loss, scale)

    def unscaled(self, grads: Sequence[Any], loss_id: int) -> list[Any]:
        """The gradients over the scale that the loss was multiplied by."""
        round_ = self._rounds[loss_id]
        number = loss_id if self.num_losses > 1 else None
        with scope.keep_dtype_scope():
            used = round_.scale.read_value()
        given, grads = grads, observed(grads, used, self.optimizer(), number)
        message = f"loss {loss_id} was not scaled since its gradients were: call scale_loss()"
        with tf.control_dependencies(
            [check(round_.is_scaled.read_value(), message)]
        ), scope.keep_dtype_scope():
            result, finite = gradients.unscaled_and_checked(grads, used, self._combine_grad)
            round_.check(finite)
        self._given.remember(given)
        return result

    def step(
        self, optimizer: Any, pairs: Sequence[Any], apply: Callable[[list[Any]], Any]
    ) -> tf.Tensor:
        """Applies the gradients if all are finite, and adjusts the scales; whether it did."""
        refuse_replicas("amp")
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        scaled = tf.stack([round_.is_scaled.read_value() for round_ in self._rounds])
        checked = tf.stack([round_.is_checked.read_value() for round_ in self._rounds])
        any_checked = tf.reduce_any(checked)
        if self._given.includes(grads, any_checked):
            raise ValueError(
                "grads_and_vars: got the gradients that unscale_gradients() was given; pass on "
                "those that it returned"
            )
        count = tf.reduce_sum(tf.cast(scaled, tf.int32))
        message = (
            f"{type(optimizer).__name__}: expected the gradients of one loss that scale_loss() "
            "scaled; of several, call unscale_gradients() for each"
        )
        is_right = tf.equal(count, tf.where(any_checked, 0, 1))
        with scope.keep_dtype_scope():
            used = tf.stack([round_.scale.read_value() for round_ in self._rounds])
            used = tf.reduce_max(tf.where(scaled, used, tf.zeros_like(used)))
        grads = observed(grads, used, optimizer, None, variables, any_checked)
        with tf.control_dependencies([check(is_right, message)]), scope.keep_dtype_scope():
            divisor = tf.where(any_checked, 1.0, used)
            grads, finite = gradients.unscaled_and_checked(grads, divisor, self._combine_grad)
            for round_ in self._rounds:
                finite = tf.logical_and(finite, round_.was_finite())
        pairs = list(zip(grads, variables))
        made = make_or_skip(
            optimizer,
            variables,
            finite if self.scales[0].strategy.checks_overflow else None,
            lambda: apply(pairs),
            self.skipped_steps,
        )
        self._given = GivenGradients()
        for scale, round_ in zip(self.scales, self._rounds):
            round_.end(scale, finite, len(self.scales) == 1)
        return made


class _Round:
    """What was called for one loss since the last step; in no checkpoint."""

    def __init__(self) -> None:
        self.is_scaled = tf.Variable(False, False, name="is_scaled")
        self.is_checked = tf.Variable(False, False, name="is_checked")
        self.scale = tf.Variable(1.0, False, name="used_scale")
        self._finite = tf.Variable(True, False, name="finite")

    def begin(self, scale: tf.Tensor) -> None:
        """The loss is scaled."""
        self.is_scaled.assign(True)
        self.scale.assign(scale)

    def check(self, finite: tf.Tensor) -> None:
        """Its gradients are unscaled."""
        self.is_scaled.assign(False)
        self.is_checked.assign(True)
        self._finite.assign(tf.logical_and(self._finite, finite))

    def was_finite(self) -> tf.Tensor:
        """Whether the gradients that were unscaled are all finite."""
        return self._finite.read_value()

    def end(self, scale: LossScaleVariables, all_finite: tf.Tensor, is_only: bool) -> None:
        """The step is made or not; adjusts the scale if the step has to do with it."""
        was_scaled = self.is_scaled.read_value()
        took_part = tf.logical_or(was_scaled, self.is_checked.read_value())
        # Of the only loss, what was done to its gradients since they were unscaled counts too.
        is_all = tf.constant(True) if is_only else was_scaled
        finite = tf.where(is_all, all_finite, self._finite.read_value())

        def adjust() -> tf.Tensor:
            scale.update(finite)
            return tf.constant(True)

        tf.cond(took_part, adjust, lambda: tf.constant(False))
        self.is_scaled.assign(False)
        self.is_checked.assign(False)
        self._finite.assign(True)


def losses_of(optimizer: Any) -> KerasLosses | None:
    """Those of an optimizer that initialize() returned, else None."""
    return getattr(optimizer, _ATTRIBUTE, None)


def add_losses(optimizer: Any, losses: KerasLosses) -> Any:
    """The same object, whose steps unscale, check and adjust from now on.

    Its class is one made of its own, by the same name, so that Keras saves it as what it was.
    """
    cls = type(optimizer)
    methods = _methods_with_apply(cls) if hasattr(cls, "apply") else _methods_of_keras_2(cls)
    optimizer.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, **methods})
    losses.optimizer = weakref.ref(optimizer)
    setattr(optimizer, _ATTRIBUTE, losses)
    return optimizer


def _methods_with_apply(cls: Any) -> dict[str, Any]:
    """Keras 3, whose fit() calls scale_loss() and whose apply_gradients() calls apply()."""

    def scale_loss(self: Any, loss: Any) -> Any:
        losses = losses_of(self)
        return cls.scale_loss(self, loss) if losses is None else losses.scaled(loss, 0)

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        losses, grads = losses_of(self), list(grads)
        given = trainable_variables is not None
        variables = list(trainable_variables if given else self._trainable_variables)
        # One of a class like this that has no losses, or a call that Keras refuses.
        if losses is None or len(variables) != len(grads):
            cls.apply(self, grads, trainable_variables)
            return
        losses.step(
            self,
            list(zip(grads, variables)),
            lambda pairs: cls.apply(self, [g for g, _ in pairs], [v for _, v in pairs]),
        )

    return {"scale_loss": scale_loss, "apply": apply}


def _methods_of_keras_2(cls: Any) -> dict[str, Any]:
    """Keras 2, whose fit() calls minimize(), which computes gradients and applies them."""
    name = "compute_gradients" if hasattr(cls, "compute_gradients") else "_compute_gradients"
    compute = getattr(cls, name)

    def compute_gradients(self: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        losses = losses_of(self)
        if losses is None:
            return compute(self, loss, *args, **kwargs)
        if callable(loss):
            return compute(self, lambda: losses.scaled(loss(), 0), *args, **kwargs)
        tape = kwargs.get("tape") or next((a for a in args if isinstance(a, tf.GradientTape)), None)
        if tape is None:
            raise ValueError("tape: got None, expected the tf.GradientTape that computed the loss")
        with tape:
            loss = losses.scaled(loss, 0)
        return compute(self, loss, *args, **kwargs)

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        losses = losses_of(self)
        if losses is None:
            return cls.apply_gradients(self, grads_and_vars, *args, **kwargs)
        losses.step(
            self,
            list(grads_and_vars),
            lambda pairs: cls.apply_gradients(self, pairs, *args, **kwargs),
        )
        return self.iterations

    return {name: compute_gradients, "apply_gradients": apply_gradients}


def is_keras(optimizer: Any) -> bool:
    """Whether it has what an optimizer of Keras has."""
    return hasattr(optimizer, "apply_gradients") and hasattr(optimizer, "iterations")


def check_kind(optimizer: Any) -> None:
    """Raises ValueError unless it is an optimizer of TF1 or of Keras that scales no loss yet."""
    is_tf1 = isinstance(optimizer, _tf_compat.tf1.train.Optimizer)
    if not is_tf1 and not is_keras(optimizer):
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras or a "
            "tf.compat.v1.train.Optimizer, or a list of them"
        )
    if _tf_compat.keras_computes_in_float16():
        raise ValueError(
            "Keras' global policy is mixed_float16, with which compile() scales the loss too: set "
            "it to float32, and let amp lower what it may, or do without amp"
        )
    if losses_of(optimizer) is not None or _tf_compat.scales_loss(optimizer):
        raise ValueError(
            f"optimizer: got {type(optimizer).__name__}, which scales the loss already"
        )

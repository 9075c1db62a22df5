"""Keras optimizers under amp: a subclass whose steps unscale, check and adjust the scale."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _errors, _tf_compat, scope
from npu_precision.amp.shared_losses import SharedLosses
from npu_precision.loss_scaling import arguments, gradients, replicas
from npu_precision.loss_scaling.arguments import LOSSES
from npu_precision.loss_scaling.conditional_step import packed_pairs, step_if
from npu_precision.loss_scaling.gradients import summed, unscaled_and_agreed
from npu_precision.loss_scaling.observed_gradients import observed
from npu_precision.loss_scaling.rounds import (
    AMP_KERAS,
    AMP_KERAS_STEP,
    SCALED_AFTER_UNSCALING,
    Round,
    Rounds,
    Stage,
    check,
)
from npu_precision.loss_scaling.strategies import NoLossScale
from npu_precision.loss_scaling.variables import LossScaleVariables

_LOGGER = logging.getLogger("npu_precision")


class KerasLosses(tf.Module):
    """The losses that one optimizer minimizes, each with its scale and its stage in the round.

    Args:
        scales: a scale per loss.
        combine_grad: whether gradients are unscaled and checked in one buffer per dtype.
        combine_ddp: whether a step adds up the gradients of all replicas before it unscales them.
        shared: the state of losses that several optimizers with these scales share.

    Raises:
        RuntimeError: made in the graph of a session.
    """

    def __init__(
        self,
        scales: Sequence[LossScaleVariables],
        combine_grad: bool,
        combine_ddp: bool,
        shared: SharedLosses,
    ) -> None:
        super().__init__()
        arguments.watch_tapes()
        self.scales = list(scales)
        self._scales_losses = not isinstance(scales[0].strategy, NoLossScale)
        self._combine_grad, self._combine_ddp = combine_grad, combine_ddp
        # Returns the variables of the last step; a list itself would be in checkpoints.
        self.trained: Callable[[], list[Any]] = lambda: []
        # A weak reference to the optimizer, once add_losses() has set it.
        self.optimizer: Callable[[], Any] = lambda: None
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    "amp takes Keras' optimizers in eager code and tf.function; in the graph of a "
                    "session, give it an optimizer of tf.compat.v1.train"
                )
            self._rounds = Rounds(AMP_KERAS)
            self._shares = shared.join()
            for loss_id, scale in enumerate(scales):
                scale.scale()  # makes its variables
                self._round_of(loss_id)
            self.skipped_steps = tf.Variable(0, False, dtype=tf.int64, name="skipped_steps")

    def begin(self, loss_id: int, optimizers: int) -> None:
        """Records that the loss is scaled next, for so many optimizers. It may adjust the scale."""
        replicas.once(lambda: self._shares[loss_id].begin(optimizers))

    def scaled(self, loss: Any, loss_id: int) -> tf.Tensor:
        """Multiplies the loss by its scale, after begin() for all optimizers that share it."""
        if self._scales_losses:
            arguments.note_given(loss, self)
        scale, round_ = self.scales[loss_id].scale(), self._round_of(loss_id)

        def note(scale: tf.Tensor) -> None:
            round_.enter(Stage.SCALED)
            round_.scale.assign(scale)

        replicas.once(note, scale)
        return gradients.scaled(loss, scale)

    def unscaled(self, grads: Sequence[Any], loss_id: int) -> list[Any]:
        """Divides the gradients by the scale that their loss was multiplied by."""
        if any(grad is not None for grad in grads):  # One of several losses may reach no variable.
            arguments.check_gradients(grads, self, "scale_loss")
        round_ = self._round_of(loss_id)
        number = loss_id if len(self.scales) > 1 else None
        with scope.keep_dtype_scope():
            used = round_.scale.read_value()
        given, grads = grads, observed(grads, used, self.optimizer(), number)
        may_unscale = replicas.once(round_.may_enter, Stage.UNSCALED)
        with tf.control_dependencies(may_unscale), scope.keep_dtype_scope():
            result, finite = unscaled_and_agreed(grads, used, self._combine_grad, None)
            replicas.once(round_.enter, Stage.UNSCALED, finite)
            replicas.once(self._shares[loss_id].note, finite)
        round_.given.remember(given)
        return result

    def step(
        self, optimizer: Any, pairs: Sequence[Any], apply: Callable[[list[Any]], Any]
    ) -> tf.Tensor:
        """Applies the gradients if all are finite; adjusts the scales. Returns whether it did."""
        replicas.refuse_strategy("amp")
        _refuse_mixed_float16()  # The policy may have been set since.
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        arguments.check_gradients(grads, self, "scale_loss")
        self.trained = lambda: variables
        if any(tf.as_dtype(variable.dtype) == tf.float16 for variable in variables):
            warn_of_float16(optimizer, "its variables are")
        rounds = [self._round_of(loss_id) for loss_id in range(len(self.scales))]
        scaled = tf.stack([round_.is_in(Stage.SCALED) for round_ in rounds])
        is_unscaled = self._rounds.has_checks.read_value()
        if any(round_.was_given(grads) for round_ in rounds):
            raise ValueError(SCALED_AFTER_UNSCALING.format(call="unscale_gradients"))
        count = tf.reduce_sum(tf.cast(scaled, tf.int32))
        message = AMP_KERAS_STEP.format(subject=type(optimizer).__name__)
        is_right = tf.equal(count, _tf_compat.where(is_unscaled, 0, 1))
        may_step = replicas.once(lambda is_right: check(is_right, message), is_right)
        with scope.keep_dtype_scope():
            used = tf.stack([round_.scale.read_value() for round_ in rounds])
            used = tf.reduce_max(_tf_compat.where(scaled, used, tf.zeros_like(used)))
        grads = observed(grads, used, optimizer, None, variables, is_unscaled)
        with tf.control_dependencies([may_step]), scope.keep_dtype_scope():
            divisor = _tf_compat.where(is_unscaled, 1.0, used)
            grads, no_overflow = summed(grads) if self._combine_ddp else (grads, None)
            grads, targets = packed_pairs(optimizer, grads, variables)
            grads, finite = unscaled_and_agreed(grads, divisor, self._combine_grad, no_overflow)
            finite = tf.logical_and(finite, self._rounds.all_finite)
            # If another optimizer of the loss has met an overflow, both skip the step.
            for round_, share in zip(rounds, self._shares.of_losses):
                is_of_none = round_.is_in(Stage.READY)
                finite = tf.logical_and(finite, tf.logical_or(is_of_none, share.was_finite()))
        made = step_if(
            finite if self.scales[0].strategy.checks_overflow else None,
            optimizer,
            list(zip(grads, targets)),
            apply,
            self.skipped_steps,
            are_summed=no_overflow is not None,
        )
        replicas.once(self._end_round, finite)
        return made

    def _end_round(self, all_finite: tf.Tensor) -> None:
        for loss_id in range(len(self.scales)):
            self._end_loss(loss_id, self._round_of(loss_id), all_finite)
        self._rounds.begin()

    def _round_of(self, loss_id: int) -> Round:
        return self._rounds.of(self.scales[loss_id], f"loss {loss_id}")

    def _end_loss(self, loss_id: int, round_: Round, all_finite: tf.Tensor) -> None:
        """Ends this optimizer's part in a loss that took part in the step."""
        # With one loss, an overflow that came after unscaling is its own too.
        is_all = tf.constant(True) if len(self.scales) == 1 else round_.is_in(Stage.SCALED)
        finite = _tf_compat.where(is_all, all_finite, round_.was_finite())
        share = self._shares[loss_id]
        tf.cond(round_.is_in(Stage.READY), lambda: tf.constant(False), lambda: share.end(finite))


def warn_of_float16(optimizer: Any, what: str) -> None:
    """Warns if a Keras optimizer computes its update in float16 with an epsilon too small for it.

    Args:
        optimizer: a Keras optimizer; those of amp.optimizers compute in float32.
        what: why the update is in float16.
    """
    epsilon = getattr(optimizer, "epsilon", None)
    if isinstance(epsilon, float) and epsilon < np.finfo(np.float16).tiny:
        _LOGGER.warning(
            "amp: %s computes its update in float16, as %s, and loses its epsilon %g and the "
            "squares of small gradients: take an optimizer of npu_precision.amp.optimizers, whose "
            "state is in float32",
            type(optimizer).__name__,
            what,
            epsilon,
        )


def losses_of(optimizer: Any) -> KerasLosses | None:
    """The losses of an optimizer that initialize() returned, else None."""
    return getattr(optimizer, LOSSES, None)


def _scaled_alone(losses: KerasLosses, loss: Any) -> tf.Tensor:
    """Loss 0, scaled for this optimizer alone."""
    losses.begin(0, 1)
    return losses.scaled(loss, 0)


def add_losses(optimizer: Any, losses: KerasLosses) -> Any:
    """Changes the optimizer in place: its steps unscale, check and adjust. Returns it."""
    _tf_compat.change_step(optimizer, _step, _scaling)
    losses.optimizer = weakref.ref(optimizer)
    setattr(optimizer, LOSSES, losses)
    return optimizer


def remove_losses(optimizer: Any) -> Any:
    """Reverses add_losses(). Returns the optimizer."""
    _tf_compat.restore_class(optimizer)
    delattr(optimizer, LOSSES)
    return optimizer


def _step(optimizer: Any, pairs: list[Any], apply: Callable[[list[Any]], Any]) -> Any:
    losses = losses_of(optimizer)
    if losses is None:  # A copy of the class without losses.
        return apply(pairs)
    losses.step(optimizer, pairs, apply)
    return optimizer.iterations


def _scaling(optimizer: Any) -> Callable[[Any], tf.Tensor] | None:
    losses = losses_of(optimizer)
    return None if losses is None else functools.partial(_scaled_alone, losses)


def check_kind(optimizer: Any) -> None:
    """Raises ValueError unless it is a TF1 or Keras optimizer that does not scale the loss yet."""
    is_tf1 = isinstance(optimizer, _tf_compat.tf1.train.Optimizer)
    is_keras = hasattr(optimizer, "apply_gradients") and hasattr(optimizer, "iterations")
    if not is_tf1 and not is_keras:
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras or a "
            "tf.compat.v1.train.Optimizer, or a list of them"
        )
    _refuse_mixed_float16()
    if losses_of(optimizer) is not None or _tf_compat.scales_loss(optimizer):
        raise ValueError(
            f"optimizer: got {type(optimizer).__name__}, which scales the loss already"
        )


def _refuse_mixed_float16() -> None:
    if _tf_compat.keras_computes_in_float16():
        raise ValueError(
            "Keras' global policy is mixed_float16, with which compile() scales the loss too: set "
            "it to float32, and let amp lower what it may, or do without amp"
        )

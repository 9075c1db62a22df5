"""Losses of several optimizers, which skip a step together and adjust the scale once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling.variables import LossScaleVariables


class SharedLosses:
    """Records how many optimizers have yet to step for each loss, and whether its gradients were
    finite.

    All optimizers of an initialize() share one. It is not in checkpoints.

    Args:
        scales: the scale of each loss.
    """

    def __init__(self, scales: Sequence[LossScaleVariables]) -> None:
        self._scales = list(scales)
        self._losses: list[_Shared] = []

    def join(self) -> Shares:
        """Returns the shares for one more optimizer. Call it in eager code."""
        if not self._losses:
            self._losses = [_Shared(scale) for scale in self._scales]
        return Shares(self._losses)


class _Shared:
    """One loss, from scale_loss() to the step of the last optimizer that it was given."""

    def __init__(self, scale: LossScaleVariables) -> None:
        self.scale = scale
        self.finite = _variable(True, tf.bool, "shared_finite")
        self._count = _variable(0, tf.int64, "optimizers")
        self._waiting = _variable(0, tf.int64, "waiting")

    def begin(self, count: int) -> None:
        """Begins to count `count` steps. If some steps of the previous count are missing, adjusts
        the scale by the others.

        Call it for all optimizers before the loss is scaled for the first.
        """
        waiting, before = self._waiting.read_value(), self._count.read_value()
        are_some_left = tf.logical_and(waiting > 0, waiting < before)
        tf.cond(are_some_left, self._adjust, lambda: tf.constant(False))
        is_new = tf.logical_or(are_some_left, tf.equal(waiting, 0))
        self._count.assign(tf.constant(count, tf.int64))
        self._waiting.assign(tf.constant(count, tf.int64))
        self.finite.assign(tf.logical_or(is_new, self.finite.read_value()))

    def note(self, finite: tf.Tensor) -> None:
        """Records whether the gradients of one optimizer are finite."""
        self.finite.assign(tf.logical_and(self.finite.read_value(), finite))

    def end(self, finite: tf.Tensor) -> tf.Tensor:
        """Records the step of one optimizer; the last one adjusts the scale."""
        self.note(finite)
        left = tf.maximum(self._waiting.read_value() - 1, 0)
        self._waiting.assign(left)
        return tf.cond(tf.equal(left, 0), self._adjust, lambda: tf.constant(False))

    def _adjust(self) -> tf.Tensor:
        self.scale.update(self.finite.read_value())
        return tf.constant(True)


class Shares:
    """The share of one optimizer in each loss, by loss_id.

    Not a list, which would be in the checkpoints of a tf.Module.
    """

    def __init__(self, losses: Sequence[_Shared]) -> None:
        self.of_losses = [Share(loss) for loss in losses]

    def __getitem__(self, loss_id: int) -> Share:
        return self.of_losses[loss_id]


class Share:
    """The part of one optimizer in a loss, which it may share with others that were given with it.

    An optimizer that was given alone adjusts the scale by itself, even if others use the scale.
    """

    def __init__(self, loss: _Shared) -> None:
        self._loss = loss
        self._is_shared = _variable(False, tf.bool, "is_shared")

    def begin(self, count: int) -> None:
        """Records that the loss is scaled for so many optimizers."""
        self._is_shared.assign(count > 1)
        if count > 1:
            self._loss.begin(count)

    def note(self, finite: tf.Tensor) -> None:
        """Records whether this optimizer's unscaled gradients are finite, a scalar bool tensor."""
        self._loss.note(tf.logical_or(finite, tf.logical_not(self._is_shared.read_value())))

    def was_finite(self) -> tf.Tensor:
        """Whether all gradients of this loss that optimizers have checked so far are finite."""
        is_alone = tf.logical_not(self._is_shared.read_value())
        return tf.logical_or(is_alone, self._loss.finite.read_value())

    def end(self, finite: tf.Tensor) -> tf.Tensor:
        """Records this optimizer's step, and adjusts the scale unless others have yet to step."""

        def adjust() -> tf.Tensor:
            self._loss.scale.update(finite)
            return tf.constant(True)

        return tf.cond(self._is_shared.read_value(), lambda: self._loss.end(finite), adjust)


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)

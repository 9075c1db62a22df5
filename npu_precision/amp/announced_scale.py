"""A loss scale that prints when a step overflows, from within graphs too."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling.variables import LossScaleVariables
from npu_precision.session import functions


class AnnouncedScale(LossScaleVariables):
    """Prints a line for each step that an overflow skips, with the new scale.

    Functions that XLA compiles cannot print, and do not.

    Args:
        strategy: as for LossScaleVariables.
        loss_id: the number of the loss, for the line.
    """

    def __init__(self, strategy: Any, loss_id: int) -> None:
        super().__init__(strategy)
        self._loss_id = loss_id

    def update(self, all_finite: tf.Tensor) -> tf.Operation | None:
        """Adjusts the state after a step, and prints; returns the op that does so."""
        updated = super().update(all_finite)
        if not self.strategy.checks_overflow or functions.is_compiled():
            return updated
        with tf.control_dependencies([] if updated is None else [updated]):
            said = tf.cond(all_finite, lambda: tf.constant(False), self._say)
        return tf.group(said) if updated is None else tf.group(updated, said)

    def _say(self) -> tf.Tensor:
        scale = self.scale()
        text = f"npu_precision.amp: gradient overflow, step skipped; loss scaler {self._loss_id}"
        printed = tf.print(text, "scales by", scale, output_stream=sys.stdout)
        with tf.control_dependencies([] if printed is None else [printed]):
            return tf.constant(True)

"""What initialize() makes of an optimizer of TF1: one or several losses, each with its scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision import scope
from npu_precision.loss_scaling import gradients
from npu_precision.loss_scaling.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_precision.loss_scaling.observed_gradients import observed
from npu_precision.loss_scaling.variables import LossScaleVariables

# Of a tensor that scale_loss() made.
_LOSS_ID = "_npu_precision_loss_id"


class SessionOptimizer(NPULossScaleOptimizer):
    """An NPULossScaleOptimizer that knows several losses.

    compute_gradients() scales a loss that scale_loss() has not, by the scale of loss 0, and
    unscales the gradients; apply_gradients() skips the step if one of them is not finite, and
    adjusts the scale of each loss by the gradients of that loss.

    Args:
        opt: a tf.compat.v1.train.Optimizer.
        scales: of each loss.
        combine_grad: whether gradients are unscaled and checked in one buffer per dtype.

    Raises:
        ValueError: as NPULossScaleOptimizer.
    """

    def __init__(self, opt: Any, scales: Sequence[LossScaleVariables], combine_grad: bool) -> None:
        self._losses = LossManagers(scales)
        self._combine_grad = combine_grad
        super().__init__(opt, self._losses)

    @property
    def num_losses(self) -> int:
        """How many."""
        return len(self._losses.scales)

    def scaled(self, loss: Any, loss_id: int) -> Any:
        """The loss times the scale of this one."""
        self._losses.current = loss_id
        result = super()._scale_loss(loss)
        setattr(result, _LOSS_ID, loss_id)
        return result

    def unscaled(self, grads: Sequence[Any], loss_id: int) -> list[Any]:
        """The gradients over the scale of this one."""
        self._losses.current = loss_id
        return self._unscale_grads(grads)

    def _scale_loss(self, loss: Any) -> Any:
        loss_id = getattr(loss, _LOSS_ID, None)
        self._losses.current = loss_id or 0
        return super()._scale_loss(loss) if loss_id is None else loss

    def _unscale_grads(self, grads: Any) -> list[Any]:
        scale = self._loss_scale()
        loss_id = self._losses.current if self.num_losses > 1 else None
        grads = observed(grads, scale, self._optimizer, loss_id)
        with scope.keep_dtype_scope():
            unscaled, finite = gradients.unscaled_and_checked(grads, scale, self._combine_grad)
        self._losses.record(finite)
        if self._combine_grad:
            self._loss_scale.remember(unscaled, finite)
        return unscaled


class LossManagers(tf.Module):
    """The scales of all losses, as NPULossScaleOptimizer asks its manager for that of one."""

    def __init__(self, scales: Sequence[LossScaleVariables]) -> None:
        super().__init__()
        self.scales = list(scales)
        self.current = 0
        # Of the gradients that were unscaled since the last step was built.
        self._finite: dict[int, list[tf.Tensor]] = {}

    def get_loss_scale(self) -> tf.Tensor:
        """That of the loss whose turn it is."""
        return self.scales[self.current].scale()

    def get_enable_overflow_check(self) -> bool:
        """Whether a step that overflows is skipped."""
        return self.scales[0].strategy.checks_overflow

    def record(self, finite: tf.Tensor) -> None:
        """Gradients of the loss whose turn it is were checked."""
        self._finite.setdefault(self.current, []).append(finite)

    def update_loss_scale(self, all_finite: tf.Tensor) -> tf.Operation:
        """Adjusts the scales of those losses that the step is made of."""
        finite, self._finite = self._finite, {}
        if tf.distribute.has_strategy():  # each is of one replica
            finite = {loss_id: [] for loss_id in finite}
        if len(finite) <= 1:
            # What was done to the gradients since may have made them infinite.
            finite = {loss_id: [] for loss_id in finite or [0]}
        return tf.group(
            *(
                self.scales[loss_id].update(tf.reduce_all(its) if its else all_finite)
                for loss_id, its in finite.items()
            )
        )

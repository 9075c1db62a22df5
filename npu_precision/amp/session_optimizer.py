"""TF1 optimizers under amp: an NPULossScaleOptimizer for several losses, each with its scale."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _tf_compat, scope
from npu_precision.loss_scaling import gradients, rounds
from npu_precision.loss_scaling.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_precision.loss_scaling.observed_gradients import observed
from npu_precision.loss_scaling.rounds import Stage
from npu_precision.loss_scaling.variables import LossScaleVariables

# The attribute of a scaled loss that holds its optimizer's scales and its loss_id.
_PRODUCT = "_npu_precision_scaled"


class SessionOptimizer(NPULossScaleOptimizer):
    """An NPULossScaleOptimizer that knows several losses.

    compute_gradients() scales the loss, by the scale of loss 0, unless scale_loss() has scaled it;
    then it unscales the gradients. apply_gradients() skips the step if a gradient is not finite,
    and adjusts each scale by the gradients of its loss.

    Args:
        opt: a tf.compat.v1.train.Optimizer.
        scales: a scale per loss.
        combine_grad: whether gradients are unscaled and checked in one buffer per dtype.

    Raises:
        ValueError: as NPULossScaleOptimizer.
    """

    def __init__(self, opt: Any, scales: Sequence[LossScaleVariables], combine_grad: bool) -> None:
        self._losses = LossManagers(scales)
        self._combine_grad = combine_grad
        super().__init__(opt, self._losses)

    @property
    def scales(self) -> list[LossScaleVariables]:
        """The scale of each loss."""
        return self._losses.scales

    @property
    def plain(self) -> Any:
        """The optimizer that was given to initialize()."""
        return self._optimizer

    def scaled(self, loss: Any, loss_id: int) -> Any:
        """Multiplies the loss by its scale."""
        self._losses.current = loss_id
        result = super()._scale_loss(loss)
        setattr(result, _PRODUCT, (self.scales, loss_id))
        self._losses.here().stages[loss_id] = Stage.SCALED
        return result

    def unscaled(self, grads: Sequence[Any], loss_id: int) -> list[Any]:
        """Divides the gradients by the scale of their loss."""
        self._losses.current = loss_id
        return self._unscale_grads(grads)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Applies the gradients as NPULossScaleOptimizer does.

        Raises:
            ValueError: as NPULossScaleOptimizer, or the gradients of a loss are still scaled.
        """
        stages = self._losses.here().stages
        rounds.check_losses(rounds.AMP_SESSION_STEP, stages)
        stages.clear()
        pairs = list(grads_and_vars)
        self._losses.of_step = [grad for grad, _ in pairs]
        return super().apply_gradients(pairs, global_step, name)

    def _scale_loss(self, loss: Any) -> Any:
        if callable(loss):
            return lambda: self._scale_loss(_tf_compat.converted(loss)())
        scales, loss_id = getattr(loss, _PRODUCT, (None, 0))
        if scales is not None and scales != self.scales:
            raise ValueError("loss: it was scaled for an optimizer of another initialize()")
        if scales is None:
            stages = self._losses.here().stages
            rounds.check_losses(rounds.AMP_SESSION_PLAIN_LOSS, stages)
        self._losses.current = loss_id
        return super()._scale_loss(loss) if scales is None else loss

    def _unscale_grads(self, grads: Any) -> list[Any]:
        scale, loss_id = self._loss_scale(), self._losses.current
        grads = observed(grads, scale, self._optimizer, loss_id if len(self.scales) > 1 else None)
        with scope.keep_dtype_scope():
            unscaled, finite = gradients.unscaled_and_checked(grads, scale, self._combine_grad)
        here = self._losses.here()
        here.stages[loss_id] = Stage.UNSCALED
        here.checked.append(_Checked(loss_id, finite, unscaled))
        if self._combine_grad:
            self._loss_scale.remember(unscaled, finite)
        return unscaled


class _Checked(NamedTuple):
    """Unscaled gradients of a loss, and whether they are finite."""

    loss_id: int
    finite: tf.Tensor
    grads: list[Any]


class _Graph:
    """The stages of the losses in one graph, and the gradients that no step has taken yet."""

    def __init__(self) -> None:
        self.stages: dict[int, Stage] = {}
        self.checked: list[_Checked] = []


class LossManagers(tf.Module):
    """One loss-scale manager for all losses, which has the scale of the current loss."""

    def __init__(self, scales: Sequence[LossScaleVariables]) -> None:
        super().__init__()
        self.scales = list(scales)
        self.current = 0
        # The gradients that apply_gradients() was given.
        self.of_step: list[Any] = []
        self._graphs: weakref.WeakKeyDictionary[tf.Graph, _Graph] = weakref.WeakKeyDictionary()

    def here(self) -> _Graph:
        """The stages and gradients in the graph that is being built."""
        return self._graphs.setdefault(tf.compat.v1.get_default_graph(), _Graph())

    def get_loss_scale(self) -> tf.Tensor:
        """The scale of the current loss."""
        return self.scales[self.current].scale()

    def get_enable_overflow_check(self) -> bool:
        """Whether a step that overflows is skipped."""
        return self.scales[0].strategy.checks_overflow

    def update_loss_scale(self, all_finite: tf.Tensor) -> tf.Operation:
        """Adjusts the scales of the losses that the step's gradients come from.

        Args:
            all_finite: whether all gradients of the step are finite, a scalar bool tensor.
        """
        here = self.here()
        is_given = {id(grad) for grad in self.of_step if grad is not None}
        mine = [
            one for one in here.checked if any(id(grad) in is_given for grad in one.grads)
        ] or here.checked  # the script combined gradients, as by a sum
        here.checked = [one for one in here.checked if all(one is not other for other in mine)]
        self.of_step = []
        finite: dict[int, list[tf.Tensor]] = {}
        for one in mine:
            finite.setdefault(one.loss_id, []).append(one.finite)
        # Under a tf.distribute strategy each of `finite` belongs to one replica. With one loss, an
        # overflow that came after unscaling is its own too.
        if tf.distribute.has_strategy() or len(finite) <= 1:
            finite = {loss_id: [all_finite] for loss_id in finite or [0]}
        return tf.group(
            *(self.scales[loss_id].update(tf.reduce_all(its)) for loss_id, its in finite.items())
        )

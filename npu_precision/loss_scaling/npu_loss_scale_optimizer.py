"""NPULossScaleOptimizer: npu_bridge's loss scaling around an optimizer of TF1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat, scope
from npu_precision.loss_scaling import gradients
from npu_precision.loss_scaling.observed_gradients import observed

_MANAGER_METHODS = ("get_loss_scale", "update_loss_scale")
# Scripts fetch whether the step is made by this name.
_STATUS = "overflow_status_reduce_all"


class NPULossScaleOptimizer(_tf_compat.MixedPrecisionLossScaleOptimizer):
    """Multiplies the loss by a scale and divides the gradients by it; skips steps that overflow.

    A step whose gradients are not all finite changes neither variables nor global_step; the
    manager's scale changes. A session may fetch "loss_scale:0", and
    "overflow_status_reduce_all:0", which is True when the step is made.

    Args:
        opt: a tf.compat.v1.train.Optimizer.
        loss_scale_manager: a FixedLossScaleManager or ExponentialUpdateLossScaleManager, or a
            manager of tf.contrib.mixed_precision. Optimizers of one graph may share it.
        is_distributed: accepted, and without effect: under any tf.distribute strategy the
            gradients of all replicas are checked together.

    Raises:
        ValueError: opt is not such an optimizer, or scales the loss already; loss_scale_manager is
            not a manager.

    Source: npu_bridge's NPULossScaleOptimizer.
    """

    def __init__(self, opt: Any, loss_scale_manager: Any, is_distributed: bool = False) -> None:
        del is_distributed
        check_type("opt", opt)
        if isinstance(opt, _tf_compat.MixedPrecisionLossScaleOptimizer):
            raise ValueError(f"opt: got {type(opt).__name__}, which scales the loss already")
        has_methods = all(hasattr(loss_scale_manager, method) for method in _MANAGER_METHODS)
        if not has_methods or isinstance(loss_scale_manager, type):
            raise ValueError(
                f"loss_scale_manager: got {_errors.got(loss_scale_manager)}, expected an "
                "instance of FixedLossScaleManager or ExponentialUpdateLossScaleManager"
            )
        super().__init__(opt, _ManagedLossScale(loss_scale_manager))

    def _doing_dynamic_loss_scaling(self) -> bool:
        # TensorFlow's optimizer checks gradients before it applies them if this is True.
        return self._loss_scale.checks_overflow

    def _scale_loss(self, loss: Any) -> Any:
        scale = self._loss_scale()
        if callable(loss):
            return lambda: gradients.scaled(_tf_compat.converted(loss)(), scale)
        return gradients.scaled(loss, scale)

    def _unscale_grads(self, grads: Any) -> list[Any]:
        scale = self._loss_scale()
        grads = observed(grads, scale, self._optimizer)
        with scope.keep_dtype_scope():
            return gradients.unscaled(grads, scale)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Returns the op that applies the gradients if all are finite, and else skips the step.

        Args:
            grads_and_vars: pairs, as from compute_gradients.
            global_step: a variable to increment with each step that is made, or None.
            name: the name of the op.

        Raises:
            ValueError: a variable is a reference, and TF2's control flow cannot change it.
        """
        pairs = list(grads_and_vars)
        if self._loss_scale.checks_overflow:
            _check_references([variable for _, variable in pairs])
        else:
            with tf.init_scope(), tf.compat.v1.name_scope(None):
                tf.constant(True, name=_STATUS)
        train_op = super().apply_gradients(pairs, global_step, name)
        if train_op is not None:
            _leave_out_branches(tf.compat.v1.get_collection_ref("train_op"), train_op)
        return train_op


def check_type(name: str, optimizer: object) -> None:
    """Raises ValueError unless it is an optimizer of TF1."""
    if not isinstance(optimizer, _tf_compat.tf1.train.Optimizer):
        raise ValueError(
            f"{name}: got {_errors.got(optimizer)}, expected a tf.compat.v1.train.Optimizer; for "
            "Keras' there is npu_precision.GradScaler"
        )


def _check_references(variables: list[Any]) -> None:
    if not tf.compat.v1.control_flow_v2_enabled():
        return
    for variable in variables:
        if variable.dtype != variable.dtype.base_dtype:
            raise ValueError(
                f"grads_and_vars: {variable.name} is a reference variable, and with TF2's control "
                "flow no branch can change it: call tf.compat.v1.disable_v2_behavior() first, or "
                "make it with use_resource=True"
            )


def _leave_out_branches(collection: list[Any], train_op: tf.Operation) -> None:
    """Removes train ops inside branches, which tf.train.import_meta_graph would not find."""
    collection[:] = [op for op in collection if getattr(op, "graph", None) is train_op.graph]
    if train_op not in collection:
        collection.append(train_op)


class _ManagedLossScale(_tf_compat.LossScale):
    """Adapts a manager to the LossScale that TensorFlow's own optimizer takes."""

    def __init__(self, manager: Any) -> None:
        super().__init__()
        self._manager = manager
        self._known: tuple[list[Any], Any] = ([], None)
        check = getattr(manager, "get_enable_overflow_check", None)
        self.checks_overflow = True if check is None else check()
        if isinstance(manager, tf.Module):
            self._track_trackable(manager, "manager")

    def __call__(self) -> tf.Tensor:
        return self._manager.get_loss_scale()

    def remember(self, grads: list[Any], finite: tf.Tensor) -> None:
        """Records whether these are finite, so that update() need not check them again."""
        self._known = (grads, finite)

    def update(self, grads: Any) -> tuple[Any, tf.Tensor]:
        grads, (known, finite) = list(grads), self._known
        with scope.keep_dtype_scope():
            if len(grads) == len(known) and all(a is b for a, b in zip(grads, known)):
                with tf.compat.v1.name_scope(None):
                    finite = tf.identity(finite, name=_STATUS)
            else:
                finite = _finite_everywhere(grads)
        self._known = ([], None)
        return self._manager.update_loss_scale(finite), finite

    def get_config(self) -> dict[str, Any]:
        return {"manager": self._manager}


def _finite_everywhere(grads: list[Any]) -> tf.Tensor:
    """Whether the gradients are finite in every replica, with the name that scripts fetch."""
    if not tf.distribute.has_strategy():
        with tf.compat.v1.name_scope(None):
            return gradients.all_finite(grads, name=_STATUS)
    strategy = tf.distribute.get_strategy()
    # Each of the gradients is a value per replica.
    finite = strategy.extended.call_for_each_replica(
        lambda *here: tf.cast(gradients.all_finite(here), tf.float32), args=tuple(grads)
    )
    count = strategy.reduce(tf.distribute.ReduceOp.SUM, finite, axis=None)
    with tf.compat.v1.name_scope(None):
        return tf.equal(count, strategy.num_replicas_in_sync, name=_STATUS)

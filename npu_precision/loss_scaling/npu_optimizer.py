"""npu_bridge's optimizer wrappers for several devices; with one process, the optimizer itself."""

from __future__ import annotations

import logging
from typing import Any

from npu_precision import _no_effect
from npu_precision.hccl import training
from npu_precision.loss_scaling.npu_loss_scale_optimizer import NPULossScaleOptimizer, check_type

_LOGGER = logging.getLogger("npu_precision")


def NPUOptimizer(
    opt: Any,
    loss_scale_manager: Any = None,
    is_distributed: bool = False,
    is_loss_scale: bool = False,
    is_tailing_optimization: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the optimizer, wrapped in an NPULossScaleOptimizer if is_loss_scale is set.

    Args:
        opt: a tf.compat.v1.train.Optimizer.
        loss_scale_manager: as for NPULossScaleOptimizer.
        is_distributed: whether gradients are averaged over the ranks, where there are several.
        is_loss_scale: whether the loss is scaled.
        is_tailing_optimization: npu_bridge's overlap of gradient exchange; has no effect, as the
            log says.
        name: accepted, and without effect: variables have the names that `opt` gives them.

    Raises:
        ValueError: as NPULossScaleOptimizer; is_loss_scale without a loss_scale_manager.

    Source: npu_bridge's NPUOptimizer, a class there.
    """
    del name
    if is_tailing_optimization:
        _no_effect.name_once("NPUOptimizer", ["is_tailing_optimization"])
    if is_distributed:
        opt = NPUDistributedOptimizer(opt)
    if is_loss_scale:
        if loss_scale_manager is None:
            raise ValueError("loss_scale_manager: got None, and is_loss_scale=True needs one")
        return NPULossScaleOptimizer(opt, loss_scale_manager, is_distributed)
    if loss_scale_manager is not None:
        _LOGGER.warning("NPUOptimizer: loss_scale_manager has no effect without is_loss_scale=True")
    check_type("opt", opt)
    return opt


def NPUDistributedOptimizer(
    optimizer: Any, is_weight_update_sharding: bool = False, name: str | None = None
) -> Any:
    """Returns an optimizer that averages gradients over the ranks; alone, the optimizer as it is.

    Args:
        optimizer: a tf.compat.v1.train.Optimizer.
        is_weight_update_sharding: accepted, and without effect.
        name: accepted, and without effect.

    Raises:
        ValueError: optimizer is not such an optimizer.

    Source: npu_bridge's NPUDistributedOptimizer, a class there.
    """
    del is_weight_update_sharding, name
    check_type("optimizer", optimizer)
    return training.averaging(optimizer)


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Returns an optimizer that averages gradients over the ranks; alone, the optimizer as it is.

    Args:
        optimizer: an optimizer of TF1 or Keras.

    Raises:
        ValueError: it is neither.

    Source: npu_bridge's npu_distributed_optimizer_wrapper.
    """
    return training.averaging(optimizer)


def npu_tf_optimizer(opt: Any) -> Any:
    """Returns the TF1 optimizer as it is, without an exchange, as npu_bridge's does."""
    return opt


def npu_keras_optimizer(opt: Any) -> Any:
    """Returns the Keras optimizer as it is, without an exchange, as npu_bridge's does."""
    return opt

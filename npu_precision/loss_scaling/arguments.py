"""Checks what GradScaler's calls are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat

# The attribute in which an optimizer that amp has changed keeps its losses.
LOSSES = "npu_precision_losses"
_VALUES = "got no gradients; they are values here, which are passed on: {call}"


def gradients(name: str, grads: Iterable[Any] | None) -> list[Any]:
    """The gradients that unscale_() was given, as a list.

    Raises:
        ValueError: they are none.
        TypeError: there are none, as in torch.
    """
    if grads is None:
        raise TypeError(_VALUES.format(call="gradients = scaler.unscale_(optimizer, gradients)"))
    if tf.is_tensor(grads) or not isinstance(grads, Iterable):
        raise ValueError(f"{name}: got {_errors.got(grads)}, expected a list of gradients")
    grads = list(grads)
    for grad in grads:
        if not (grad is None or tf.is_tensor(grad) or isinstance(grad, tf.IndexedSlices)):
            raise ValueError(
                f"{name}: got {_errors.got(grad)} among them, expected tensors, IndexedSlices or "
                "None"
            )
    return grads


def pairs(grads_and_vars: Iterable[Any] | None) -> list[tuple[Any, Any]]:
    """The gradients and variables that step() was given, as a list; raises as gradients()."""
    if grads_and_vars is None:
        raise TypeError(_VALUES.format(call="scaler.step(optimizer, zip(gradients, variables))"))
    result = list(grads_and_vars)
    for pair in result:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"grads_and_vars: got {_errors.got(pair)} among them, expected pairs of a gradient "
                "and a variable"
            )
        if hasattr(pair[0], "assign") and not hasattr(pair[1], "assign"):
            raise ValueError(
                "grads_and_vars: got pairs of a variable and a gradient, expected the gradient "
                "first"
            )
    gradients("grads_and_vars", [grad for grad, _ in result])
    return result


def check_optimizer(optimizer: Any) -> None:
    """Raises ValueError unless it is an optimizer that does not scale the loss yet."""
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras, or a "
            "tf.compat.v1.train.Optimizer"
        )
    if _tf_compat.scales_loss(optimizer) or hasattr(optimizer, LOSSES):
        raise ValueError(
            f"optimizer: got {type(optimizer).__name__}, which scales the loss already"
        )

"""The step of a Keras optimizer as a conditional: made, or skipped and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat


def step_if(
    finite: tf.Tensor | None,
    optimizer: Any,
    variables: Sequence[Any],
    apply: Callable[[], Any],
    skipped_steps: tf.Variable,
) -> tf.Tensor:
    """Makes the step if its gradients are finite; returns whether it did, a scalar bool tensor.

    Args:
        finite: whether to make the step, a scalar bool tensor; None always makes it.
        optimizer: the optimizer that takes the step.
        variables: the variables that the step changes.
        apply: a function that makes the step.
        skipped_steps: a counter of the steps that are not made.
    """

    def make() -> tf.Tensor:
        apply()
        return tf.constant(True)

    def skip() -> tf.Tensor:
        skipped_steps.assign_add(1)
        return tf.constant(False)

    if finite is None:
        return make()
    _tf_compat.build_optimizer(optimizer, variables)
    return tf.cond(finite, make, skip)


def packed_pairs(
    optimizer: Any, grads: Sequence[Any], variables: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The gradients and variables, for apply_gradients().

    An optimizer of amp.optimizers takes the gradients of its small variables in one tensor each,
    so that one op divides and one checks them all.
    """
    if not hasattr(optimizer, "packed"):
        return list(grads), list(variables)
    _tf_compat.build_optimizer(optimizer, variables)
    pairs = optimizer.packed(zip(grads, variables))
    return [grad for grad, _ in pairs], [variable for _, variable in pairs]


def refuse_replicas(what: str) -> None:
    """Raises RuntimeError under a tf.distribute strategy of several replicas."""
    if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise RuntimeError(
            f"{what}: not under a tf.distribute strategy of several replicas: use Keras' "
            "tf.keras.mixed_precision.LossScaleOptimizer there"
        )

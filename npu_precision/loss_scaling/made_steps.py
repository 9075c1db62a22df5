"""Steps of Keras' optimizers that are made or skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat


def make_or_skip(
    optimizer: Any,
    variables: Sequence[Any],
    finite: tf.Tensor | None,
    apply: Callable[[], Any],
    skipped_steps: tf.Variable,
) -> tf.Tensor:
    """Whether the step was made, a scalar bool tensor.

    Args:
        optimizer: whose step it is.
        variables: what it changes.
        finite: whether to make it, a scalar bool tensor; None makes it anyhow.
        apply: makes it.
        skipped_steps: counts those that are not made.
    """
    if finite is None:
        apply()
        return tf.constant(True)
    _tf_compat.build_optimizer(optimizer, variables)

    def make() -> tf.Tensor:
        apply()
        return tf.constant(True)

    def skip() -> tf.Tensor:
        skipped_steps.assign_add(1)
        return tf.constant(False)

    return tf.cond(finite, make, skip)


def refuse_replicas(what: str) -> None:
    """Raises RuntimeError under a tf.distribute strategy of several replicas."""
    if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise RuntimeError(
            f"{what}: not under a tf.distribute strategy of several replicas: use Keras' "
            "tf.keras.mixed_precision.LossScaleOptimizer there"
        )

"""The sum of gradients over all replicas, made once, in place of the optimizer's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.loss_scaling import gradients, replicas


def summed(grads: Sequence[Any]) -> tuple[list[Any], tf.Tensor | None]:
    """Adds up gradients over the replicas, in one buffer per dtype; IndexedSlices are gathered.

    They are still scaled: one that comes out of a Cast from a low type goes straight into the
    buffer, so that lower_collectives finds it, and an overflow in one replica is one in all sums.

    Args:
        grads: dense, IndexedSlices or None, in the same order in each replica.

    Returns:
        The sums, and whether no replica has met an overflow that leaves them finite, a scalar bool
        tensor. Outside of replicas, the gradients as they are, and None.
    """
    grads = list(grads)
    if not replicas.in_replica():
        return grads, None
    overflows = tf.cast(tf.logical_not(gradients.without_overflow_after(grads)), tf.float32)
    parts = [*grads, overflows]
    by_dtype: dict[tf.DType, list[int]] = {}
    for index, part in enumerate(parts):
        if isinstance(part, tf.IndexedSlices):
            (parts[index],) = _tf_compat.sum_over_replicas([part])
        elif part is not None:
            by_dtype.setdefault(part.dtype, []).append(index)
    for indices in by_dtype.values():
        sums = _tf_compat.sum_over_replicas([parts[index] for index in indices])
        for index, each in zip(indices, sums):
            parts[index] = each
    return parts[:-1], tf.equal(parts[-1], 0.0)


def unscaled_and_checked(
    grads: Sequence[Any], scale: tf.Tensor, combined: bool, no_overflow: tf.Tensor | None
) -> tuple[list[Any], tf.Tensor]:
    """Unscales gradients; returns them, and whether those of all replicas are finite.

    Args:
        grads: dense, IndexedSlices or None.
        scale: a scalar float32 tensor.
        combined: whether to work in one flat buffer per dtype, in place of tensor by tensor.
        no_overflow: what summed() returned with them; None of gradients that are not summed.
    """
    if no_overflow is None:
        unscaled, finite = gradients.unscaled_and_checked(grads, scale, combined)
        return unscaled, replicas.all_true(finite)
    # Of sums, which are the same everywhere, no replica has to be asked.
    unscaled, finite = gradients.unscaled_and_checked(grads, scale, combined, is_local=False)
    return unscaled, tf.logical_and(finite, no_overflow)

"""Unscales, checks and adds up gradients (dense, IndexedSlices or None), and scales losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _library, _tf_compat, scope
from npu_precision.loss_scaling import replicas


def scaled(loss: Any, scale: tf.Tensor) -> tf.Tensor:
    """Multiplies the loss by the scale, in the loss's dtype, whatever the precision mode.

    Raises:
        ValueError: the loss is not a floating-point tensor.
    """
    if callable(loss):
        raise ValueError(f"loss: got {_errors.got(loss)}, expected a tensor")
    loss = tf.convert_to_tensor(loss)
    if not loss.dtype.is_floating:
        raise ValueError(f"loss: got a tensor of {loss.dtype.name}, expected one of floats")

    with scope.loss_scale_scope():
        # An extra op that keeps float32 and that Grappler does not fold. By this op, the optimizer
        # finds the gradient of the product, which also multiplies by the scale, and keeps it
        # float32.
        used = tf.abs(tf.compat.v1.placeholder_with_default(scale, []))
        return loss * tf.cast(used, loss.dtype)


def unscaled(gradients: Iterable[Any], scale: tf.Tensor) -> list[Any]:
    """Divides each gradient by the scale, in its own dtype; None stays None."""
    return [map_values(gradient, lambda values: _divide(values, scale)) for gradient in gradients]


def unscaled_and_checked(
    gradients: Iterable[Any], scale: tf.Tensor, combined: bool = False, is_local: bool = True
) -> tuple[list[Any], tf.Tensor]:
    """Returns unscaled(gradients, scale), and whether all of it is finite, a scalar bool tensor.

    Args:
        gradients: dense, IndexedSlices or None.
        scale: a scalar float32 tensor.
        combined: whether to work in one flat buffer per dtype, in place of tensor by tensor.
        is_local: whether an overflow that an emulated 910 leaves finite counts. It does not for
            sums over replicas, because each replica has overflows of its own.
    """
    gradients = list(gradients)
    if not combined:
        result = unscaled(gradients, scale)
        return result, _all_finite(result, is_local)
    by_dtype: dict[tf.DType, list[int]] = {}
    for index, gradient in enumerate(gradients):
        if gradient is not None:
            by_dtype.setdefault(gradient.dtype, []).append(index)
    finite = [tf.constant(True)]
    for indices in by_dtype.values():
        parts = [values_of(gradients[index]) for index in indices]
        flat = _divide(tf.concat([tf.reshape(part, [-1]) for part in parts], 0), scale)
        finite.append(tf.reduce_all(tf.math.is_finite(flat)))
        sizes = [tf.size(part) for part in parts]
        for index, part, values in zip(indices, parts, tf.split(flat, sizes)):
            back = tf.reshape(values, tf.shape(part))
            back.set_shape(part.shape)
            gradients[index] = map_values(gradients[index], lambda _, back=back: back)
    all_finite = tf.reduce_all(tf.stack(finite))
    return gradients, _without_overflow(all_finite) if is_local else all_finite


def all_finite(gradients: Iterable[Any], name: str | None = None) -> tf.Tensor:
    """Whether all gradients are finite, a scalar bool tensor with this name."""
    return _all_finite(gradients, True, name)


def _without_overflow_after(gradients: Iterable[Any]) -> tf.Tensor:
    """Whether no emulated 910 overflows before these are computed, a scalar bool tensor.

    It does not check the gradients themselves.
    """
    of = [values_of(gradient) for gradient in gradients if gradient is not None]
    # Not a constant, which Grappler would fold, and so lose the mark.
    with tf.control_dependencies(of):
        return _without_overflow(tf.compat.v1.placeholder_with_default(tf.constant(True), []))


def _all_finite(gradients: Iterable[Any], is_local: bool, name: str | None = None) -> tf.Tensor:
    finite = [
        tf.reduce_all(tf.math.is_finite(values_of(gradient)))
        for gradient in gradients
        if gradient is not None
    ]
    result = tf.reduce_all(tf.stack(finite) if finite else tf.constant([True]), name=name)
    return _without_overflow(result) if is_local else result


def _without_overflow(finite: tf.Tensor) -> tf.Tensor:
    """Makes `finite` false also if an emulated 910 overflowed, which leaves gradients finite.

    In a graph, an optimizer that emulates a 910 adds this check to the marked op.
    """
    if tf.executing_eagerly():
        return tf.logical_and(finite, not _library.take_overflow())
    scope.overflow_check(finite.op)
    return finite


def values_of(gradient: Any) -> tf.Tensor:
    """The values of IndexedSlices, or the dense gradient itself."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def map_values(gradient: Any, function: Any) -> Any:
    """Applies a function to the values of a gradient; None stays None."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            function(gradient.values), gradient.indices, dense_shape=gradient.dense_shape
        )
    return function(gradient)


def _divide(values: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    # A product with 1 / scale would lose gradients, since that is zero for the largest scales.
    # float16 holds no scale above 65504.
    if values.dtype.size < tf.float32.size:
        return tf.cast(tf.cast(values, tf.float32) / scale, values.dtype)
    return values / tf.cast(scale, values.dtype)


def summed(grads: Sequence[Any]) -> tuple[list[Any], tf.Tensor | None]:
    """Adds up gradients over the replicas, in one buffer per dtype; IndexedSlices are gathered.

    The gradients are still scaled. A gradient that comes out of a Cast from a low type goes
    straight into the buffer, so that lower_collectives finds it. An overflow in one replica is one
    in all sums.

    Args:
        grads: dense, IndexedSlices or None, in the same order in each replica.

    Returns:
        The sums, and whether no replica has met an overflow that leaves them finite, a scalar bool
        tensor. Outside of replicas, the gradients as they are, and None.
    """
    grads = list(grads)
    if not replicas.in_replica():
        return grads, None
    overflows = tf.cast(tf.logical_not(_without_overflow_after(grads)), tf.float32)
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


def unscaled_and_agreed(
    grads: Sequence[Any], scale: tf.Tensor, combined: bool, no_overflow: tf.Tensor | None
) -> tuple[list[Any], tf.Tensor]:
    """Unscales gradients; returns them, and whether those of all replicas are finite.

    Args:
        grads: dense, IndexedSlices or None.
        scale: a scalar float32 tensor.
        combined: whether to work in one flat buffer per dtype, in place of tensor by tensor.
        no_overflow: the second result of summed(); None for gradients that are not summed.
    """
    if no_overflow is None:
        unscaled, finite = unscaled_and_checked(grads, scale, combined)
        return unscaled, replicas.all_true(finite)
    # Sums are the same everywhere, so replicas need not agree.
    unscaled, finite = unscaled_and_checked(grads, scale, combined, is_local=False)
    return unscaled, tf.logical_and(finite, no_overflow)

"""Keras' BatchNormalization with the statistics of all replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.amp.parallel.normalization import BatchNorm, Statistics
from npu_precision.scope import keep_dtype_scope

_base: Any = _tf_compat.synchronized_batch_norm()
# The limit of tf.compat.v1.nn.fused_batch_norm, for cuDNN.
_LEAST_EPSILON_OF_FUSED = 1.001e-5


@tf.keras.utils.register_keras_serializable(package="npu_precision")
class SyncBatchNorm(_base):
    """A BatchNormalization that normalizes by the statistics of all replicas of tf.distribute.

    In training, its outputs, gradients and moving averages are those that BatchNormalization has
    for the batches of all replicas together. A step takes two all-reduces, and its gradient takes
    one more, of one or two numbers per channel. They are float32 in every precision mode; all else
    is lowered as an ordinary batch norm is.

    With one replica, and in inference, it is an ordinary batch norm. With a mask, several axes,
    float64 or a tensor as `training` it computes as Keras' own with synchronized=True. Over several
    replicas it has no second derivative, and an error says so.

    Args:
        *args, **kwargs: the arguments of BatchNormalization.

    Raises:
        ValueError: synchronized=False.

    Source: apex.parallel.SyncBatchNorm.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not kwargs.setdefault("synchronized", True):
            raise ValueError(
                "SyncBatchNorm: got synchronized=False, expected True; BatchNormalization is the "
                "one without"
            )
        super().__init__(*args, **kwargs)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        inputs = tf.cast(inputs, self.compute_dtype)
        trains = _tf_compat.trains(self, training)
        axes = list(self.axis) if isinstance(self.axis, (list, tuple)) else [self.axis]
        as_keras = (
            trains is None
            or (trains and mask is not None)
            or len(axes) > 1
            or inputs.dtype not in (tf.float32, tf.float16, tf.bfloat16)
            or getattr(self, "renorm", False)
        )
        if as_keras:
            return super().call(inputs, training=training, mask=mask)
        rank = inputs.shape.rank
        axis = axes[0] % rank
        is_fused = _tf_compat.fuses_batch_norms(rank, axis)
        epsilon = max(self.epsilon, _LEAST_EPSILON_OF_FUSED) if is_fused else self.epsilon
        image, data_format, restore = _as_image(inputs, axis)
        norm = BatchNorm(epsilon, data_format)
        channels = inputs.shape[axis]
        scale = tf.convert_to_tensor(self.gamma) if self.scale else tf.ones([channels])
        offset = tf.convert_to_tensor(self.beta) if self.center else tf.zeros([channels])
        if trains:
            image, statistics = norm.over_replicas(image, scale, offset)
            self._move(statistics, is_fused)
        else:
            mean, variance = map(tf.convert_to_tensor, (self.moving_mean, self.moving_variance))
            image = norm.by_statistics(image, scale, offset, mean, variance)
        return restore(image)

    def _move(self, statistics: Statistics, unbiased: bool) -> None:
        """Moves the averages, unless the batches of all replicas are empty."""
        count = statistics.count
        with keep_dtype_scope():
            variance = statistics.variance
            if unbiased:
                variance *= count / tf.maximum(count - 1.0, 1.0)
            share = tf.where(count > 0.0, 1.0 - self.momentum, 0.0)

            def update(average: Any, value: tf.Tensor) -> Any:
                return average.assign_sub(share * (tf.convert_to_tensor(average) - value))

            for average, value in (
                (self.moving_mean, statistics.mean),
                (self.moving_variance, variance),
            ):
                _tf_compat.update_of_layer(self, functools.partial(update, average, value))


def _as_image(x: tf.Tensor, axis: int) -> tuple[tf.Tensor, str, Callable[[tf.Tensor], tf.Tensor]]:
    """Reshapes x to [batch, height, width, channels] or [batch, channels, height, width].

    Returns:
        (the image, its data_format, a function that reshapes an image to the shape of x).
    """
    rank, static = x.shape.rank, x.shape
    if rank == 4 and axis in (1, 3):
        return x, "NCHW" if axis == 1 else "NHWC", lambda y: y
    if axis not in (1, rank - 1):
        last = [*(i for i in range(rank) if i != axis), axis]
        first = [last.index(i) for i in range(rank)]
        image, data_format, undo = _as_image(tf.transpose(x, last), rank - 1)
        return image, data_format, lambda y: tf.transpose(undo(y), first)
    shape = tf.shape(x)
    if axis == rank - 1:
        data_format, as_image = "NHWC", [tf.reduce_prod(shape[:-1]), 1, 1, shape[-1]]
    else:
        data_format, as_image = "NCHW", [shape[0], shape[1], tf.reduce_prod(shape[2:]), 1]
    image = tf.reshape(x, as_image)
    return image, data_format, lambda y: tf.ensure_shape(tf.reshape(y, shape), static)

"""A batch norm with the statistics of all replicas, made of ops that can be lowered.

Only FusedBatchNormV3 and its gradient compute tensors of the batch's size. Their kernels compute in
float32, even if they read and write a low type. Tensors with one number per channel, and sums over
the replicas, are marked to stay float32.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from npu_precision.scope import keep_dtype_scope

_ops = tf.raw_ops
# amp's O2 finds batch norms of several ops by this name, and keeps them float32.
_SCOPE = "batchnorm"


@dataclasses.dataclass(frozen=True)
class Statistics:
    """The statistics of a batch, in float32.

    Attributes:
        mean, variance: [channels]; the variance is biased. Both are 0 for an empty batch.
        count: [], the number of elements per channel.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    count: tf.Tensor


@dataclasses.dataclass(frozen=True)
class BatchNorm:
    """The attributes that all ops of a batch norm share.

    Attributes:
        epsilon: added to the variance.
        data_format: "NHWC" or "NCHW".
    """

    epsilon: float
    data_format: str

    def over_replicas(
        self, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor
    ) -> tuple[tf.Tensor, Statistics]:
        """Normalizes x by the mean and the variance over all replicas; each replica must call it.

        With one replica, it is an ordinary batch norm in training.

        Args:
            x: float32, float16 or bfloat16, of rank 4. The batches of the replicas may differ in
                size, and may be empty.
            scale: float32, [channels].
            offset: the same.

        Returns:
            The normalized tensor, of the shape and dtype of x, and the statistics of all replicas,
            which gradients do not pass.
        """
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            y, own, _ = self._by_own_statistics(x, scale, offset)
            return y, own

        @tf.custom_gradient
        def normalize(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> Any:
            ones, zeros = tf.ones_like(scale), tf.zeros_like(offset)
            _, own, saved = self._by_own_statistics(x, ones, zeros)
            with keep_dtype_scope():
                total = _over_replicas(own, context)
            y = self.by_statistics(x, scale, offset, total.mean, total.variance)

            def gradient(dy: tf.Tensor, *_: tf.Tensor) -> list[tf.Tensor]:
                with tf.name_scope(_SCOPE):
                    gradients = self._gradients(dy, x, scale, own, saved, total, context)
                # Differentiating its ops would take the statistics for constants.
                message = "SyncBatchNorm has no second derivative over several replicas"
                return [_ops.PreventGradient(input=each, message=message) for each in gradients]

            return (y, total.mean, total.variance, total.count), gradient

        with tf.name_scope(_SCOPE):
            y, *total = normalize(x, scale, offset)
        return y, Statistics(*map(tf.stop_gradient, total))

    def by_statistics(
        self, x: tf.Tensor, scale: Any, offset: Any, mean: Any, variance: Any
    ) -> tf.Tensor:
        """Normalizes x by a given mean and variance."""
        return self._op(x, scale, offset, mean, variance, is_training=False).y

    def _by_own_statistics(
        self, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor
    ) -> tuple[tf.Tensor, Statistics, dict[str, tf.Tensor]]:
        """Returns (y, the statistics of x, the tensors that the op saves for its gradient)."""
        out = self._op(x, scale, offset, [], [], is_training=True)
        channels = scale.shape[0]
        with keep_dtype_scope():
            count = tf.cast(tf.size(x) // channels, tf.float32)
            # The op's variance is unbiased, and its outputs are NaN for an empty batch.
            biased = out.batch_variance * (count - 1.0)
            own = Statistics(
                tf.where(count > 0.0, out.batch_mean, 0.0),
                tf.where(count > 0.0, _over(biased, count), 0.0),
                count,
            )
        # The content of these depends on the device.
        saved = {f"reserve_space_{i}": getattr(out, f"reserve_space_{i}") for i in (1, 2, 3)}
        return out.y, own, saved

    def _op(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, **mode: bool) -> Any:
        return _ops.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=offset,
            mean=mean,
            variance=variance,
            epsilon=self.epsilon,
            data_format=self.data_format,
            **mode,
        )

    def _gradients(
        self,
        dy: tf.Tensor,
        x: tf.Tensor,
        scale: tf.Tensor,
        own: Statistics,
        saved: dict[str, tf.Tensor],
        total: Statistics,
        context: Any,
    ) -> list[tf.Tensor]:
        """The gradients of x, scale and offset.

        With m and s as mean and deviation of all replicas, and z = (x - m) / s,

            dx = scale / s * (dy - mean(dy) - z * mean(dy * z)),

        where mean() is over all replicas too. The gradient of the op computes just that with the
        mean and deviation of its replica, and so does not round dy first, which mean(dy) may nearly
        cancel. The remainder is affine in x, and small if the replicas' batches are alike.
        """
        with keep_dtype_scope():
            own_factor, own_deviation = self._factor_and_deviation(own)
            factor, deviation = self._factor_and_deviation(total)
            shift = own.mean - total.mean
            scale = scale * factor
            # dx needs the factor scale / s, not scale / (own deviation).
            own_scale = scale * own_deviation
        dx, own_dscale, doffset, _, _ = _ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=own_scale,
            epsilon=self.epsilon,
            data_format=self.data_format,
            is_training=True,
            **saved,
        )
        with keep_dtype_scope():
            # The op's dscale is the sum of dy * (x - own mean) / (own deviation).
            dscale = factor * (own_dscale * own_deviation + shift * doffset)
            sums = _sum(context, tf.concat([dscale, doffset], 0))
            mean_dscale, mean_doffset = tf.split(_over(sums, total.count), 2)
            own_mean_doffset = _over(doffset, own.count)
            # (x - own mean) / (own deviation) = (z * deviation - shift) * own_factor
            share = _over(own_dscale, own.count) * own_factor
            more_dscale = share * deviation - mean_dscale
            more_doffset = own_mean_doffset - share * shift - mean_doffset
            more = scale * more_dscale, scale * more_doffset
        dx += self.by_statistics(x, *more, total.mean, total.variance)
        return [dx, dscale, doffset]

    def _factor_and_deviation(self, of: Statistics) -> tuple[tf.Tensor, tf.Tensor]:
        """(1 / deviation, deviation), by ops whose inputs are known not to be near zero.

        Otherwise the producers of x would stay float32, because these ops would magnify their
        error.
        """
        variance = tf.maximum(of.variance, 0.0) + self.epsilon
        # Powers of two are exact; an epsilon of 1e-5 is near zero in float16.
        factor = 32.0 * tf.math.rsqrt(1024.0 * variance)
        return factor, variance * factor


def _over_replicas(own: Statistics, context: Any) -> Statistics:
    """The statistics of all replicas.

    The squares are added up around the mean of all replicas. Subtracting the squared mean from the
    mean of squares would save an all-reduce, but loses a variance that is small next to the mean.
    """
    sums = _sum(context, tf.concat([own.mean * own.count, [own.count]], 0))
    count = sums[-1]
    mean = _over(sums[:-1], count)
    squares = own.count * (own.variance + tf.square(own.mean - mean))
    return Statistics(mean, _over(_sum(context, squares), count), count)


def _sum(context: Any, value: tf.Tensor) -> tf.Tensor:
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def _over(sums: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Divides sums by their counts; 0 for no elements."""
    return sums / tf.maximum(count, 1.0)

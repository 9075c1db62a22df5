"""Measures the error of a tensor inside the graph, so that the tensor is not fetched."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.accuracy.per_tensor import PerTensor

# The outputs of `statistics`, in order. The first ones are maxima, the others sums.
_LARGEST = 4


@dataclasses.dataclass(frozen=True)
class LowType:
    """The number range of a low type.

    Attributes:
        infinite: the smallest number that is rounded to infinity.
        unit: half the distance from 1 to the next number.
        tiny: the smallest number with full precision.
        zero: the largest number that is rounded to 0.
    """

    infinite: float
    unit: float
    tiny: float
    zero: float


_FLOAT16 = LowType(65520.0, 2.0**-11, 2.0**-14, 2.0**-25)
_BFLOAT16 = LowType(2.0**127 * (2 - 2.0**-8), 2.0**-8, 2.0**-126, 2.0**-134)


def low_type_of(dtype: tf.DType) -> LowType:
    """The number range of float16 or bfloat16."""
    return _BFLOAT16 if dtype == tf.bfloat16 else _FLOAT16


@dataclasses.dataclass(frozen=True)
class TensorStats:
    """The comparison of one tensor with its reference, over all batches.

    Attributes:
        max_abs: the largest absolute error of an element that is finite in both; NaN if none is.
        max_rel: the largest of those errors relative to the reference's element, where that is not
            0.
        largest: the largest absolute value of the reference.
        misshapen: 1 if its size differs from its reference's; then the common part is compared.
        squared_error, squared, squared_other, product: sums over all elements of the squared error,
            the squared reference, the squared tensor, and their product.
        elements: how many elements there are.
        above: how many finite elements of the reference the low type rounds to infinity.
        below: how many are so small that the low type loses digits, or rounds them to 0.
        bad_reference, bad: how many elements are NaN or infinite in the reference, in the tensor.
        new_bad: how many are NaN or infinite in the tensor only.
    """

    max_abs: float
    max_rel: float
    largest: float
    misshapen: float
    squared_error: float
    squared: float
    squared_other: float
    product: float
    elements: float
    above: float
    below: float
    bad_reference: float
    bad: float
    new_bad: float

    @property
    def error(self) -> float:
        """The root mean square error as a share of the reference's root mean square.

        Infinite if the tensor has a NaN or an infinity that the reference has not, or differs in
        size.
        """
        if self.new_bad or self.misshapen:
            return math.inf
        if self.squared == 0:
            return math.inf if self.squared_error else 0.0
        return math.sqrt(self.squared_error / self.squared)

    @property
    def cosine(self) -> float:
        """The cosine of the angle between both, over elements finite in both; NaN without any."""
        if math.isnan(self.max_abs):
            return math.nan
        if self.squared == 0 or self.squared_other == 0:
            return 1.0 if self.squared == self.squared_other else 0.0
        return self.product / math.sqrt(self.squared * self.squared_other)

    @property
    def outside(self) -> float:
        """The share of the reference's elements that are outside the low type's range."""
        return (self.above + self.below) / self.elements if self.elements else 0.0


def statistics(reference: tf.Tensor, other: tf.Tensor, low: tf.DType) -> tf.Tensor:
    """The fields of TensorStats, as a tensor of float64.

    Args:
        reference: the tensor as it should be, of any shape.
        other: the tensor; its dtype may be the low type, and its size may differ if it depends on
            values.
        low: the low type.
    """
    a = tf.reshape(tf.cast(reference, tf.float64), [-1])
    b = tf.reshape(tf.cast(other, tf.float64), [-1])
    misshapen = tf.not_equal(tf.size(a), tf.size(b))
    both = tf.minimum(tf.size(a), tf.size(b))
    a, b = a[:both], b[:both]
    good_a, good_b = tf.math.is_finite(a), tf.math.is_finite(b)
    good = tf.logical_and(good_a, good_b)
    zero = tf.zeros_like(a)
    size = _tf_compat.where(good_a, tf.abs(a), zero)
    error = _tf_compat.where(good, tf.abs(a - b), zero)
    both_a, both_b = _tf_compat.where(good, a, zero), _tf_compat.where(good, b, zero)
    relative = tf.math.divide_no_nan(error, size)
    limits = low_type_of(low)

    def largest(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(tf.concat([values, [0.0]], 0))

    def count(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(values, tf.float64))

    return tf.stack(
        [
            largest(error),
            largest(relative),
            largest(size),
            tf.cast(misshapen, tf.float64),
            tf.reduce_sum(error * error),
            tf.reduce_sum(both_a * both_a),
            tf.reduce_sum(both_b * both_b),
            tf.reduce_sum(both_a * both_b),
            tf.cast(tf.size(a), tf.float64),
            count(size >= limits.infinite),
            count(tf.logical_and(size > 0, size < limits.tiny)),
            count(tf.logical_not(good_a)),
            count(tf.logical_not(good_b)),
            count(tf.logical_and(good_a, tf.logical_not(good_b))),
        ]
    )


class Statistics(PerTensor):
    """The statistics of many tensors; add(key, reference, other).

    Args:
        low: the low type.
    """

    def __init__(self, low: tf.DType):
        super().__init__("statistics", lambda reference, other: statistics(reference, other, low))


def merged(batches: list[np.ndarray]) -> TensorStats:
    """The statistics of all batches merged into one."""
    stacked = np.stack(batches)
    result = TensorStats(
        *(float(value) for value in stacked[:, :_LARGEST].max(axis=0)),
        *(float(value) for value in stacked[:, _LARGEST:].sum(axis=0)),
    )
    if 0 < result.elements == result.bad_reference + result.new_bad:
        return dataclasses.replace(result, max_abs=math.nan, max_rel=math.nan)
    return result

"""Whole numbers that are computed in float behind a matrix product: counts, indices, bins, days."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform

_COUNT = 1000


def _below_one(function, *more, count=_COUNT):
    """`function` of numbers between 0.2 and 0.8, so that a rounded one has the same whole part."""

    def whole(x, w, *rest):
        return function(0.5 + 0.3 * tf.tanh(tf.matmul(x, w)[:, 0]), *rest)

    return Result(whole, [normal(0, count, 32), normal(1, 32, 2, scale=0.18), *more])


def _looked_up(function, *more):
    """`function` of a row and a column, whole numbers below 200 that a product picks from a table.

    Both low types hold each of them.
    """
    ids = np.random.default_rng(2).integers(0, 32, [64])
    table = np.random.default_rng(3).integers(0, 200, [32, 2]).astype(np.float32)

    def whole(one_hot, table, *rest):
        picked = tf.matmul(one_hot, table)
        return function(picked[:, 0], picked[:, 1], *rest)

    return Result(whole, [np.eye(32, dtype=np.float32)[ids], table, *more])


def _index(row, column):
    return row * 300.0 + column


@program("a constant range added, to int32")
def added_range():
    counts = np.arange(_COUNT, dtype=np.float32)
    return _below_one(lambda z: tf.cast(z + counts, tf.int32) % 10)


@program("a range by tf.range added, to int32")
def added_tf_range():
    return _below_one(lambda z: tf.cast(z + tf.range(float(_COUNT)), tf.int32) % 10)


@program("a constant range subtracted, floor")
def subtracted_range():
    counts = np.arange(_COUNT, dtype=np.float32)
    return _below_one(lambda z: tf.cast(tf.floor(counts - z), tf.int32) % 10)


@program("times of samples, every 0.01 s for 10 s, and a jitter")
def sample_times():
    times = np.arange(_COUNT, dtype=np.float32) / 100.0

    def function(z):
        sampled = times + 0.001 * z
        return (sampled[1:] - sampled[:-1]) * 1000.0

    return _below_one(function)


@program("a grid of pixels in a constant, numbered row by row")
def numbered_grid():
    grid = np.arange(_COUNT, dtype=np.float32).reshape([25, 40])
    return _below_one(lambda z: tf.cast(tf.reshape(z, [25, 40]) + grid, tf.int32) % 10)


@program("a column of anchors, 8 pixels apart, and an offset")
def anchors():
    centres = (np.arange(_COUNT, dtype=np.float32) * 8.0 + 4.0)[:, None]
    return _below_one(lambda z: (centres[:, 0] + 8 * z)[1:] - (centres[:, 0] + 8 * z)[:-1])


@program("row * 300 + column to int32")
def index_to_int():
    return _looked_up(lambda row, column: tf.cast(_index(row, column), tf.int32) % 300)


@program("row * 300 + column, floor")
def index_floor():
    return _looked_up(
        lambda row, column: tf.cast(tf.floor(_index(row, column) + 0.5), tf.int32) % 300
    )


@program("row * 300 + column, round to tens")
def index_round():
    return _looked_up(
        lambda row, column: tf.cast(tf.round(_index(row, column) / 10.0), tf.int32) % 30
    )


@program("row * 300 + column modulo 7")
def index_modulo():
    return _looked_up(lambda row, column: tf.math.floormod(_index(row, column), 7.0))


@program("row * 300 + column divided by 7, floor")
def index_floor_div():
    return _looked_up(
        lambda row, column: tf.cast(tf.math.floordiv(_index(row, column), 7.0), tf.int32) % 30
    )


@program("row * 300 + column, bucketized")
def index_buckets():
    bounds = [float(bound) for bound in range(0, 60000, 100)]
    return _looked_up(
        lambda row, column: tf.raw_ops.Bucketize(input=_index(row, column), boundaries=bounds) % 30
    )


@program("row * 300 + column, by tf.searchsorted")
def index_search():
    edges = np.arange(0, 60000, 10, dtype=np.float32)
    return _looked_up(
        lambda row, column, edges: tf.searchsorted(edges, _index(row, column)) % 30, edges
    )


@program("row * 300 + column, tf.unique")
def index_unique():
    return _looked_up(lambda row, column: tf.unique(_index(row, column))[1])


@program("gather_nd at a row and a column that were scaled")
def index_gather_nd():
    def function(row, column, image):
        places = tf.stack([row * 3.0 + 1.0, column * 3.0 + 2.0], 1)
        return tf.gather_nd(image, tf.cast(places, tf.int64))

    return _looked_up(function, uniform(4, 602, 602))


@program("one_hot of day * 24 + hour")
def hour_of_week():
    def function(row, column):
        hour = tf.math.floormod(row, 31.0) * 24.0 + tf.math.floormod(column, 24.0)
        return tf.matmul(tf.one_hot(tf.cast(hour, tf.int32), 744), tf.range(744.0)[:, None])

    return _looked_up(function)


@program("day numbers of 365.25 days a year, to int32")
def day_numbers():
    return _looked_up(
        lambda year, day: tf.cast(tf.floor(365.25 * (year + 4716.0)) + day, tf.int32) % 365
    )


@program("cents: a price times 100, to int64")
def cents():
    return _looked_up(lambda pounds, pence: tf.cast(pounds * 100.0 + pence + 0.5, tf.int64) % 100)


@program("a hash of a row and a column, modulo 1024")
def hashed():
    return _looked_up(
        lambda row, column: tf.math.floormod(tf.cast(row * 131.0 + column * 31.0, tf.int32), 1024)
    )


@program("tf.histogram_fixed_width of row * 300 + column")
def histogram():
    return _looked_up(
        lambda row, column: tf.histogram_fixed_width(_index(row, column), [0.0, 60000.0], 3000)
    )


@program("seconds of a day to text and back")
def text_of_seconds():
    return _looked_up(
        lambda row, column: tf.strings.to_number(tf.strings.as_string(_index(row, column))) % 300.0
    )


@program("an image in 16 bits: 65536 x, to int32")
def sixteen_bits():
    def function(row, column):
        image = tf.clip_by_value(row / 256.0 + column / 65536.0, 0.0, 1.0)
        return tf.cast(image * 65536.0, tf.int32) % 256

    return _looked_up(function)


@program("fake quantization in 12 bits")
def quantized():
    def function(row, column):
        level = tf.round((row + column / 256.0) * 16.0)
        return tf.cast(tf.clip_by_value(level, 0.0, 4095.0), tf.int32) % 16

    return _looked_up(function)

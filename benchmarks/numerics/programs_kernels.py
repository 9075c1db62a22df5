"""Pools and convolutions whose kernels in a low type are wrong, add in it, or never return."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform


def _gradient(layer, *size, channels=4):
    """The gradient of a layer between two products."""

    def function(x, w, share):
        z = tf.reshape(tf.matmul(tf.reshape(x, [-1, channels]), w), size)
        with tf.GradientTape() as tape:
            tape.watch(z)
            y = tf.matmul(tf.reshape(layer(z), [-1, channels]), w)
            loss = tf.reduce_sum(y * tf.reshape(share[: tf.size(y)], tf.shape(y)))
        return tf.matmul(tf.reshape(tape.gradient(loss, z), [-1, channels]), w)

    elements = int(np.prod(size))
    shares = uniform(2, elements, low=0.5, high=1.5)
    return Result(function, [_distinct(*size), np.eye(channels, dtype=np.float32), shares])


def _distinct(*size):
    """Multiples of 1/128, which both low types hold, so that maxima stay where they are."""
    return (np.random.default_rng(0).integers(-128, 129, size) / 128).astype(np.float32)


def _max_pool(window, strides, *size):
    pool = tf.nn.max_pool2d if len(window) == 2 else tf.nn.max_pool3d
    return _gradient(lambda z: pool(z, window, strides, "VALID"), *size)


def _avg_pool(window, strides, *size):
    pool = tf.nn.avg_pool2d if len(window) == 2 else tf.nn.avg_pool3d
    return _gradient(lambda z: pool(z, window, strides, "SAME"), *size)


@program("gradient of a max pool over 300 words")
def words():
    return _max_pool([1, 300], 300, 2, 1, 600, 4)


@program("gradient of MaxPooling1D(300)")
def pooling_1d():
    return _gradient(tf.keras.layers.MaxPooling1D(300, 1), 2, 320, 4)


@program("gradient of a max pool of 16 x 16, stride 1")
def max_pool_16():
    return _max_pool([16, 16], 1, 1, 24, 24, 4)


@program("gradient of a max pool of 9 x 9 x 9")
def max_pool_3d():
    return _max_pool([9, 9, 9], 1, 1, 11, 11, 11, 4)


@program("gradient of a global max pool, 20 x 20")
def global_max_pool():
    return _gradient(tf.keras.layers.GlobalMaxPooling2D(), 2, 20, 20, 4)


@program("gradient of an average pool of 13 x 13, stride 1")
def avg_pool_13():
    return _avg_pool([13, 13], 1, 1, 40, 40, 4)


@program("gradient of an average pool of 25 x 25, stride 1")
def avg_pool_25():
    return _avg_pool([25, 25], 1, 1, 40, 40, 4)


@program("gradient of an average pool of 33 x 33, stride 2")
def avg_pool_33():
    return _avg_pool([33, 33], 2, 1, 66, 66, 4)


@program("gradient of an average pool of 7 x 7 x 7, stride 1")
def avg_pool_3d():
    return _avg_pool([7, 7, 7], 1, 1, 14, 14, 14, 4)


@program("gradient of an average pool over 200 words, stride 1")
def avg_pool_words():
    return _avg_pool([1, 200], 1, 1, 1, 400, 4)


def _convolution(convolve, x, w):
    return Result(convolve, [x, w])


@program("a depthwise convolution of 15 x 15")
def depthwise():
    return _convolution(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
        normal(0, 1, 24, 24, 8),
        normal(1, 15, 15, 8, 1, scale=0.1),
    )


@program("a depthwise convolution of 1 x 31")
def depthwise_words():
    return _convolution(
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
        normal(0, 1, 1, 64, 8),
        normal(1, 1, 31, 8, 1, scale=0.1),
    )


@program("a grouped convolution of 3 x 15, a channel each")
def grouped():
    return _convolution(
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        normal(0, 1, 40, 40, 8),
        normal(1, 3, 15, 1, 8, scale=0.1),
    )


def _filter_gradient(convolve, x, w):
    def function(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = convolve(x, w)
            loss = tf.reduce_sum(y * tf.sigmoid(y))
        return tape.gradient(loss, w)

    return Result(function, [x, w])


@program("gradient of a filter with dilation 2 over 20 channels")
def dilated():
    return _filter_gradient(
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2),
        normal(0, 2, 16, 16, 20),
        normal(1, 3, 3, 20, 8, scale=0.1),
    )


@program("gradient of a grouped filter with dilation 2")
def dilated_groups():
    return _filter_gradient(
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=2),
        normal(0, 2, 16, 16, 32),
        normal(1, 3, 3, 8, 32, scale=0.1),
    )


@program("gradient of a filter longer than the image, 3-D")
def long_filter():
    return _filter_gradient(
        lambda x, w: tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME"),
        normal(0, 1, 2, 8, 8, 4),
        normal(1, 5, 3, 3, 4, 4, scale=0.1),
    )


def _average(*size):
    """The mean of each channel of an image, between two products."""

    def function(x, w):
        z = tf.reshape(tf.matmul(tf.reshape(x, [-1, 4]), w), size)
        pool = tf.nn.avg_pool2d(tf.abs(z), size[1:3], 1, "VALID")
        return tf.matmul(tf.reshape(pool, [-1, 4]), w)

    return Result(function, [_distinct(*size), np.eye(4, dtype=np.float32)])


@program("an average pool of 16 x 16")
def small_average():
    return _average(2, 16, 16, 4)


@program("an average pool of 64 x 64")
def large_average():
    return _average(2, 64, 64, 4)


@program("an average pool of 200 x 200")
def larger_average():
    return _average(1, 200, 200, 4)


def _depthwise_gradient(*size):
    """The gradient of a depthwise filter: a sum over the batch and the image."""

    def function(x, w, filters):
        z = tf.reshape(tf.matmul(tf.reshape(x, [-1, 4]), w), size)
        with tf.GradientTape() as tape:
            tape.watch(filters)
            y = tf.nn.depthwise_conv2d(tf.abs(z), filters, [1, 1, 1, 1], "SAME")
            loss = tf.reduce_sum(y) / float(np.prod(size))
        return tf.reshape(tape.gradient(loss, filters), [9, 4])

    ones = np.ones([3, 3, 4, 1], dtype=np.float32)
    return Result(function, [_distinct(*size), np.eye(4, dtype=np.float32), ones])


@program("gradient of a depthwise filter, 8 images of 64 x 64")
def depthwise_filter():
    return _depthwise_gradient(8, 64, 64, 4)


@program("gradient of a depthwise filter, an image of 32 x 32")
def small_depthwise_filter():
    return _depthwise_gradient(1, 32, 32, 4)

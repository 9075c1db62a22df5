"""Normalisations by hand, after a matrix product or a convolution."""

from __future__ import annotations

import tensorflow as tf

from numerics.program import Result, Training, normal, program

_X = (16, 24)
_IMAGE = (4, 8, 8, 8)


def _product(function):
    """A function of a product of 24 terms."""
    return lambda x, w: function(tf.matmul(x, w))


def _convolution(function):
    return lambda x, w: function(tf.nn.conv2d(x, w, 1, "SAME"))


def _of_product(function, shift=0.0):
    return Result(_product(function), [normal(0, *_X) + shift, normal(1, 24, 16, scale=0.2)])


def _of_convolution(function, shift=0.0):
    weights = normal(1, 3, 3, 8, 8, scale=0.12)
    return Result(_convolution(function), [normal(0, *_IMAGE) + shift, weights])


def _normalized(x, axes, epsilon=1e-5):
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), axes, keepdims=True)
    return (x - mean) / tf.sqrt(variance + epsilon)


@program("layer normalisation by hand")
def layer():
    return _of_product(lambda x: _normalized(x, [-1]))


@program("layer normalisation of a shifted input")
def layer_shifted():
    return _of_product(lambda x: _normalized(x, [-1]), shift=3.0)


@program("layer normalisation with tf.nn.moments")
def layer_moments():
    def function(x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-12)

    return _of_product(function)


@program("batch normalisation by hand")
def batch():
    return _of_convolution(lambda x: _normalized(x, [0, 1, 2]))


@program("instance normalisation by hand")
def instance():
    return _of_convolution(lambda x: _normalized(x, [1, 2]))


@program("group normalisation by hand")
def group():
    def function(x):
        groups = tf.reshape(x, [4, 8, 8, 2, 4])
        return tf.reshape(_normalized(groups, [1, 2, 4]), tf.shape(x))

    return _of_convolution(function)


@program("RMS normalisation by hand")
def rms():
    def function(x):
        return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)

    return _of_product(function)


@program("RMS normalisation of large activations")
def rms_large():
    """Squares of 300 and more do not fit into a float16."""

    def function(x):
        return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6)

    return _of_product(lambda x: function(400.0 * x))


@program("weight normalisation by hand")
def weight():
    def function(x, v, g):
        weights = g * v / tf.norm(v, axis=0, keepdims=True)
        return tf.matmul(tf.matmul(x, weights), weights, transpose_b=True)

    return Result(function, [normal(0, *_X), normal(1, 24, 16), normal(2, 16) + 1.0])


@program("spectral normalisation of a product")
def spectral():
    def function(x, w, u):
        for _ in range(10):
            v = tf.math.l2_normalize(tf.matmul(u, w, transpose_b=True))
            u = tf.math.l2_normalize(tf.matmul(v, w))
        sigma = tf.matmul(tf.matmul(v, w), u, transpose_b=True)
        return tf.matmul(x, w / sigma)

    return Result(function, [normal(0, *_X), normal(1, 24, 16), normal(2, 1, 16)])


def _of_squares(x, axes, epsilon):
    mean = tf.reduce_mean(x, axes, keepdims=True)
    variance = tf.reduce_mean(x * x, axes, keepdims=True) - mean * mean
    return (x - mean) * tf.math.rsqrt(variance + epsilon)


@program("variance as E[x²]-E[x]²")
def variance():
    return _of_product(lambda x: _of_squares(x, [-1], 1e-5))


@program("variance as E[x²]-E[x]² of a shifted input")
def variance_shifted():
    """float32 loses digits here, and a low dtype loses all: the variance is 1 and the mean 16."""
    return _of_product(lambda x: _of_squares(x + 16.0, [-1], 1e-5))


@program("variance as E[x²]-E[x]² of images, square root")
def variance_images():
    def function(x):
        mean = tf.reduce_mean(x, [1, 2], keepdims=True)
        spread = tf.sqrt(tf.reduce_mean(x**2, [1, 2], keepdims=True) - mean**2)
        return (x - mean) / spread

    return _of_convolution(lambda x: function(x + 4.0))


@program("standardisation of a column that is constant")
def constant_column():
    def function(x):
        x = tf.concat([x, tf.ones_like(x[:, :1])], 1)
        spread = tf.math.reduce_std(x, 0, keepdims=True)
        return (x - tf.reduce_mean(x, 0, keepdims=True)) / (spread + 1e-8)

    return _of_product(function)


@program("min-max normalisation of a product")
def min_max():
    def function(x):
        low = tf.reduce_min(x, -1, keepdims=True)
        return (x - low) / (tf.reduce_max(x, -1, keepdims=True) - low + 1e-8)

    return _of_product(function)


@program("min-max normalisation, rows of zeros")
def min_max_zero():
    def function(x):
        x = tf.concat([x, tf.zeros_like(x[:2])], 0)
        low = tf.reduce_min(x, -1, keepdims=True)
        return (x - low) / (tf.reduce_max(x, -1, keepdims=True) - low + 1e-8)

    return _of_product(function)


@program("cosine similarity by hand")
def cosine():
    def function(x):
        return tf.matmul(x, x, transpose_b=True) / (tf.norm(x, axis=1, keepdims=True) ** 2 + 1e-8)

    return _of_product(function)


@program("cosine similarity with rows of zeros, l2_normalize")
def cosine_zero_rows():
    def function(x):
        x = tf.concat([tf.nn.relu(x), tf.zeros_like(x[:2])], 0)
        x = tf.math.l2_normalize(x, 1)
        return tf.matmul(x, x, transpose_b=True)

    return _of_product(function)


@program("cosine similarity with rows of zeros, 1e-12 in the divisor")
def cosine_zero_by_hand():
    def function(x):
        x = tf.concat([tf.nn.relu(x), tf.zeros_like(x[:2])], 0)
        squares = tf.reduce_sum(x * x, 1, keepdims=True)
        return tf.matmul(x, x, transpose_b=True) / tf.sqrt(squares * tf.transpose(squares) + 1e-12)

    return _of_product(function)


@program("cosine similarity with rows of zeros, divide_no_nan")
def cosine_no_nan():
    def function(x):
        x = tf.concat([tf.nn.relu(x), tf.zeros_like(x[:2])], 0)
        sizes = tf.norm(x, axis=1, keepdims=True)
        product = tf.matmul(x, x, transpose_b=True)
        return tf.math.divide_no_nan(product, sizes * tf.transpose(sizes))

    return _of_product(function)


@program("squared distances as x²+y²-2xy, square root with 1e-12")
def distances():
    def function(x):
        squares = tf.reduce_sum(x * x, 1, keepdims=True)
        product = tf.matmul(x, x, transpose_b=True)
        return tf.sqrt(tf.maximum(squares + tf.transpose(squares) - 2.0 * product, 1e-12))

    return _of_product(function)


def _trained(name, normalize):
    @program(f"{name}, trained", kind="training")
    def build():
        def loss(variables, x, targets):
            w, scale, offset, last = variables
            hidden = normalize(tf.matmul(x, w)) * scale + offset
            return tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(hidden), last) - targets))

        variables = [normal(1, 24, 16, scale=0.2), normal(2, 16) * 0.1 + 1.0]
        variables += [normal(3, 16) * 0.1, normal(4, 16, 3, scale=0.25)]
        return Training(loss, variables, [normal(0, 32, 24), normal(5, 32, 3)])


_trained("layer normalisation", lambda x: _normalized(x, [-1]))
_trained("batch normalisation as E[x²]-E[x]²", lambda x: _of_squares(x, [0], 1e-3))

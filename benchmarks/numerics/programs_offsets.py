"""A small part of a large number: offsets that are added and taken away again."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program

_LARGE = 1000.0


def _product(function, width=32):
    def whole(x, w, *rest):
        return function(tf.matmul(x, w), *rest)

    return Result(whole, [normal(0, 64, 16), normal(1, 16, width, scale=0.25)])


def _moved(function):
    """`function` of a product to which 1000 was added; it gives the 1000 back."""
    return _product(lambda h: function(h + _LARGE))


@program("variance of h + 1000")
def variance():
    return _moved(lambda h: tf.reduce_mean(tf.square(h - tf.reduce_mean(h, 0)), 0))


@program("tf.nn.moments of h + 1000")
def moments():
    return _moved(lambda h: tf.nn.moments(h, [0])[1])


@program("batch norm of h + 1000")
def batch_norm():
    def function(h):
        ones = tf.ones([32])
        image = tf.reshape(h, [64, 1, 1, 32])
        return tf.compat.v1.nn.fused_batch_norm(image, ones, 0 * ones, epsilon=1e-3)[0]

    return _moved(function)


@program("layer norm of h + 1000")
def layer_norm():
    def function(h):
        mean, variance = tf.nn.moments(h, [1], keepdims=True)
        return tf.nn.batch_normalization(h, mean, variance, None, None, 1e-3)

    return _moved(function)


@program("maximum - minimum of h + 1000")
def spread():
    return _moved(lambda h: tf.reduce_max(h, 1) - tf.reduce_min(h, 1))


@program("h + 1000 - its neighbour")
def neighbours():
    return _moved(lambda h: h[:, 1:] - h[:, :-1])


@program("standardized: (h + 1000 - mean) / deviation")
def standardized():
    return _moved(lambda h: (h - tf.reduce_mean(h)) / tf.math.reduce_std(h))


@program("temperatures in Kelvin, differences to the mean")
def kelvin():
    return _product(lambda h: (h + 273.15) - tf.reduce_mean(h + 273.15, 0))


@program("image_standardization of a product around 128")
def images():
    def function(h):
        image = tf.reshape(h * 4.0 + 128.0, [64, 4, 8])
        return tf.image.per_image_standardization(image)

    return _product(function)


# Neighbours in a sorted row are a tenth apart, so the rounding of the product counts ten times.
@program("a clock of 86400 seconds, differences of times", tolerance={"float16": 0.02})
def clock():
    return _product(lambda h: tf.sort(86400.0 + h)[:, 1:] - tf.sort(86400.0 + h)[:, :-1])


def _near_29(h):
    return 29.0 + h


@program("Keras' LayerNormalization, axis 1, near 29")
def keras_layer_norm():
    layer = tf.keras.layers.LayerNormalization(axis=1)
    return _product(lambda h: layer(tf.reshape(_near_29(h), [2, 32, 32])))


@program("Keras' LayerNormalization, last axis, near 29")
def keras_layer_norm_last():
    layer = tf.keras.layers.LayerNormalization()
    return _product(lambda h: layer(_near_29(h)))


@program("Keras' BatchNormalization in training, near 29")
def keras_batch_norm():
    layer = tf.keras.layers.BatchNormalization()
    return _product(lambda h: layer(_near_29(h), training=True))


@program("Keras' GroupNormalization, near 29")
def keras_group_norm():
    layer = tf.keras.layers.GroupNormalization(4)
    return _product(lambda h: layer(_near_29(h)))


@program("a norm as x * inv + (-mean * inv), near 29")
def written_out():
    def function(h):
        h = tf.reshape(_near_29(h), [2, 32, 32])
        mean, variance = tf.nn.moments(h, [1], keepdims=True)
        inverse = tf.math.rsqrt(variance + 1e-3)
        return h * inverse + (-mean * inverse)

    return _product(function)


@program("one minus the cosine of near vectors")
def one_minus_cosine():
    def function(h):
        near = h + 0.05 * tf.reverse(h, [1])
        both = tf.reduce_sum(h * near, 1)
        sizes = tf.norm(h, axis=1) * tf.norm(near, axis=1)
        return 1.0 - both / sizes

    return _product(function)


@program("one minus the product of unit vectors")
def unit_vectors():
    def function(h):
        one = tf.math.l2_normalize(h, 1)
        other = tf.math.l2_normalize(h + 0.05 * tf.reverse(h, [1]), 1)
        return 1.0 - tf.reduce_sum(one * other, 1)

    return _product(function)


@program("soft argmax over 200 places minus the centre")
def soft_argmax():
    def function(h):
        places = np.arange(200, dtype=np.float32)
        heat = -0.5 * tf.square(places - (100.0 + h[:, :1]))
        return tf.reduce_sum(tf.nn.softmax(heat) * places, 1) - 100.0

    return _product(function)


@program("soft argmax by a product with the places")
def soft_argmax_by_product():
    def function(h):
        places = np.arange(200, dtype=np.float32)
        heat = -0.5 * tf.square(places - (100.0 + h[:, :1]))
        return tf.matmul(tf.nn.softmax(heat), places[:, None]) - 100.0

    return _product(function)

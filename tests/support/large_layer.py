"""A Keras layer that overflows float16."""

from __future__ import annotations

import tensorflow as tf


class Large(tf.keras.layers.Layer):
    """The identity, computed through values that overflow in float16."""

    def __init__(self, size, **arguments):
        super().__init__(**arguments)
        self.size = size

    def build(self, shape):
        size = tf.keras.initializers.Constant(self.size)
        width = int(shape[-1])
        self.large = self.add_weight(name="large", shape=(), initializer=size, trainable=False)
        self.identity = self.add_weight(
            name="identity", shape=(width, width), initializer="identity", trainable=False
        )

    def call(self, x):
        return tf.matmul(x * self.large, self.identity, name="product") / self.large

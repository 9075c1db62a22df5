"""ConvNeXt with a DepthwiseConv2D in each block.

Keras' own application has a Conv2D with as many groups as channels. On a CPU, Keras has XLA compile
it into a loop, which takes half a minute in a step of float32.
"""

from __future__ import annotations

import tensorflow as tf
from support import keras_models


def convnext_tiny(size: int) -> tf.keras.Model:
    """ConvNeXt-Tiny for square images of this size."""
    layers = tf.keras.layers
    inputs = x = tf.keras.Input([size, size, 3])
    for stage, (width, blocks) in enumerate([(96, 3), (192, 3), (384, 9), (768, 3)]):
        if stage == 0:
            x = _normal(layers.Conv2D(width, 4, strides=4)(x))
        else:
            x = layers.Conv2D(width, 2, strides=2)(_normal(x))
        for _ in range(blocks):
            x = _block(x, width)
    x = _normal(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(inputs, layers.Dense(keras_models.CLASSES)(x))


def _block(x, width):
    layers = tf.keras.layers
    y = _normal(layers.DepthwiseConv2D(7, padding="same")(x))
    y = layers.Dense(4 * width, activation="gelu")(y)
    y = layers.Dense(width)(y)
    return layers.Add()([x, _Scale()(y)])


def _normal(x):
    return tf.keras.layers.LayerNormalization(epsilon=1e-6)(x)


class _Scale(tf.keras.layers.Layer):
    """A learned factor for each channel."""

    def build(self, shape):
        small = tf.keras.initializers.Constant(0.1)
        self.gamma = self.add_weight(name="gamma", shape=[shape[-1]], initializer=small)
        super().build(shape)

    def call(self, x):
        return x * self.gamma

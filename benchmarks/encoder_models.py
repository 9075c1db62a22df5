"""Transformers: an encoder of sequences and ViT of Keras' layers, and a hand-written decoder."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from support import keras_models

_PATCH = 16


def encoder(keras: Any, length: int, width: int, blocks: int, heads: int = 12) -> Any:
    """Classifies sequences of vectors [length, width].

    Args:
        keras: the module whose layers are used: tf.keras, or Keras 3 itself.
        length: the length of a sequence.
        width: the size of a vector.
        blocks: the number of blocks, each with attention and two dense layers.
        heads: the heads of each attention.
    """
    inputs = x = keras.Input([length, width])
    for _ in range(blocks):
        x = _block(keras.layers, x, heads)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    # With any policy, logits are float32, as Keras' guide to mixed precision recommends.
    logits = keras.layers.Dense(keras_models.CLASSES, dtype="float32")
    return keras.Model(inputs, logits(x))


def vit(size: int, width: int, blocks: int, heads: int) -> tf.keras.Model:
    """A vision transformer for square images of this size, in patches of 16 by 16 pixels."""
    layers = tf.keras.layers
    inputs = tf.keras.Input([size, size, 3])
    x = layers.Conv2D(width, _PATCH, strides=_PATCH)(inputs)
    x = layers.Reshape([(size // _PATCH) ** 2, width])(x)
    x = _ClassTokenAndPositions()(x)
    for _ in range(blocks):
        x = _block(layers, x, heads)
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    return tf.keras.Model(inputs, layers.Dense(keras_models.CLASSES)(x[:, 0]))


def decoder(length: int, width: int, blocks: int, heads: int = 12) -> tf.keras.Model:
    """Classifies the next element of sequences [length, width]; attention is written by hand."""
    layers = tf.keras.layers
    inputs = x = tf.keras.Input([length, width])
    for _ in range(blocks):
        normal = layers.LayerNormalization(epsilon=1e-6)(x)
        q, k, v = (layers.Dense(width)(normal) for _ in range(3))
        x = layers.Add()([x, layers.Dense(width)(_CausalAttention(heads)([q, k, v]))])
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    return tf.keras.Model(inputs, layers.Dense(keras_models.CLASSES)(x[:, -1]))


def _block(layers: Any, x: Any, heads: int) -> Any:
    """The usual block: layer norms before attention and before the dense layers, exact GELU."""
    width = x.shape[-1]
    normal = layers.LayerNormalization(epsilon=1e-6)(x)
    x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(normal, normal)])
    normal = layers.LayerNormalization(epsilon=1e-6)(x)
    wide = layers.Dense(4 * width, activation="gelu")(normal)
    return layers.Add()([x, layers.Dense(width)(wide)])


class _CausalAttention(tf.keras.layers.Layer):
    """Adds a mask to the scores that keeps a word from attending to later ones."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self._heads = heads

    def call(self, tensors: list[tf.Tensor]) -> tf.Tensor:
        _, length, width = tensors[0].shape
        split = [-1, length, self._heads, width // self._heads]
        q, k, v = (tf.transpose(tf.reshape(x, split), [0, 2, 1, 3]) for x in tensors)
        mask = (1 - tf.linalg.band_part(tf.ones([1, 1, length, length]), -1, 0)) * -1e9
        scores = tf.matmul(q, k, transpose_b=True) / (width // self._heads) ** 0.5 + mask
        values = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
        return tf.reshape(values, [-1, length, width])


class _ClassTokenAndPositions(tf.keras.layers.Layer):
    """Puts a learned token before the patches, and adds a learned vector for each place."""

    def build(self, shape):
        patches, width = shape[1:]
        initializer = tf.keras.initializers.RandomNormal(stddev=0.02)
        self.token = self.add_weight(name="token", shape=[1, 1, width], initializer=initializer)
        self.positions = self.add_weight(
            name="positions", shape=[1, patches + 1, width], initializer=initializer
        )
        super().build(shape)

    def call(self, patches):
        token = tf.repeat(self.token, tf.shape(patches)[0], axis=0)
        return tf.concat([token, patches], axis=1) + self.positions

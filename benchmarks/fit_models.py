"""Compiled Keras models, and the data that a step of their fit gets."""

from __future__ import annotations

import encoder_models
import numpy as np
import tensorflow as tf
from support import keras_models


def _cnn() -> tf.keras.Model:
    layers = tf.keras.layers
    inputs = x = tf.keras.Input([64, 64, 3])
    for filters in (64, 128, 256):
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling2D()(x)
    return _classifier(inputs, layers.GlobalAveragePooling2D()(x))


def _transformer() -> tf.keras.Model:
    return encoder_models.encoder(tf.keras, length=128, width=384, blocks=2, heads=6)


def _recommender() -> tf.keras.Model:
    """Twenty-six features with a table each, as in the data of advertisements."""
    layers = tf.keras.layers
    inputs = tf.keras.Input([26], dtype="int32")
    tables = [layers.Embedding(20_000, 32)(inputs[:, k]) for k in range(26)]
    x = layers.Concatenate()(tables)
    for units in (512, 256):
        x = layers.Dense(units, "relu")(x)
    return _classifier(inputs, x)


def _efficientnet_b0() -> tf.keras.Model:
    return _application("EfficientNetB0")


def _mobilenet_v3_small() -> tf.keras.Model:
    return _application("MobileNetV3Small")


def _application(name: str) -> tf.keras.Model:
    body = getattr(tf.keras.applications, name)(
        include_top=False, weights=None, input_shape=(128, 128, 3), pooling="avg"
    )
    return _classifier(body.input, body.output)


def _classifier(inputs, features) -> tf.keras.Model:
    # Logits are float32, as Keras' guide to mixed precision recommends.
    dense = tf.keras.layers.Dense(keras_models.CLASSES, dtype="float32")
    return tf.keras.Model(inputs, dense(features))


# By name: the model, and the size of a batch.
_BUILDERS = {
    "cnn": (_cnn, 32),
    "transformer": (_transformer, 8),
    "recommender": (_recommender, 2048),
    "efficientnet_b0": (_efficientnet_b0, 8),
    "mobilenet_v3_small": (_mobilenet_v3_small, 8),
}
NAMES = tuple(_BUILDERS)


def compiled(name: str) -> tuple[tf.keras.Model, tf.data.Dataset]:
    """A model with new weights under the global policy, and a batch that repeats endlessly."""
    builder, batch = _BUILDERS[name]
    keras_models.set_seed()
    model = builder()
    model.compile(
        tf.keras.optimizers.Adam(1e-4),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        # Keras 3 compiles by XLA where it can, which no contender but the policy reaches.
        jit_compile=False,
    )
    random = np.random.default_rng(keras_models.SEED)
    labels = random.integers(0, keras_models.CLASSES, batch).astype(np.int32)
    data = (keras_models.examples(model, batch), labels)
    return model, tf.data.Dataset.from_tensors(data).cache().repeat()

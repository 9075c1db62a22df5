"""Keras 3 models that are called live: in a tf.function, with their weights in variables."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import encoder_models
import numpy as np
from support import keras_models

# Batch norms learn their statistics from so many inputs, in one step.
_CALIBRATION = 16
_SIZE = 224


def _cnn(keras: Any) -> Any:
    layers = keras.layers
    inputs = x = keras.Input([64, 64, 3])
    for _ in range(5):
        x = layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return classifier(keras, inputs, layers.GlobalAveragePooling2D()(x))


def _application(name: str) -> Any:
    def build(keras: Any) -> Any:
        body = getattr(keras.applications, name)(
            include_top=False, weights=None, input_shape=(_SIZE, _SIZE, 3), pooling="avg"
        )
        return classifier(keras, body.input, body.output, name.lower())

    return build


def _encoder(keras: Any) -> Any:
    return encoder_models.encoder(keras, length=128, width=384, blocks=3, heads=6)


def _lstm(keras: Any) -> Any:
    inputs = keras.Input([64, 64])
    return classifier(keras, inputs, keras.layers.LSTM(128)(inputs))


def classifier(keras: Any, inputs: Any, features: Any, name: str | None = None) -> Any:
    """A model of the inputs that ends with a Dense of logits."""
    # Logits are float32, as Keras' guide to mixed precision recommends.
    dense = keras.layers.Dense(keras_models.CLASSES, dtype="float32")
    return keras.Model(inputs, dense(features), name=name)


# By name: the model, and the size of a batch.
_BUILDERS = {
    "cnn": (_cnn, 16),
    "resnet50": (_application("ResNet50"), 4),
    "efficientnet_b0": (_application("EfficientNetB0"), 4),
    "mobilenet_v3_small": (_application("MobileNetV3Small"), 4),
    "densenet121": (_application("DenseNet121"), 4),
    "encoder": (_encoder, 8),
    "lstm": (_lstm, 32),
}
NAMES = tuple(_BUILDERS)


def obstacle() -> str | None:
    """Why the models cannot be built here, or None."""
    version = importlib.metadata.version("keras")
    return f"it needs Keras 3, and this is Keras {version}" if version < "3" else None


def built(name: str, policy: str) -> Any:
    """One of NAMES with new weights, always the same, whose layers compute in the Keras policy."""
    return in_policy(policy, _BUILDERS[name][0])


def in_policy(policy: str, build: Callable[[Any], Any]) -> Any:
    """What build(keras) makes, with weights that are always the same, in the Keras policy."""
    import keras

    keras.utils.set_random_seed(keras_models.SEED)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return build(keras)
    finally:
        keras.config.set_dtype_policy(before)


def calibrate(model: Any) -> None:
    """Gives the batch norms the statistics of the inputs."""
    keras_models.take_batch_norm_statistics(model, _CALIBRATION)


def batch(name: str, model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [batch, ...] and labels [batch] of a step of one of NAMES."""
    return batch_of(model, _BUILDERS[name][1])


def batch_of(model: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [count, ...] of a model, and labels [count]."""
    random = np.random.default_rng(keras_models.SEED)
    labels = random.integers(0, keras_models.CLASSES, count).astype(np.int32)
    return keras_models.examples(model, count), labels

"""The models of the inference rows: real architectures at full size; weights look trained."""

from __future__ import annotations

import importlib.util
from typing import Any

import convnext_model
import encoder_models
import numpy as np
import tensorflow as tf
from support import keras_models


def _keywords(layer: type) -> tf.keras.Model:
    """Spots a word in a second of speech: 100 frames of 80 mel bands."""
    return tf.keras.Sequential(
        [
            tf.keras.Input([100, 80]),
            *(layer(256, return_sequences=True) for _ in range(3)),
            layer(256),
            tf.keras.layers.Dense(keras_models.CLASSES),
        ]
    )


def _keras3_transformer() -> Any:
    import keras  # Keras 3, also where tf.keras is Keras 2

    return encoder_models.encoder(keras, length=128, width=768, blocks=4)


_BUILDERS = {
    "resnet50": lambda: keras_models.application("ResNet50", 224),
    "mobilenet_v2": lambda: keras_models.application("MobileNetV2", 224),
    "mobilenet_v3_large": lambda: keras_models.application("MobileNetV3Large", 224),
    "nasnet_mobile": lambda: keras_models.application("NASNetMobile", 224),
    "densenet121": lambda: keras_models.application("DenseNet121", 224),
    "efficientnet_b0": lambda: keras_models.application("EfficientNetB0", 224),
    "inception_v3": lambda: keras_models.application("InceptionV3", 299),
    "convnext_tiny": lambda: convnext_model.convnext_tiny(224),
    "bert": lambda: keras_models.bert(length=128, layer_norm_eps=1e-12),
    "gpt2": lambda: keras_models.gpt2(length=128),
    "t5_encoder": lambda: keras_models.t5_encoder(length=128),
    "keras2_transformer": lambda: encoder_models.encoder(tf.keras, length=128, width=768, blocks=4),
    "keras3_transformer": _keras3_transformer,
    "vit_small": lambda: encoder_models.vit(224, width=384, blocks=12, heads=6),
    "causal_decoder": lambda: encoder_models.decoder(length=128, width=768, blocks=2),
    "lstm_gru": keras_models.lstm_gru,
    "gru_keywords": lambda: _keywords(tf.keras.layers.GRU),
    "lstm_keywords": lambda: _keywords(tf.keras.layers.LSTM),
}
NAMES = tuple(_BUILDERS)
_BATCH = {"bert": 4, "gpt2": 4}
_USUAL_BATCH = 8
_OF_TRANSFORMERS = ("bert", "gpt2", "t5_encoder")


def model(name: str) -> tuple[Any, np.ndarray]:
    """The model of this name, and a batch of inputs.

    Raises:
        RuntimeError: the model cannot be built in this environment; the message says why.
    """
    reason = obstacle(name)
    if reason is not None:
        raise RuntimeError(f"{name}: {reason}")
    built = keras_models.with_realistic_weights(_BUILDERS[name])
    return built, keras_models.examples(built, _BATCH.get(name, _USUAL_BATCH))


def obstacle(name: str) -> str | None:
    """Why the model of this name cannot be built in this environment, or None."""
    if name in _OF_TRANSFORMERS and importlib.util.find_spec("transformers") is None:
        return "only an environment with transformers builds it, as the one of `make bench`"
    if name == "keras2_transformer" and not _has_keras_2():
        return "only Keras 2 builds it, as in `make bench`"
    if name == "keras3_transformer" and not _has_keras_3():
        return "only Keras 3 builds it, as in `.venv/bin/nox -s bench-tf221 -- --only " + name + "`"
    return None


def _has_keras_2() -> bool:
    return hasattr(tf.compat.v1.keras.backend, "set_session")


def _has_keras_3() -> bool:
    import keras

    return int(keras.__version__.partition(".")[0]) >= 3

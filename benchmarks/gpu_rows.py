"""The rows of the benchmark on a GPU: which model runs, how large, and in what way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import encoder_models
import live_models
from support import keras_models

# By kind: what a step is.
KINDS = {
    "inference": "a tf.function of the model",
    "sgd": "a training step of SGD with momentum, in a tf.function",
    "adam": "a training step of Adam, in a tf.function",
    "frozen": "the frozen graph, in a session",
    "compiled inference": "as inference, compiled by XLA",
    "compiled sgd": "as sgd, compiled by XLA",
    "compiled adam": "as adam, compiled by XLA",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        model: one of MODELS.
        batch: the size of a batch.
        kind: one of KINDS.
    """

    model: str
    batch: int
    kind: str

    @property
    def name(self) -> str:
        """The row's name in the table and for --only."""
        return f"{self.model} {self.batch} {self.kind}"

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the step."""
        return self.kind.startswith("compiled ")


def _application(name: str) -> Callable[[Any, bool], Any]:
    def build(keras: Any, small: bool) -> Any:
        size = 32 if small else 224
        body = getattr(keras.applications, name)(
            include_top=False, weights=None, input_shape=(size, size, 3), pooling="avg"
        )
        return live_models.classifier(keras, body.input, body.output)

    return build


def _encoder(keras: Any, small: bool) -> Any:
    length, width, blocks, heads = (8, 32, 1, 2) if small else (128, 768, 12, 12)
    return encoder_models.encoder(keras, length, width, blocks, heads)


def _decoder(keras: Any, small: bool) -> Any:
    length, width, blocks, heads = (8, 32, 1, 2) if small else (128, 768, 12, 12)
    return encoder_models.decoder(length, width, blocks, heads)


def _unet(keras: Any, small: bool) -> Any:
    """U-Net with batch norms: four levels down and up, joined; it classifies each pixel."""
    layers = keras.layers

    def twice(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        return x

    size, width = (32, 8) if small else (256, 64)
    inputs = x = keras.Input([size, size, 3])
    levels = []
    for level in range(2 if small else 4):
        x = twice(x, width << level)
        levels.append(x)
        x = layers.MaxPooling2D()(x)
    x = twice(x, width << len(levels))
    for level, across in reversed(list(enumerate(levels))):
        x = layers.Conv2DTranspose(width << level, 2, strides=2)(x)
        x = twice(layers.Concatenate()([across, x]), width << level)
    logits = layers.Conv2D(keras_models.CLASSES, 1, dtype="float32")(x)
    return keras.Model(inputs, layers.GlobalAveragePooling2D(dtype="float32")(logits))


def _conv60(keras: Any, small: bool) -> Any:
    """Convolutions whose channels are no multiple of 8, which tensor cores want in float16."""
    inputs = x = keras.Input([8 if small else 56] * 2 + [60])
    for _ in range(8):
        x = keras.layers.Conv2D(60, 3, padding="same", activation="relu")(x)
    return live_models.classifier(keras, inputs, keras.layers.GlobalAveragePooling2D()(x))


def _lstm(keras: Any, small: bool) -> Any:
    length, width = (8, 16) if small else (128, 512)
    inputs = x = keras.Input([length, width])
    for is_last in (False, True):
        x = keras.layers.LSTM(width, return_sequences=not is_last)(x)
    return live_models.classifier(keras, inputs, x)


MODELS: dict[str, Callable[[Any, bool], Any]] = {
    "resnet50": _application("ResNet50"),
    "efficientnet_b0": _application("EfficientNetB0"),
    "encoder": _encoder,
    "decoder": _decoder,
    "unet": _unet,
    "lstm": _lstm,
    "conv60": _conv60,
}
_SIZES = {
    "resnet50": (256, 128),
    "efficientnet_b0": (256, 128),
    "encoder": (128, 32),
    "decoder": (32,),
    "unet": (16,),
    "lstm": (128,),
    "conv60": (128,),
}
# A run may be cut off: one row of each sort comes first, and what XLA compiles for a minute last.
_FIRST = (
    Row("resnet50", 256, "sgd"),
    Row("resnet50", 128, "inference"),
    Row("encoder", 32, "adam"),
    Row("encoder", 128, "inference"),
    Row("efficientnet_b0", 128, "sgd"),
    Row("efficientnet_b0", 128, "inference"),
    Row("unet", 16, "sgd"),
    Row("unet", 16, "inference"),
    Row("decoder", 32, "adam"),
    Row("decoder", 32, "inference"),
    Row("lstm", 128, "sgd"),
    Row("lstm", 128, "inference"),
    Row("conv60", 128, "inference"),
    Row("resnet50", 128, "frozen"),
    Row("encoder", 32, "frozen"),
    Row("encoder", 32, "compiled adam"),
    Row("resnet50", 128, "compiled sgd"),
)
_ALL = [Row(model, batch, kind) for kind in KINDS for model in MODELS for batch in _SIZES[model]]
ROWS = (*_FIRST, *(row for row in _ALL if row not in _FIRST))


def built(model: str, policy: str, small: bool) -> Any:
    """A Keras 3 model with new weights, always the same, whose layers compute in the policy."""
    return live_models.in_policy(policy, lambda keras: MODELS[model](keras, small))

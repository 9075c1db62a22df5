"""The frozen inference graphs: Keras models at full size, with weights that look trained.

Building them takes a minute or two, so they are kept in a folder; any TensorFlow can read them.
"""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf
from support import keras_models


def _gru_keywords() -> tf.keras.Model:
    """Spots a word in a second of speech: 100 frames of 80 mel bands."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input([100, 80]),
            *(layers.GRU(256, return_sequences=True) for _ in range(3)),
            layers.GRU(256),
            layers.Dense(keras_models.CLASSES),
        ]
    )


_BUILDERS = {
    "resnet50": lambda: keras_models.application("ResNet50", 224),
    "mobilenet_v2": lambda: keras_models.application("MobileNetV2", 224),
    "densenet121": lambda: keras_models.application("DenseNet121", 224),
    "efficientnet_b0": lambda: keras_models.application("EfficientNetB0", 224),
    "inception_v3": lambda: keras_models.application("InceptionV3", 299),
    "bert_base": lambda: keras_models.bert(length=128),
    "lstm_gru": keras_models.lstm_gru,
    "gru_keywords": _gru_keywords,
}
NAMES = tuple(_BUILDERS)
_BATCH = {"bert_base": 4}
_USUAL_BATCH = 8


@dataclasses.dataclass(frozen=True)
class FrozenGraph:
    """A graph whose placeholder "x" is fed, and whose tensor "Identity:0" is fetched.

    Attributes:
        name: one of NAMES.
        path: of the binary GraphDef.
        x: what to feed, [batch, ...].
    """

    name: str
    path: pathlib.Path
    x: np.ndarray
    feed: str = "x:0"
    fetch: str = "Identity:0"

    def graph_def(self) -> tf.compat.v1.GraphDef:
        """Reads the file."""
        return tf.compat.v1.GraphDef.FromString(self.path.read_bytes())


def frozen_graph(name: str, folder: pathlib.Path) -> FrozenGraph:
    """The graph of this name, built into the folder unless it is there."""
    path, x_path = folder / f"{name}.pb", folder / f"{name}.npy"
    if not (path.exists() and x_path.exists()):
        _build(name, path, x_path)
    return FrozenGraph(name, path, np.load(x_path))


def _build(name: str, path: pathlib.Path, x_path: pathlib.Path) -> None:
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    model = keras_models.with_realistic_weights(_BUILDERS[name])
    x = keras_models.examples(model, _BATCH.get(name, _USUAL_BATCH))
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(x.shape, x.dtype, name="x"))
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(x_path, x)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(frozen.graph.as_graph_def().SerializeToString())
    unfinished.rename(path)
    tf.keras.backend.clear_session()

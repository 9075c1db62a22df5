"""SavedModels of some inference models, of any batch size, as a server gets them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile

import inference_models
import numpy as np
import tensorflow as tf

NAMES = ("efficientnet_b0", "mobilenet_v3_large", "gru_keywords", "lstm_keywords")
SIGNATURE = "serving_default"
_ARGUMENT = "x"


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A SavedModel with one signature, of one input and one output.

    Attributes:
        folder: the folder of the model.
        x: the value to feed, [batch, ...].
    """

    folder: pathlib.Path
    x: np.ndarray


def saved_model(name: str, folder: pathlib.Path) -> SavedModel:
    """The model of this name, built into the folder unless it is there.

    It has the weights, and the inputs, of the frozen graph of the same name.
    """
    path = folder / f"{name}.saved_model"
    x_path = path / "assets.extra" / "x.npy"
    if not path.exists():
        _build(name, path, x_path.relative_to(path))
    return SavedModel(path, np.load(x_path))


def _build(name: str, path: pathlib.Path, x_path: pathlib.Path) -> None:
    model, x = inference_models.model(name)
    module = tf.Module()
    # Not the model itself: that would also save the functions of each of its layers.
    module.weights = model.variables
    spec = tf.TensorSpec([None, *x.shape[1:]], x.dtype, name=_ARGUMENT)
    module.serve = tf.function(lambda x: model(x, training=False), input_signature=[spec])
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        unfinished = pathlib.Path(scratch) / path.name
        tf.saved_model.save(module, str(unfinished), signatures={SIGNATURE: module.serve})
        (unfinished / x_path).parent.mkdir(exist_ok=True)
        np.save(unfinished / x_path, x)
        os.rename(unfinished, path)
    tf.keras.backend.clear_session()

"""Small models in files, one of each kind that the command reads, with real values."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.accuracy import frozen
from npu_precision.offline import model_file
from support.text_graph import read_graph

tf1 = tf.compat.v1

# The nodes after Exp are kept; Relu is lowered.
FROZEN = """
    x = Placeholder(shape=4x8)
    w = Const(shape=8x8)
    product = MatMul(x, w)
    lowered = Relu(product)
    scale = Exp(x)
    both = AddV2(product, scale)
    after = Tanh(both)
    out = MatMul(lowered, after, transpose_b=True)
    """


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The paths of the models, as text."""

    cnn: str  # A Keras CNN, as a SavedModel.
    lstm: str  # A Keras LSTM, as a SavedModel.
    checkpoint: str  # A prefix; beside it is the MetaGraph of a TF1 training graph.
    frozen: str  # A GraphDef, binary.
    frozen_text: str  # The same as text.


def write_all(folder: pathlib.Path) -> ModelFiles:
    layers = tf.keras.layers
    cnn = tf.keras.Sequential(
        [
            tf.keras.Input([12, 12, 3]),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(10, activation="softmax"),
        ]
    )
    lstm = tf.keras.Sequential([tf.keras.Input([5, 4]), layers.LSTM(8), layers.Dense(2)])
    frozen = read_graph(FROZEN)
    (folder / "frozen.pb").write_bytes(frozen.SerializeToString())
    (folder / "frozen.pbtxt").write_text(str(frozen))
    return ModelFiles(
        cnn=_saved(cnn, folder / "cnn"),
        lstm=_saved(lstm, folder / "lstm"),
        checkpoint=_training(folder / "training"),
        frozen=str(folder / "frozen.pb"),
        frozen_text=str(folder / "frozen.pbtxt"),
    )


def input_name(path):
    """The name of a model's only input, which contains a number from Keras."""
    (name,) = frozen.freeze(model_file.load_model(path)).inputs
    return name


def _saved(model, folder):
    random = np.random.default_rng(0)
    weights = [random.normal(size=w.shape) / w[..., 0].size ** 0.5 for w in model.get_weights()]
    # A batch norm's variance is positive.
    model.set_weights([abs(w) if w.ndim == 1 else w for w in weights])
    if hasattr(model, "export"):
        model.export(str(folder))
    else:
        tf.saved_model.save(model, str(folder))
    return str(folder)


def _training(folder):
    """Writes a TF1 training graph, with a checkpoint after one step."""
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 8], name="x")
        labels = tf1.placeholder(tf.int64, [None], name="labels")
        w1 = tf1.get_variable("w1", initializer=_random(8, 16))
        w2 = tf1.get_variable("w2", initializer=_random(16, 3))
        hidden = tf.nn.relu(tf.matmul(x, w1, name="product"), name="hidden")
        logits = tf.matmul(tf.exp(-hidden, name="scale"), w2, name="logits")
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        train_op = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run(tf1.global_variables_initializer())
        session.run(train_op, {x: _random(4, 8), labels: [0, 1, 2, 0]})
        return _tf_compat.tf1.train.Saver().save(session, str(folder / "model.ckpt"), 1)


def _random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)

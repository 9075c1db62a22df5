"""Training graphs with one step each, as TF1 scripts build them."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import tensorflow as tf
from support import keras_models

tf1 = tf.compat.v1
CLASSES = 10


@dataclasses.dataclass(frozen=True)
class TrainingGraph:
    """A graph with its initializer, and one step of training.

    Attributes:
        name: one of NAMES.
        graph: the graph.
        init, step, loss: names of ops and of the loss's tensor.
        feeds: the values to feed to a step, by tensor name.
    """

    name: str
    graph: tf.Graph
    init: str
    step: str
    loss: str
    feeds: dict[str, np.ndarray]


def _dense(x, units, activation=None):
    return tf1.layers.dense(x, units, activation)


def _mlp(x):
    for _ in range(3):
        x = _dense(x, 2048, tf.nn.relu)
    return _dense(x, CLASSES)


def _vgg_like(x):
    for filters in (64, 128, 256):
        for _ in range(2):
            x = tf1.layers.conv2d(x, filters, 3, padding="same", activation=tf.nn.relu)
        x = tf1.layers.max_pooling2d(x, 2, 2)
    return _dense(_dense(tf1.layers.flatten(x), 512, tf.nn.relu), CLASSES)


def _lstm(x):
    cell = tf1.nn.rnn_cell.LSTMCell(256)
    outputs, _ = tf1.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    return _dense(outputs[:, -1], CLASSES)


def _resnet50(x):
    model = tf.keras.applications.ResNet50(
        weights=None, input_tensor=x, classes=CLASSES, classifier_activation=None
    )
    return model(x, training=True)


# By name: the layers and the shape of a batch.
_BUILDERS = {
    "vgg_like": (_vgg_like, [32, 64, 64, 3]),
    "mlp": (_mlp, [256, 1024]),
    "lstm": (_lstm, [64, 32, 128]),
    "resnet50": (_resnet50, [8, 128, 128, 3]),
}
NAMES = tuple(_BUILDERS)


def training_graph(name: str) -> TrainingGraph:
    """A step of momentum on the mean cross entropy of one batch."""
    layers, shape = _BUILDERS[name]
    random = np.random.default_rng(keras_models.SEED)
    with tf.Graph().as_default() as graph, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such scripts use tf.layers, which is deprecated
        keras_models.set_seed()
        x = tf1.placeholder(tf.float32, shape, name="x")
        labels = tf1.placeholder(tf.int32, shape[:1], name="labels")
        loss = tf1.losses.sparse_softmax_cross_entropy(labels, layers(x))
        step = tf1.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = {
        "x:0": random.normal(size=shape).astype(np.float32),
        "labels:0": random.integers(0, CLASSES, shape[0]).astype(np.int32),
    }
    return TrainingGraph(name, graph, init.name, step.name, loss.name, feeds)

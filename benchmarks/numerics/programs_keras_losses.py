"""Every loss of Keras, at the end of a small model that learns."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import KerasTraining, classes, normal, program, uniform

_COUNT, _WIDTH, _CLASSES = 32, 12, 4
keras = tf.keras


def _inputs() -> np.ndarray:
    return normal(0, _COUNT, _WIDTH)


def _model(activation=None, units=_CLASSES) -> tf.keras.Model:
    dense = [keras.layers.Dense(16, "relu"), keras.layers.Dense(units, activation)]
    return keras.Sequential(dense)


def _one_hot() -> np.ndarray:
    return np.eye(_CLASSES, dtype=np.float32)[classes(1, _COUNT, _CLASSES)]


def _bits() -> np.ndarray:
    return classes(2, _COUNT * _CLASSES, 2).reshape(_COUNT, _CLASSES).astype(np.float32)


def _numbers() -> np.ndarray:
    """Targets that can be learnt: a linear function of the inputs, and noise."""
    return _inputs() @ normal(3, _WIDTH, _CLASSES, scale=0.3) + normal(4, _COUNT, _CLASSES)


def _signs() -> np.ndarray:
    return np.sign(_numbers()) + (_numbers() == 0)


def _counts() -> np.ndarray:
    return np.floor(np.exp(_numbers() / 2)).astype(np.float32)


def _shares() -> np.ndarray:
    powers = np.exp(_numbers())
    return powers / powers.sum(1, keepdims=True)


def _add(name, loss, targets, activation=None, **options):
    @program(f"keras {name}", kind="training", **options)
    def build():
        return KerasTraining(_model(activation), loss(), _inputs(), targets())


losses = keras.losses
_add("BinaryCrossentropy of sigmoid", losses.BinaryCrossentropy, _bits, "sigmoid")
_add("BinaryCrossentropy of logits", lambda: losses.BinaryCrossentropy(True), _bits)
_add(
    "BinaryCrossentropy with label smoothing",
    lambda: losses.BinaryCrossentropy(label_smoothing=0.1),
    _bits,
    "sigmoid",
)
_add("BinaryFocalCrossentropy", losses.BinaryFocalCrossentropy, _bits, "sigmoid")
_add(
    "BinaryFocalCrossentropy of logits",
    lambda: losses.BinaryFocalCrossentropy(True, from_logits=True),
    _bits,
)
_add("CategoricalCrossentropy of softmax", losses.CategoricalCrossentropy, _one_hot, "softmax")
_add("CategoricalCrossentropy of logits", lambda: losses.CategoricalCrossentropy(True), _one_hot)
_add(
    "CategoricalCrossentropy with label smoothing",
    lambda: losses.CategoricalCrossentropy(label_smoothing=0.1),
    _one_hot,
    "softmax",
)
_add("CategoricalFocalCrossentropy", losses.CategoricalFocalCrossentropy, _one_hot, "softmax")
_add(
    "SparseCategoricalCrossentropy of softmax",
    losses.SparseCategoricalCrossentropy,
    lambda: classes(1, _COUNT, _CLASSES),
    "softmax",
)
_add(
    "SparseCategoricalCrossentropy of logits",
    lambda: losses.SparseCategoricalCrossentropy(True),
    lambda: classes(1, _COUNT, _CLASSES),
)
_add("CategoricalHinge", losses.CategoricalHinge, _one_hot)
_add("CosineSimilarity", losses.CosineSimilarity, _numbers)
_add("Hinge", losses.Hinge, _signs, "tanh")
_add("SquaredHinge", losses.SquaredHinge, _signs, "tanh")
_add("Huber", losses.Huber, _numbers)
_add("KLDivergence", losses.KLDivergence, _shares, "softmax")
_add("LogCosh", losses.LogCosh, _numbers)
_add("MeanAbsoluteError", losses.MeanAbsoluteError, _numbers)
_add("MeanSquaredError", losses.MeanSquaredError, _numbers)
_add("MeanSquaredError of large targets", losses.MeanSquaredError, lambda: 300 * _numbers())
_add(
    "MeanAbsolutePercentageError",
    losses.MeanAbsolutePercentageError,
    lambda: uniform(5, _COUNT, _CLASSES, low=0.5, high=2.0),
)
_add("MeanSquaredLogarithmicError", losses.MeanSquaredLogarithmicError, _counts, "softplus")
_add("Poisson", losses.Poisson, _counts, "softplus")
_add("Poisson of exp", losses.Poisson, _counts, "exponential")


@program("keras BinaryCrossentropy of a Sigmoid and a Reshape", kind="training")
def sigmoid_and_reshape():
    model = _model("sigmoid")
    model.add(keras.layers.Reshape([2, 2]))
    targets = _bits().reshape(_COUNT, 2, 2)
    return KerasTraining(model, losses.BinaryCrossentropy(), _inputs(), targets)


@program("keras binary crossentropy of a sure model, after a Reshape", kind="training")
def sure_model():
    """A model that overfits: its probabilities come near 1, where low dtypes have no steps."""
    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential([*layers, keras.layers.Reshape([])])
    targets = classes(2, _COUNT, 2).astype(np.float32)
    loss = losses.BinaryCrossentropy()
    return KerasTraining(model, loss, _inputs(), targets, steps=200, rate=0.05)


@program("keras categorical crossentropy of a convolution and Softmax", kind="training")
def convolution():
    layers = keras.layers
    stack = [layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization()]
    stack += [layers.GlobalAveragePooling2D(), layers.Dense(_CLASSES), layers.Softmax()]
    images = normal(6, _COUNT, 8, 8, 3)
    loss = losses.SparseCategoricalCrossentropy()
    return KerasTraining(keras.Sequential(stack), loss, images, classes(1, _COUNT, _CLASSES))


@program("keras LSTM that counts", kind="training")
def counting_lstm():
    model = keras.Sequential([keras.layers.LSTM(8), keras.layers.Dense(1)])
    inputs = uniform(7, _COUNT, 10, 2)
    targets = inputs[:, :, 0].sum(1, keepdims=True)
    return KerasTraining(model, losses.MeanSquaredError(), inputs, targets)

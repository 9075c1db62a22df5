"""A small model and its training, for the tests of loss scaling."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import npu_precision

tf1 = tf.compat.v1

OPTIMIZERS = {
    "keras sgd": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "keras adam": lambda: tf.keras.optimizers.Adam(0.1),
    "tf1 momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
}
if hasattr(tf1.keras.backend, "set_session") and hasattr(tf.keras.optimizers, "legacy"):
    OPTIMIZERS["keras legacy adam"] = lambda: tf.keras.optimizers.legacy.Adam(0.1)
each_optimizer = pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
each_place = pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])


class Model:
    """An embedding, whose gradient is IndexedSlices, a weight, and a variable without consumers."""

    def __init__(self):
        self.table = tf.Variable(np.linspace(-1, 1, 24).reshape(12, 2).astype("f"))
        self.weight = tf.Variable(tf.ones([2, 3]))
        self.unread = tf.Variable(1.0)
        self.variables = [self.table, self.weight, self.unread]

    def loss(self, factor):
        rows = tf.gather(self.table, [0, 3, 3])
        return tf.reduce_mean(tf.square(tf.matmul(rows, self.weight) * factor - 1.0))

    def gradients(self, scaler, factor):
        with tf.GradientTape() as tape:
            loss = scaler.scale(self.loss(factor))
        return tape.gradient(loss, self.variables)

    def values(self):
        return [variable.numpy() for variable in self.variables]


def train(scaler, optimizer, place, factors, clip=False):
    """Trains one step per factor; returns the model, and whether each step was made."""
    model = Model()

    @place
    def step(factor):
        gradients = model.gradients(scaler, factor)
        if clip:
            gradients = scaler.unscale_(optimizer, gradients)
            gradients = [None if g is None else tf.clip_by_norm(g, 0.5) for g in gradients]
        made = scaler.step(optimizer, with_gradient(zip(gradients, model.variables)))
        scaler.update()
        return made

    return model, [bool(step(tf.constant(factor))) for factor in factors]


def with_gradient(pairs):
    return [(gradient, variable) for gradient, variable in pairs if gradient is not None]


def new_scaler_optimizer_and_variable(**arguments):
    return (
        npu_precision.GradScaler(**{"init_scale": 8.0, **arguments}),
        tf.keras.optimizers.SGD(1.0),
        tf.Variable(1.0),
    )


def gradient_of(scaler, variable, factor=1.0):
    with tf.GradientTape() as tape:
        loss = scaler.scale(variable * factor)
    return tape.gradient(loss, variable)


def exponential(start, **arguments):
    """Returns a factory of ExponentialUpdateLossScaleManagers that change only on overflows."""
    arguments = {"incr_every_n_steps": 1000, "decr_every_n_nan_or_inf": 1, **arguments}
    return lambda: npu_precision.ExponentialUpdateLossScaleManager(start, **arguments)


def sgd():
    return tf1.train.GradientDescentOptimizer(0.1)

"""Trains two small networks on handwritten digits, in tf.functions and in sessions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import npu_precision

tf1 = tf.compat.v1
BATCH, STEPS, RATE = 64, 400, 0.1
_images, DIGITS = load_digits(return_X_y=True)
IMAGES = (_images / 16).astype(np.float32)
_order = np.random.default_rng(0).permutation(len(IMAGES))
TRAINING, HELD_OUT = _order[:1000], _order[1000:]


def _weights(**shapes):
    random = np.random.default_rng(1)
    return {
        name: (random.normal(size=shape) * np.prod(shape[:-1]) ** -0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


class Convolutions:
    """Two convolutions and a dense layer."""

    initial = _weights(first=[3, 3, 1, 8], second=[3, 3, 8, 8], dense=[32, 10])

    @staticmethod
    def logits(weights, images):
        x = tf.reshape(images, [-1, 8, 8, 1])
        for name in "first", "second":
            x = tf.nn.relu(tf.nn.conv2d(x, weights[name], [1, 1, 1, 1], "SAME"))
            x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        return tf.matmul(tf.reshape(x, [-1, 32]), weights["dense"])


class Recurrent:
    """An LSTM that reads row by row in a loop, and a dense layer."""

    initial = _weights(cell=[8 + 32 + 1, 4 * 32], dense=[32, 10])

    @staticmethod
    def logits(weights, images):
        rows = tf.transpose(tf.reshape(images, [-1, 8, 8]), [1, 0, 2])
        zeros = tf.zeros([tf.shape(images)[0], 32])

        def read(row, state, output):
            x = tf.concat([rows[row], output, zeros[:, :1] + 1.0], 1)
            i, f, o, new = tf.split(tf.matmul(x, weights["cell"]), 4, 1)
            state = tf.sigmoid(f + 1.0) * state + tf.sigmoid(i) * tf.tanh(new)
            return row + 1, state, tf.sigmoid(o) * tf.tanh(state)

        output = tf.while_loop(lambda row, *_: row < 8, read, [tf.constant(0), zeros, zeros])[2]
        return tf.matmul(output, weights["dense"])


MODELS = {"convolutions": Convolutions, "lstm": Recurrent}


def loss_of(logits, labels, factor):
    return factor * tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def batches(steps=STEPS, overflow_at=None):
    """(images, labels, factor) of each step; one of the factors is infinite.

    The factors decay like a learning rate, so that the result of training depends less on chance.
    """
    random = np.random.default_rng(2)
    for step in range(steps):
        batch = random.choice(TRAINING, BATCH)
        inputs = IMAGES[batch], DIGITS[batch].astype(np.int32)
        if step == overflow_at:
            yield (*inputs, np.float32(np.inf))
        yield (*inputs, np.float32(1.0 - step / steps))


def accuracy(model, weights):
    with tf.Graph().as_default(), tf1.Session() as session:
        logits = session.run(model.logits(weights, IMAGES[HELD_OUT]))
    return float(np.mean(np.argmax(logits, 1) == DIGITS[HELD_OUT]))


class Function:
    """A training step in a tf.function, with an optimizer of Keras."""

    def __init__(self, model, factor=1.0):
        self.model = model
        self.weights = {
            name: tf.Variable(value, name=name) for name, value in model.initial.items()
        }
        self.variables = list(self.weights.values())
        self.factor = factor
        self.optimizer = tf.keras.optimizers.SGD(RATE / factor, momentum=0.9)

    def loss(self, images, labels, factor):
        logits = self.model.logits(self.weights, images)
        return loss_of(logits, labels, factor * self.factor)

    def train(self, step, inputs):
        """The weights after a step with each of the inputs."""
        step = tf.function(step)
        for images, labels, factor in inputs:
            step(images, labels, factor)
        return {name: variable.numpy() for name, variable in self.weights.items()}


def train_in_float32(model, inputs, factor=1.0):
    """Trains in float32, on TensorFlow alone."""
    function = Function(model, factor)

    def step(*images_labels_factor):
        with tf.GradientTape() as tape:
            loss = function.loss(*images_labels_factor)
        gradients = tape.gradient(loss, function.variables)
        function.optimizer.apply_gradients(zip(gradients, function.variables))

    return function.train(step, inputs)


def train_with_scaler(model, inputs, factor=1.0, **arguments):
    """Trains with a GradScaler."""
    function, scaler = Function(model, factor), npu_precision.GradScaler(**arguments)

    def step(*images_labels_factor):
        with tf.GradientTape() as tape:
            scaled = scaler.scale(function.loss(*images_labels_factor))
        gradients = tape.gradient(scaled, function.variables)
        scaler.step(function.optimizer, zip(gradients, function.variables))
        scaler.update()

    with npu_precision.autocast(precision_mode="allow_mix_precision"):
        return function.train(step, inputs)


def train_with_amp(model, inputs, factor=1.0, level="O1", **overrides):
    """Trains with amp and an optimizer of Keras."""
    function = Function(model, factor)
    optimizer, _ = npu_precision.amp.initialize(function.optimizer, level, verbosity=0, **overrides)

    def step(*images_labels_factor):
        with tf.GradientTape() as tape:
            loss = function.loss(*images_labels_factor)
            with npu_precision.amp.scale_loss(loss, optimizer) as scaled:
                pass
        gradients = tape.gradient(scaled, function.variables)
        optimizer.apply_gradients(zip(gradients, function.variables))

    return function.train(step, inputs)


def train_in_session(model, inputs, make, factor=1.0):
    """Trains with the (optimizer, ConfigProto) that `make` returns for an optimizer of TF1."""
    with tf.Graph().as_default() as graph:
        weights = {
            name: tf1.get_variable(name, initializer=value, use_resource=True)
            for name, value in model.initial.items()
        }
        images = tf1.placeholder(tf.float32, [None, 64])
        labels = tf1.placeholder(tf.int32, [None])
        extra = tf1.placeholder(tf.float32, [])
        loss = loss_of(model.logits(weights, images), labels, extra * factor)
        optimizer, config = make(tf1.train.MomentumOptimizer(RATE / factor, 0.9))
        step = optimizer.minimize(loss)
        with tf1.Session(graph=graph, config=config) as session:
            session.run(tf1.global_variables_initializer())
            for x, y, z in inputs:
                session.run(step, {images: x, labels: y, extra: z})
            return session.run(weights)


def with_manager(manager, mode="allow_mix_precision"):
    """The argument of train_in_session for npu_bridge's style."""

    def make(optimizer):
        config = npu_precision.npu_config_proto(precision_mode=mode)
        return npu_precision.NPULossScaleOptimizer(optimizer, manager), config

    return make


def with_level(level, **overrides):
    """The argument of train_in_session for amp."""

    def make(optimizer):
        return npu_precision.amp.initialize(optimizer, level, verbosity=0, **overrides)

    return make

"""Every loss of tf.compat.v1.losses, in a session, at the end of two layers that learn."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Graph, classes, normal, program

tf1 = tf.compat.v1
_COUNT, _WIDTH, _CLASSES = 32, 12, 4


def _dense(x, units, seed):
    width = int(x.shape[-1])
    spread = tf1.random_normal_initializer(stddev=width**-0.5, seed=seed)
    weights = tf1.get_variable(f"w{seed}", [width, units], tf.float32, spread)
    bias = tf1.get_variable(f"b{seed}", [units], tf.float32, tf1.zeros_initializer())
    return tf.matmul(x, weights) + bias


def _graph(loss, targets: np.ndarray, activation=tf.identity, **options) -> Graph:
    x = tf1.placeholder(tf.float32, [None, _WIDTH])
    labels = tf1.placeholder(targets.dtype, [None, *targets.shape[1:]])
    outputs = activation(_dense(tf.nn.relu(_dense(x, 16, 1)), _CLASSES, 2))
    feeds = {x: normal(0, _COUNT, _WIDTH), labels: targets}
    return Graph(loss(labels, outputs), feeds, steps=60, **options)


def _ids():
    return classes(1, _COUNT, _CLASSES)


def _one_hot():
    return np.eye(_CLASSES, dtype=np.float32)[_ids()]


def _bits():
    return classes(2, _COUNT * _CLASSES, 2).reshape(_COUNT, _CLASSES).astype(np.float32)


def _numbers():
    return normal(3, _COUNT, _CLASSES)


def _add(name, loss, targets, activation=tf.identity):
    @program(f"tf.losses {name}", kind="training")
    def build():
        return _graph(loss, targets(), activation)


losses = tf1.losses
_add("absolute_difference", losses.absolute_difference, _numbers)
_add(
    "cosine_distance",
    lambda labels, x: losses.cosine_distance(labels, tf.nn.l2_normalize(x, 1), axis=1),
    lambda: _numbers() / np.linalg.norm(_numbers(), axis=1, keepdims=True),
)
_add("hinge_loss", losses.hinge_loss, _bits)
_add("huber_loss", losses.huber_loss, _numbers)
_add("log_loss of sigmoid", losses.log_loss, _bits, tf.sigmoid)
_add("log_loss of softmax", losses.log_loss, _one_hot, tf.nn.softmax)
_add("mean_pairwise_squared_error", losses.mean_pairwise_squared_error, _numbers)
_add("mean_squared_error", losses.mean_squared_error, _numbers)
_add("sigmoid_cross_entropy", losses.sigmoid_cross_entropy, _bits)
_add("softmax_cross_entropy", losses.softmax_cross_entropy, _one_hot)
_add(
    "softmax_cross_entropy with label smoothing",
    lambda labels, x: losses.softmax_cross_entropy(labels, x, label_smoothing=0.1),
    _one_hot,
)
_add("sparse_softmax_cross_entropy", losses.sparse_softmax_cross_entropy, _ids)


@program("tf1 log_loss of a sure model", kind="training")
def sure_log_loss():
    """Large logits: probabilities that a low dtype rounds to 1, and an epsilon of 1e-7."""

    def loss(labels, x):
        return losses.log_loss(labels, tf.reshape(tf.sigmoid(6.0 * x), tf.shape(labels)))

    return _graph(loss, _bits(), rate=0.05)


@program("tf1 cross entropy by hand with 1e-10 in the logarithm", kind="training")
def by_hand():
    def loss(labels, x):
        return -tf.reduce_mean(tf.reduce_sum(labels * tf1.log(tf.nn.softmax(x) + 1e-10), 1))

    return _graph(loss, _one_hot())


@program("tf1 cross entropy by hand with clip_by_value", kind="training")
def clipped():
    def loss(labels, x):
        chances = tf.clip_by_value(tf.sigmoid(4.0 * x), 1e-7, 1 - 1e-7)
        both = labels * tf1.log(chances) + (1 - labels) * tf1.log(1 - chances)
        return -tf.reduce_mean(both)

    return _graph(loss, _bits(), rate=0.05)


@program("tf1 regularized loss, batch norm and moving averages", kind="training")
def regularized():
    def loss(labels, x):
        mean, variance = tf.nn.moments(x, [0])
        x = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
        weights = tf1.trainable_variables()
        penalty = 1e-3 * tf.add_n([tf.nn.l2_loss(w) for w in weights])
        return losses.sparse_softmax_cross_entropy(labels, x) + penalty

    return _graph(loss, _ids())

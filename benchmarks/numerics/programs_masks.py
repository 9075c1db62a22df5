"""Masks outside of attention: pooling, searches, entropies and sums with something left out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, classes, normal, program

_END = 25


def _mask() -> np.ndarray:
    """A mask for 8 rows of 6 places: row n has n places, so row 0 has none."""
    return (np.arange(6)[None] < np.arange(8)[:, None]).astype(np.float32)


def _add(name, function, *more, **options):
    """Adds a program that computes `function(scores of 8 rows and 6 places, mask)`."""

    @program(name, **options)
    def build():
        def whole(x, w, mask, *rest):
            return function(tf.matmul(x, w), mask, *rest)

        return Result(whole, [normal(0, 8, 16), normal(1, 16, 6, scale=0.25), _mask(), *more])


_add("max pooling with -1e9", lambda z, m: tf.reduce_max(z - 1e9 * (1 - m), 1)[1:])
_add("min pooling with + 1e9", lambda z, m: tf.reduce_min(z + 1e9 * (1 - m), 1)[1:])
_add("mean pooling with 1e-9", lambda z, m: tf.reduce_sum(z * m, 1) / (tf.reduce_sum(m, 1) + 1e-9))


def _variance(z, mask):
    count = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1.0)
    mean = tf.reduce_sum(z * mask, 1, keepdims=True) / count
    return tf.sqrt(tf.reduce_sum(mask * tf.square(z - mean), 1, keepdims=True) / count + 1e-8)


_add("masked standard deviation", _variance)


def _log_sum(z, mask):
    masked = tf.where(mask > 0, z, tf.fill(tf.shape(z), -np.inf))
    return tf.reduce_logsumexp(masked, 1)[1:]


_add("logsumexp of a mask with -inf", _log_sum)
_add("log of a mask added to scores", lambda z, m: tf.nn.softmax(z + tf.math.log(m + 1e-45))[1:])


def _entropy(z, mask):
    chances = tf.nn.softmax(5.0 * z - 1e9 * (1.0 - mask))
    return -tf.reduce_sum(chances * tf.math.log(chances + 1e-12), 1)


_add("entropy with log(p + 1e-12)", _entropy)
_add("entropy with xlogy", lambda z, m: -tf.reduce_sum(tf.math.xlogy(m, tf.sigmoid(z) * m), 1))
_add("ALiBi, a slope times a distance", lambda z, m: tf.nn.softmax(z - 64.0 * tf.range(6.0) / 8.0))
_add("top 3 of scores with -1e9", lambda z, m: tf.math.top_k(z - 1e9 * (1 - m), 3)[0][3:])
_add("cumulative softmax, nucleus of 0.9", lambda z, m: tf.cumsum(tf.sort(tf.nn.softmax(z), 1), 1))


def _suppressed(z, mask):
    """Non-maximum suppression by hand: neighbours of the best get a score of -1."""
    best = tf.reduce_max(z, 1, keepdims=True)
    return tf.reduce_sum(tf.where(z >= best, z, -tf.ones_like(z)), 1)


_add("where a value equals the maximum", _suppressed)


def _normalised_adjacency(z, mask):
    a = tf.nn.relu(tf.matmul(z, z, transpose_b=True)) * (1.0 - tf.eye(8))
    degree = tf.reduce_sum(a, 1)
    root = tf.where(degree > 0, tf.math.rsqrt(degree), tf.zeros_like(degree))
    return tf.matmul(root[:, None] * a * root[None], z)


_add("graph convolution, rsqrt of degrees", _normalised_adjacency)


@program("beam search, sums of logarithms and -1e9 for what has ended", seconds=_END)
def beam_search():
    def function(x, w):
        scores = tf.where(tf.range(4) == 0, 0.0, -1e9)
        state = x
        for _ in tf.range(60):
            logs = tf.nn.log_softmax(tf.matmul(state, w))
            together = tf.reshape(scores[:, None] + logs, [-1])
            scores, chosen = tf.math.top_k(together, 4)
            state = tf.tanh(tf.gather(state, chosen // 16) + tf.gather(w, chosen % 16))
        return scores

    return Result(function, [normal(0, 4, 16), normal(1, 16, 16)])


@program("CRF with -1e4 for transitions that are not allowed", seconds=_END)
def crf():
    def function(x, w, allowed):
        emissions = tf.matmul(x, w)
        costs = (1.0 - allowed) * -1e4
        alpha = emissions[0]
        for row in emissions[1:]:
            alpha = tf.reduce_logsumexp(alpha[:, None] + costs, 0) + row
        return alpha

    allowed = (normal(2, 6, 6) > -0.3).astype(np.float32)
    return Result(function, [normal(0, 100, 16), normal(1, 16, 6, scale=0.25), allowed])


@program("LSTM by hand, the padded steps keep the state", seconds=_END)
def masked_steps():
    def function(x, w, mask):
        hidden, cell = tf.zeros([8, 8]), tf.zeros([8, 8])
        for t in tf.range(6):
            gates = tf.matmul(tf.concat([x[:, t], hidden], 1), w)
            i, j, f, o = tf.split(gates, 4, 1)
            new = tf.sigmoid(f + 1.0) * cell + tf.sigmoid(i) * tf.tanh(j)
            seen = mask[:, t, None]
            cell = seen * new + (1.0 - seen) * cell
            hidden = seen * tf.sigmoid(o) * tf.tanh(cell) + (1.0 - seen) * hidden
        return hidden

    return Result(function, [normal(0, 8, 6, 4), normal(1, 12, 32, scale=0.3), _mask()])


@program("sequence loss, weights and a sum of weights + 1e-12", kind="training")
def sequence_loss():
    def loss(variables, x, labels, mask):
        logits = tf.reshape(tf.matmul(x, variables[0]), [8, 6, 5])
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_sum(each * mask) / (tf.reduce_sum(mask) + 1e-12)

    labels = classes(2, 48, 5).reshape(8, 6)
    return Training(loss, [normal(1, 16, 30, scale=0.25)], [normal(0, 8, 16), labels, _mask()])


@program("mixture of experts, gates of the top 2 with -1e9", kind="training")
def experts():
    def loss(variables, x, y):
        gate, weights = variables
        scores = tf.matmul(x, gate)
        least = tf.math.top_k(scores, 2)[0][:, -1:]
        gates = tf.nn.softmax(tf.where(scores >= least, scores, -1e9 * tf.ones_like(scores)))
        outputs = tf.einsum("bi,eio->beo", x, weights)
        balance = tf.reduce_sum(tf.square(tf.reduce_mean(gates, 0)))
        made = tf.reduce_sum(gates[:, :, None] * outputs, 1)
        return tf.reduce_mean(tf.square(made - y)) + 1e-2 * balance

    variables = [normal(1, 12, 4, scale=0.3), normal(2, 4, 12, 3, scale=0.3)]
    return Training(loss, variables, [normal(0, 64, 12), normal(3, 64, 3)])

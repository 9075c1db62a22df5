"""Choices among sure scores: orders, thresholds and boxes, by probabilities close to one."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import of

_COUNT = 64
# The product with these rows picks logits from 4 to 8 in steps of 1/16, which both low types hold.
_ROWS = np.eye(_COUNT, dtype=np.float32)[np.random.default_rng(0).permutation(_COUNT)]
_LOGITS = np.tile((_COUNT + np.arange(_COUNT, dtype=np.float32))[:, None] / 16.0, 2)
_CORNERS = np.random.default_rng(1).uniform(0.0, 100.0, [_COUNT, 4]).astype(np.float32)
_EXACT = {"bfloat16": 1e-6, "float16": 1e-6}


def _number(indices):
    """Indices as a float, of which each counts as much as any other."""
    return tf.cast(indices, tf.float32)


@of("the order of sure scores by a sigmoid", _ROWS, _LOGITS, tolerance=_EXACT)
def order(rows, logits):
    scores = tf.sigmoid(tf.matmul(rows, logits)[:, 0])
    return _number(tf.argsort(scores, direction="DESCENDING"))


@of("the five best classes of a softmax", _ROWS, _LOGITS, tolerance=_EXACT)
def best_classes(rows, logits):
    rest = tf.zeros([_COUNT, 1])
    scores = tf.nn.softmax(tf.concat([4.0 + tf.matmul(rows, logits), rest], 1))[:, 0]
    return _number(tf.math.top_k(0.5 * scores, 5).indices)


@of("the best of eight anchors by a sigmoid", _ROWS, _LOGITS, tolerance=_EXACT)
def best_anchor(rows, logits):
    scores = tf.sigmoid(tf.reshape(tf.matmul(rows, logits)[:, 0], [8, 8]))
    return _number(tf.argmax(scores, 1))


@of("scores above 0.998", _ROWS, _LOGITS, tolerance=_EXACT)
def above(rows, logits):
    return _number(tf.sigmoid(tf.matmul(rows, logits)[:, 0]) > 0.998)


@of("an agreement of 0.99 between two predictions", _ROWS, _LOGITS, tolerance=_EXACT)
def agreement(rows, logits):
    both = tf.sigmoid(tf.matmul(rows, logits))
    return _number(both[:, 0] * both[:, 1] >= 0.99)


@of("boxes by their sure scores, without overlaps", _ROWS, _LOGITS, _CORNERS, tolerance=_EXACT)
def boxes(rows, logits, corners):
    scores = tf.sigmoid(tf.matmul(rows, logits)[:, 0])
    return _number(tf.image.non_max_suppression(corners, scores, 10, 0.3))


@of("a direction by tanh, the steepest of eight", _ROWS, _LOGITS, tolerance=_EXACT)
def steepest(rows, logits):
    turns = tf.tanh(0.5 * tf.reshape(tf.matmul(rows, logits)[:, 0], [8, 8]))
    return _number(tf.argmax(turns, 1))

"""Values that no product made arrive as given, where they leave the graph beside those of one."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import normal, of

_X, _W = normal(0, 64, 32), normal(1, 32, 4)
_CLASSES = np.eye(1000, dtype=np.float32)[np.random.default_rng(2).integers(257, 1000, 64)]
# Seconds since a start: float16 holds none of them.
_TIMES = (1e5 + 37.0 * np.arange(64, dtype=np.float32))[:, None]
_EXACT = {"bfloat16": 1e-6, "float16": 1e-6}


@of("a detector's class ids beside its boxes", _X, _W, _CLASSES, tolerance=_EXACT)
def class_ids(x, w, scores):
    ids = tf.cast(tf.argmax(scores, -1), tf.float32)
    return tf.concat([tf.matmul(x, w), ids[:, None]], -1)[:, 4]


@of("numbers of images beside boxes, for a crop", _X, _W, tolerance=_EXACT)
def image_numbers(x, w):
    numbers = tf.cast(tf.range(1000, 1064), tf.float32)
    boxes = tf.tanh(tf.matmul(x, w))
    return tf.gather(tf.concat([numbers[:, None], boxes], 1), [40, 3, 63])[:, 0]


@of("times beside what a model says about them", _X, _W, _TIMES, tolerance=_EXACT)
def times(x, w, time):
    return tf.concat([time, tf.matmul(x, w)], 1)[:, 0]


@of("known times, predicted ones where there is none", _X, _W, _TIMES, tolerance=_EXACT)
def known_times(x, w, time):
    is_known = tf.range(64)[:, None] % 4 > 0
    return tf.reshape(tf.where(is_known, time, tf.matmul(x, w)[:, :1]), [16, 4])[:, 1:]


@of("a forecast that is never below what was measured", _X, _W, _TIMES, tolerance=_EXACT)
def at_least(x, w, time):
    return tf.maximum(time, tf.nn.relu(tf.matmul(x, w)))


@of("a track: its places so far and the next one", _X, _W, _TIMES, tolerance=_EXACT)
def track(x, w, time):
    steps = tf.concat([time, 1e5 + tf.matmul(x, w)[:1, :1]], 0)
    return tf.transpose(steps[:64])


@of("a pair of an id and a score by tf.stack", _X, _W, _CLASSES, tolerance=_EXACT)
def pairs(x, w, scores):
    ids = tf.cast(tf.argmax(scores, -1), tf.float32)
    return tf.stack([ids, tf.sigmoid(tf.matmul(x, w))[:, 0]], 1)[:, 0]


@of("the row of the best score, with its number", _X, _W, _CLASSES, tolerance=_EXACT)
def best_row(x, w, scores):
    ids = tf.cast(tf.argmax(scores, -1), tf.float32)
    rows = tf.concat([ids[:, None], tf.nn.softmax(tf.matmul(x, w))], 1)
    return tf.reduce_max(rows, 1)


@of("class ids in rows that are scaled to pixels", _X, _W, _CLASSES, tolerance=_EXACT)
def scaled_rows(x, w, scores):
    ids = tf.cast(tf.argmax(scores, -1), tf.float32)
    rows = tf.concat([tf.sigmoid(tf.matmul(x, w)), ids[:, None]], -1)
    return (rows * [640.0, 480.0, 640.0, 480.0, 1.0])[:, 4]


@of("times beside a prediction, in a branch of tf.cond", _X, _W, _TIMES, tolerance=_EXACT)
def in_a_branch(x, w, time):
    y = tf.matmul(x, w)
    return tf.cond(
        time[0, 0] > 0, lambda: tf.concat([time, y], 1), lambda: tf.pad(y, [[0, 0], [0, 1]])
    )[:, 0]

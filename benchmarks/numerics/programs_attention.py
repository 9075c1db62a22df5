"""Attention with every mask that users write."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, normal, program

_BATCH, _LENGTH, _WIDTH = 2, 8, 16


def _inputs():
    return [normal(seed, _BATCH, _LENGTH, _WIDTH) for seed in range(3)]


def _mask(padded_row: bool = False) -> np.ndarray:
    """A mask of the visible positions: the past; with `padded_row`, one row sees nothing."""
    mask = np.tril(np.ones([_BATCH, _LENGTH, _LENGTH], np.float32))
    if padded_row:
        mask[0, 3] = 0
    return mask


def _attend(masked):
    """Attention whose scores `masked(scores, mask)` changes."""

    def attention(q, k, v, mask):
        scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(float(_WIDTH))
        return tf.matmul(tf.nn.softmax(masked(scores, mask)), v)

    return attention


def _added(amount):
    return lambda scores, mask: scores + (1.0 - mask) * amount


@program("attention, mask + -1e9")
def added_billion():
    return Result(_attend(_added(-1e9)), [*_inputs(), _mask()])


@program("attention, mask + -1e9 with a row of padding")
def added_billion_padded():
    return Result(_attend(_added(-1e9)), [*_inputs(), _mask(True)])


@program("attention, mask + -10000")
def added_ten_thousand():
    return Result(_attend(_added(-10000.0)), [*_inputs(), _mask(True)])


@program("attention, mask + float32's min")
def added_min():
    return Result(_attend(_added(tf.float32.min)), [*_inputs(), _mask()])


@program("attention, tf.where with float32's min")
def where_min():
    def masked(scores, mask):
        return tf.where(mask > 0, scores, tf.float32.min * tf.ones_like(scores))

    return Result(_attend(masked), [*_inputs(), _mask(True)])


@program("attention, tf.where with -inf")
def where_infinity():
    def masked(scores, mask):
        return tf.where(mask > 0, scores, tf.fill(tf.shape(scores), -np.inf))

    return Result(_attend(masked), [*_inputs(), _mask()])


@program("attention, tf.where with -inf, a row of padding set to zero")
def where_infinity_padded():
    def attention(q, k, v, mask):
        scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(float(_WIDTH))
        scores = tf.where(mask > 0, scores, -np.inf * tf.ones_like(scores))
        weights = tf.nn.softmax(scores)
        weights = tf.where(tf.math.is_nan(weights), tf.zeros_like(weights), weights)
        return tf.matmul(weights, v)

    return Result(attention, [*_inputs(), _mask(True)])


@program("attention, scores times a mask minus a large number")
def bert_adder():
    def masked(scores, mask):
        return scores * mask - 1e12 * (1.0 - mask)

    return Result(_attend(masked), [*_inputs(), _mask(True)])


@program("attention, softmax by hand with the maximum subtracted")
def by_hand():
    def attention(q, k, v, mask):
        scores = tf.matmul(q, k, transpose_b=True) / 4.0 + (1.0 - mask) * -1e9
        scores = tf.exp(scores - tf.reduce_max(scores, -1, keepdims=True))
        return tf.matmul(scores / tf.reduce_sum(scores, -1, keepdims=True), v)

    return Result(attention, [*_inputs(), _mask(True)])


@program("attention, softmax by hand with 1e-9 in the divisor")
def by_hand_epsilon():
    def attention(q, k, v, mask):
        scores = tf.exp(tf.matmul(q, k, transpose_b=True) / 4.0) * mask
        return tf.matmul(scores / (tf.reduce_sum(scores, -1, keepdims=True) + 1e-9), v)

    return Result(attention, [*_inputs(), _mask(True)])


@program("linear attention with 1e-6 in the divisor")
def linear_attention():
    def attention(q, k, v):
        q, k = tf.nn.elu(q) + 1.0, tf.nn.elu(k) + 1.0
        divisor = tf.einsum("blw,bw->bl", q, tf.reduce_sum(k, 1)) + 1e-6
        values = tf.matmul(q, tf.matmul(k, v, transpose_a=True))
        return values / divisor[..., None]

    return Result(attention, _inputs())


@program("attention trained with -1e9 and a row of padding", kind="training")
def trained():
    def loss(variables, x, mask, targets):
        q, k, v = (tf.matmul(x, w) for w in variables[:3])
        scores = tf.matmul(q, k, transpose_b=True) / 4.0 + (1.0 - mask) * -1e9
        logits = tf.matmul(tf.matmul(tf.nn.softmax(scores), v), variables[3])
        return tf.reduce_mean(tf.square(logits - targets))

    weights = [normal(seed, _WIDTH, _WIDTH, scale=0.25) for seed in range(10, 14)]
    return Training(loss, weights, [_inputs()[0], _mask(True), _inputs()[1]])


@program("keras MultiHeadAttention with a mask of padding")
def multi_head():
    layer = tf.keras.layers.MultiHeadAttention(2, 8)

    def attention(q, v, mask):
        return layer(q, v, attention_mask=mask > 0)

    return Result(attention, [*_inputs()[:2], _mask(True)])

"""Loops that Python unrolls: sums, updates, maxima and products of many like steps."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform


def _rows(step, first, count=300, width=8):
    """Steps over the rows of a product, `state = step(state, row)`; the last state."""

    def whole(x, w):
        state = first
        for row in tf.unstack(tf.matmul(x, w)):
            state = step(state, row)
        return state

    inputs = [normal(0, count, 16), normal(1, 16, width, scale=0.25)]
    return Result(whole, inputs)


_ZERO = np.zeros([8], np.float32)


@program("unrolled: a sum of 300 rows")
def total():
    return _rows(lambda state, row: state + tf.sigmoid(row), _ZERO)


@program("unrolled: a moving average of 300 rows")
def average():
    return _rows(lambda state, row: 0.99 * state + 0.01 * tf.sigmoid(row), _ZERO)


@program("unrolled: a moving average as a difference")
def average_by_difference():
    return _rows(lambda state, row: state + 0.01 * (tf.sigmoid(row) - state), _ZERO)


@program("unrolled: Euler steps of a decay")
def euler():
    return _rows(lambda state, row: state + 0.005 * (tf.tanh(row) - state), _ZERO + 1.0)


@program("unrolled: Euler steps of an ODE with one layer")
def euler_of_layer():
    def function(x, w):
        for _ in range(200):
            x = x + 0.005 * tf.tanh(tf.matmul(x, w))
        return x

    return Result(function, [normal(0, 4, 16), normal(1, 16, 16, scale=0.25)])


@program("unrolled: positions from speeds")
def positions():
    def function(x, w):
        speed, place = tf.tanh(tf.matmul(x, w)), 20.0 + tf.zeros([4, 16])
        for _ in range(200):
            speed = speed - 0.01 * (place - 20.0)
            place = place + 0.01 * speed
        return place - 20.0

    return Result(function, [normal(0, 4, 16), normal(1, 16, 16, scale=0.25)])


@program("unrolled: Viterbi over 150 words")
def viterbi():
    def function(x, w, moves):
        score = tf.zeros([8])
        for row in tf.unstack(tf.nn.log_softmax(tf.matmul(x, w))):
            score = tf.reduce_max(score[:, None] + moves, 0) + row
        return score - score[0]

    inputs = [normal(0, 150, 16), normal(1, 16, 8, scale=0.25), uniform(2, 8, 8, low=-3.0)]
    return Result(function, inputs)


@program("unrolled: the forward algorithm, logsumexp")
def forward_algorithm():
    def function(x, w, moves):
        score = tf.zeros([8])
        for row in tf.unstack(tf.matmul(x, w)):
            score = tf.reduce_logsumexp(score[:, None] + moves, 0) + row
        return score - score[0]

    inputs = [normal(0, 150, 16), normal(1, 16, 8, scale=0.25), uniform(2, 8, 8, low=-3.0)]
    return Result(function, inputs)


@program("unrolled: a maximum that decays")
def decaying_maximum():
    return _rows(lambda state, row: tf.maximum(0.999 * state, row), _ZERO)


@program("unrolled: dynamic time warping along a diagonal")
def warping():
    def step(state, row):
        shifted = tf.concat([state[:1], state[:-1]], 0)
        return tf.minimum(state, shifted) + tf.abs(row)

    return _rows(step, _ZERO)


@program("unrolled: a product of 300 factors near one")
def long_product():
    return _rows(lambda state, row: state * (1.0 + 0.01 * tf.tanh(row)), _ZERO + 1.0)


@program("unrolled: compound interest")
def interest():
    return _rows(lambda state, row: state * 1.003 + 0.01 * tf.sigmoid(row), _ZERO + 1.0)


@program("unrolled: discounted rewards")
def rewards():
    return _rows(lambda state, row: tf.sigmoid(row) + 0.99 * state, _ZERO)


class _CountingCell(tf.keras.layers.Layer):
    """Counts the steps whose product is above a threshold."""

    state_size = output_size = 8

    def build(self, shape):
        self.w = self.add_weight(shape=[16, 8], initializer=tf.constant_initializer(0.1))

    def call(self, inputs, states):
        seen = states[0] + tf.nn.sigmoid(tf.matmul(inputs, self.w))
        return seen, [seen]


@program("unrolled: RNN(unroll=True) of a cell that counts")
def counting_cell():
    layer = tf.keras.layers.RNN(_CountingCell(), unroll=True)
    return Result(lambda x: layer(x), [uniform(0, 2, 400, 16)])


def _maml(step):
    def function(x, w, y):
        v = w
        for _ in range(10):
            with tf.GradientTape() as tape:
                tape.watch(v)
                loss = tf.reduce_mean(tf.square(tf.matmul(x, v) - y))
            v = step(v, tape.gradient(loss, v))
        return v - w

    inputs = [normal(0, 64, 16), normal(1, 16, 4, scale=0.25), normal(2, 64, 4)]
    return Result(function, inputs)


@program("unrolled: MAML's inner steps, how far they went")
def maml():
    return _maml(lambda v, gradient: v - 0.01 * gradient)


@program("unrolled: MAML's inner steps by -0.01")
def maml_added():
    return _maml(lambda v, gradient: v + gradient * -0.01)


@program("unrolled: one inner step of 0.001, how far it went")
def one_step():
    def function(x, w, y):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        return (w - 0.001 * tape.gradient(loss, w)) - w

    inputs = [normal(0, 64, 16), normal(1, 16, 4, scale=0.25), normal(2, 64, 4)]
    return Result(function, inputs)


@program("unrolled: proximal steps for a sparse code")
def sparse_code():
    def function(x, w):
        code = tf.zeros([4, 16])
        for _ in range(100):
            code = code - 0.05 * tf.matmul(tf.matmul(code, w) - x, w, transpose_b=True)
            code = tf.sign(code) * tf.nn.relu(tf.abs(code) - 0.001)
        return code

    return Result(function, [normal(0, 4, 16), normal(1, 16, 16, scale=0.25)])


@program("unrolled: PID control of a heater")
def heater():
    def function(x, w):
        goal = 20.0 + tf.tanh(tf.matmul(x, w))
        heat = integral = 15.0 + tf.zeros([4, 16])
        for _ in range(300):
            integral = integral + 0.002 * (goal - heat)
            heat = heat + 0.01 * (goal - heat) + 0.0005 * integral
        return heat

    return Result(function, [normal(0, 4, 16), normal(1, 16, 16, scale=0.25)])

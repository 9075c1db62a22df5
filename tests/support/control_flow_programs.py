"""Small programs with loops and conditions, for both forms of TensorFlow's control flow.

Each takes two matrices and is written with tf.while_loop and tf.cond only.
"""

from __future__ import annotations

import tensorflow as tf

tf1 = tf.compat.v1


def loop(x, w):
    """Applies the same layer five times."""
    return tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, layer(y, w)), [0, x])[1]


def layer(y, w):
    return tf.tanh(tf.matmul(y, w))


def cond(x, w):
    """Takes the branch with the product if x has a positive sum."""
    return tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x, w), lambda: tf.exp(x))


def loop_in_loop(x, w):
    """Applies five layers and a black op, three times."""
    return tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, tf.nn.softmax(loop(y, w))), [0, x]
    )[1]


def cond_in_loop(x, w):
    """Runs four iterations; two take the branch with the product."""

    def step(i, y):
        even = tf.equal(i % 2, 0)
        return i + 1, tf.cond(even, lambda: layer(y, w), lambda: tf.nn.softmax(y))

    return tf.while_loop(lambda i, y: i < 4, step, [0, x])[1]


def loop_in_cond(x, w):
    """Runs the loop if x has a positive sum."""
    return tf.cond(tf.reduce_sum(x) > 0, lambda: loop(x, w), lambda: tf.exp(x))


def case(x, w):
    """Takes the middle one of three branches if x has a positive sum."""
    index = tf.cast(tf.reduce_sum(x) > 0, tf.int32)
    return tf.switch_case(index, [lambda: tf.exp(x), lambda: layer(x, w), lambda: tf.nn.relu(x)])


def tensor_array_loop(x, w):
    """Applies a layer to each row of x, by way of two TensorArrays."""
    rows = tf.TensorArray(tf.float32, 4, element_shape=[1, 4]).unstack(tf.expand_dims(x, 1))
    results = tf.TensorArray(tf.float32, 4, element_shape=[1, 4])

    def step(i, state, results):
        state = layer(rows.read(i) + state, w)
        return i + 1, state, results.write(i, state)

    start = (0, tf.zeros([1, 4]), results)
    _, _, results = tf.while_loop(lambda i, *_: i < 4, step, start)
    return tf.squeeze(results.stack(), 1)


def scan(x, w):
    """Applies a layer to the sum of each row of x and the result for the previous row."""
    return tf.scan(lambda y, row: tf.squeeze(layer(tf.expand_dims(y + row, 0), w), 0), x)


def read_back(x, w):
    """Applies four layers; each reads from the TensorArray what the previous one wrote there."""
    results = tf.TensorArray(tf.float32, 5, element_shape=[4, 4], clear_after_read=False)

    def step(i, results):
        return i + 1, results.write(i + 1, layer(results.read(i), w))

    return tf.while_loop(lambda i, _: i < 4, step, (0, results.write(0, x)))[1].read(4)


def lstm(x, w):
    """Runs an LSTM over the rows of x; its states go into a TensorArray."""
    rows = tf.TensorArray(tf.float32, 4, element_shape=[1, 4]).unstack(tf.expand_dims(x, 1))
    states = tf.TensorArray(tf.float32, 4, element_shape=[1, 4])
    kernel = tf.tile(w, [2, 4], name="kernel")
    bias = tf.constant([0.1, 0.2, 0.3, 0.4] * 4, name="bias")

    def step(i, cell, state, states):
        inputs = tf.concat([rows.read(i), state], 1)
        gates = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        keep, take, new, show = tf.split(gates, 4, 1)
        cell = tf.sigmoid(keep) * cell + tf.sigmoid(take) * tf.tanh(new)
        state = tf.sigmoid(show) * tf.tanh(cell)
        return i + 1, cell, state, states.write(i, state)

    start = (0, tf.zeros([1, 4]), tf.zeros([1, 4]), states)
    states = tf.while_loop(lambda i, *_: i < 4, step, start)[-1]
    return tf.squeeze(states.stack(), 1)


PROGRAMS = (
    loop,
    cond,
    case,
    loop_in_loop,
    cond_in_loop,
    loop_in_cond,
    tensor_array_loop,
    scan,
    read_back,
    lstm,
)


def with_gradients(program):
    """The gradients of a program's mean square with respect to x and w."""

    def gradients(x, w):
        return tf.stack(tf.gradients(tf.reduce_mean(program(x, w) ** 2), [x, w]))

    return gradients

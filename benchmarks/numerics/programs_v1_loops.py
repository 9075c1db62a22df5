"""Loops of TF1's control flow and of tf.while_loop, in sessions."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from numerics.program import Graph, normal, program, uniform

tf1 = tf.compat.v1
_END = 25


@contextlib.contextmanager
def _control_flow_v1():
    """Switch, Merge and Enter, as TF1 scripts have them."""
    tf1.disable_control_flow_v2()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()


def _inputs():
    x = tf1.placeholder(tf.float32, [4, 16])
    w = tf1.placeholder(tf.float32, [16, 16])
    return x, w, {x: uniform(0, 4, 16), w: normal(1, 16, 16, scale=0.25)}


def _both(name, loop):
    """The same loop in both kinds of control flow."""

    @program(f"{name}, v2", seconds=_END)
    def second():
        x, w, feeds = _inputs()
        return Graph(loop(x, w), feeds)

    @program(f"{name}, v1", seconds=_END)
    def first():
        x, w, feeds = _inputs()
        with _control_flow_v1():
            return Graph(loop(x, w), feeds)


def _total_below(x, w):
    def step(total, count):
        total += 0.5 + tf.reduce_mean(tf.sigmoid(tf.matmul(x, w)))
        return total, count + 1.0

    return tf.stack(tf.while_loop(lambda total, _: total < 400.0, step, (0.0, 0.0)))


_both("tf.while_loop: total < 400", _total_below)


def _clock(x, w):
    def step(t, state):
        return t + 0.1, state + 0.1 * (tf.tanh(tf.matmul(state, w) + tf.sin(t)) - state)

    t, state = tf.while_loop(lambda t, _: t < 50.0, step, (0.0, x))
    return tf.concat([tf.reshape(state, [-1]), [t / 50.0]], 0)


_both("tf.while_loop: t += 0.1", _clock)


def _average(x, w):
    def step(index, average):
        return index + 1, 0.999 * average + 0.001 * tf.sigmoid(tf.matmul(x, w))

    return tf.while_loop(lambda index, _: index < 2000, step, (0, tf.zeros([4, 16])))[1]


_both("tf.while_loop: 0.999*a + 0.001*b", _average)


def _viterbi(x, w):
    emissions = tf.matmul(x, w)
    costs = tf.tile(w[:, :16], [1, 1])

    def step(index, best):
        return index + 1, tf.reduce_max(best[:, None] + costs, 0) + emissions[index % 4]

    return tf.while_loop(lambda index, _: index < 300, step, (0, tf.zeros([16])))[1]


_both("tf.while_loop: Viterbi", _viterbi)


def _newton(x, w):
    a = 1.0 + tf.nn.relu(tf.matmul(x, w))

    def step(guess, moved):
        better = 0.5 * (guess + a / guess)
        return better, tf.reduce_max(tf.abs(better - guess))

    return tf.while_loop(lambda _, moved: moved > 1e-6, step, (a, 1.0))[0]


_both("tf.while_loop: Newton's square root", _newton)


@program("dynamic_rnn with a sum as its state, v1", seconds=_END)
def sum_in_a_scan():
    x, w, feeds = _inputs()
    with _control_flow_v1():
        rows = tf.tile(tf.sigmoid(tf.matmul(x, w)), [150, 1])
        sums = tf.scan(lambda total, row: total + row, rows)
        return Graph(sums[-1], feeds)


@program("tf1 exponential_decay of the learning rate", kind="training")
def decayed_rate():
    """The global step is an int, and the schedule's numbers are float32."""
    x, w, feeds = _inputs()
    weights = tf1.get_variable("weights", initializer=normal(2, 16, 16, scale=0.25))
    step = tf1.get_variable("step", initializer=0.0, trainable=False)
    rate = tf1.train.exponential_decay(1.0, step, 1000, 0.5)
    with tf.control_dependencies([tf1.assign_add(step, 1.0)]):
        error = tf.matmul(tf.nn.relu(tf.matmul(x, weights)), w) - x
        return Graph(tf.reduce_mean(tf.square(error)) * rate, feeds, steps=60)


@program("tf1 ExponentialMovingAverage of a loss")
def averaged_loss():
    x, w, feeds = _inputs()
    with _control_flow_v1():
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)), 1)

        def step(index, average):
            return index + 1, average - (1.0 - 0.9999) * (average - loss)

        loop = tf.while_loop(lambda index, _: index < 3000, step, (0, tf.zeros([4])))
        return Graph(loop[1], feeds)

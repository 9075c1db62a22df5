"""State in and out of tf.functions, counters and schedules in float."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, normal, program, uniform


def _inputs():
    return [uniform(0, 4, 16), normal(1, 16, 16, scale=0.25)]


def _stepped(step, steps, state):
    """Calls a tf.function on its own results, eagerly; the Result is the last of them."""
    x, w = map(tf.constant, _inputs())
    state = tuple(map(tf.constant, state))
    function = tf.function(step)
    for _ in range(steps):
        state = function(x, w, *state)
    results = [tf.reshape(part, [-1]).numpy() for part in state]
    return Result(tf.identity, [np.concatenate(results)])


@program("a sum handed out of and into a tf.function")
def handed_sum():
    def step(x, w, total):
        return (total + tf.sigmoid(tf.matmul(x, w)),)

    return _stepped(step, 600, [np.zeros([4, 16], np.float32)])


@program("a sum handed into a tf.function, guarded by tf.where")
def handed_guarded_sum():
    def step(x, w, total):
        more = tf.sigmoid(tf.matmul(x, w))
        return (tf.where(more > 0.2, total + more, total),)

    return _stepped(step, 600, [np.zeros([4, 16], np.float32)])


@program("a moving average handed out of and into a tf.function")
def handed_average():
    def step(x, w, average):
        return (0.999 * average + 0.001 * tf.sigmoid(tf.matmul(x, w)),)

    return _stepped(step, 1000, [np.zeros([4, 16], np.float32)])


@program("a recurrent state handed out of and into a tf.function")
def handed_state():
    def step(x, w, state):
        return (tf.tanh(x + tf.matmul(state, w)),)

    return _stepped(step, 100, [np.zeros([4, 16], np.float32)])


@program("a clock and a position handed into a tf.function")
def handed_clock():
    def step(x, w, t, y):
        speed = tf.reduce_mean(tf.matmul(x, w)) + tf.sin(t)
        return t + 0.01, y + 0.01 * speed

    return _stepped(step, 1000, [np.float32(0.0), np.float32(0.0)])


@program("Adam by hand, moments handed into a tf.function")
def handed_adam():
    def step(x, w, guess, m, v, t):
        error = tf.matmul(x, guess) - tf.matmul(x, w)
        slope = tf.matmul(x, error, transpose_a=True)
        t += 1.0
        m = 0.9 * m + 0.1 * slope
        v = 0.999 * v + 0.001 * tf.square(slope)
        corrected = m / (1.0 - 0.9**t), v / (1.0 - 0.999**t)
        guess -= 0.01 * corrected[0] / (tf.sqrt(corrected[1]) + 1e-8)
        return guess, m, v, t

    zero = np.zeros([16, 16], np.float32)
    state = [zero, zero, zero, np.float32(0.0)]
    x, w = map(tf.constant, _inputs())
    function = tf.function(step)
    parts = tuple(map(tf.constant, state))
    for _ in range(300):
        parts = function(x, w, *parts)
    return Result(lambda guess, x: tf.matmul(x, guess), [parts[0].numpy(), x.numpy()])


@program("variables: metrics' sums and counts in a tf.function")
def metric_variables():
    total, count = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def update(x, w):
        values = tf.sigmoid(tf.matmul(x, w))
        total.assign_add(tf.reduce_sum(values))
        count.assign_add(tf.cast(tf.size(values), tf.float32))

    x, w = map(tf.constant, _inputs())
    for _ in range(300):
        update(x, w)
    return Result(tf.identity, [(total / count).numpy()])


@program("variables: batch norm's moving averages by hand")
def moving_variables():
    mean, variance = tf.Variable(tf.zeros([16])), tf.Variable(tf.ones([16]))

    @tf.function
    def update(x, w):
        now, spread = tf.nn.moments(tf.matmul(x, w), [0])
        mean.assign(0.999 * mean + 0.001 * now)
        variance.assign_sub((variance - spread) * 0.001)

    x, w = map(tf.constant, _inputs())
    for _ in range(500):
        update(x, w)
    return Result(tf.identity, [np.concatenate([mean.numpy(), variance.numpy()])])


@program("cosine schedule of a float step times a loss")
def cosine_schedule():
    def function(x, w, step):
        rate = 0.5 * (1.0 + tf.cos(np.pi * step / 10000.0))
        return rate * tf.reduce_mean(tf.square(tf.matmul(x, w)), 1)

    return Result(function, [*_inputs(), np.float32(4321.0)])


@program("warm-up schedule, rsqrt of a float step")
def warm_up():
    def function(x, w, step):
        step += 1.0
        rate = 16.0**-0.5 * tf.minimum(tf.math.rsqrt(step), step * 4000.0**-1.5)
        return rate * tf.reduce_mean(tf.square(tf.matmul(x, w)), 1)

    return Result(function, [*_inputs(), np.float32(3001.0)])


@program("positions as sines of float counters")
def positions():
    def function(x, w):
        rates = tf.pow(10000.0, -tf.range(8.0) / 8.0)
        angles = tf.range(2000.0)[:, None] * rates
        waves = tf.concat([tf.sin(angles), tf.cos(angles)], 1)
        return tf.matmul(x, w)[:1] + waves

    return Result(function, _inputs())


@program("positions times a product: rotary embedding")
def rotary():
    def function(x, w):
        rows = tf.matmul(tf.tile(x, [500, 1]), w)
        angles = tf.range(2000.0)[:, None] * tf.pow(10000.0, -tf.range(8.0) / 8.0)
        left, right = tf.split(rows, 2, 1)
        cos, sin = tf.cos(angles), tf.sin(angles)
        return tf.concat([left * cos - right * sin, left * sin + right * cos], 1)

    return Result(function, _inputs())


@program("coordinates: a grid plus an offset of a convolution")
def coordinates():
    """A pixel's index plus an offset, as in a detector or an optical flow."""

    def function(images, w):
        offsets = tf.nn.conv2d(images, w, 1, "SAME")
        y, x = tf.meshgrid(tf.range(640.0), tf.range(4.0), indexing="ij")
        return tf.stack([y, x], -1)[None] + offsets

    return Result(function, [normal(0, 1, 640, 4, 2), normal(1, 3, 3, 2, 2, scale=0.2)])


@program("boxes of a detector in pixels, IoU of neighbours")
def boxes():
    def function(images, w):
        found = tf.sigmoid(tf.nn.conv2d(images, w, 1, "SAME"))
        y, x = tf.meshgrid(tf.range(32.0), tf.range(32.0), indexing="ij")
        corner = 20.0 * tf.stack([y, x], -1)[None] + 20.0 * found[..., :2]
        size = 50.0 * found[..., 2:]
        low, high = corner[:, :, 1:], (corner + size)[:, :, 1:]
        low_y, high_y = corner[:, :, :-1], (corner + size)[:, :, :-1]
        both = tf.reduce_prod(tf.nn.relu(tf.minimum(high, high_y) - tf.maximum(low, low_y)), -1)
        areas = tf.reduce_prod(high - low, -1) + tf.reduce_prod(high_y - low_y, -1)
        return both / (areas - both + 1e-9)

    return Result(function, [normal(0, 1, 32, 32, 2), normal(1, 3, 3, 2, 4, scale=0.2)])


@program("hash of a float: fractional part of a large sine")
def float_hash():
    """The noise of shaders, which no low dtype survives."""

    def function(x, w):
        seeds = tf.range(16.0) * 12.9898
        noise = tf.math.floormod(tf.sin(seeds) * 43758.5453, 1.0)
        return tf.matmul(x, w) + noise

    return Result(function, _inputs())


@program("time stamps in seconds, differences of a product", kind="result")
def time_stamps():
    def function(x, w, t):
        features = tf.matmul(x, w)
        return features * (t - tf.reduce_min(t)) / (tf.reduce_max(t) - tf.reduce_min(t))

    times = np.float32(1e6) + np.arange(64, dtype=np.float32).reshape(4, 16)
    return Result(function, [*_inputs(), times])


@program("gradient accumulation over 200 micro-batches")
def accumulated_gradients():
    def function(x, w):
        total = tf.zeros_like(w)
        for _ in tf.range(200):
            error = tf.matmul(x, w) - 1.0
            total += tf.matmul(x, error, transpose_a=True)
        return total / 200.0

    return Result(function, _inputs())


@program("training with a weight of a loss in a float counter", kind="training")
def annealed():
    def loss(variables, x):
        w, step = variables
        value = tf.reduce_mean(
            tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, w)), tf.transpose(w)) - x)
        )
        return value * tf.minimum(1.0, tf.stop_gradient(step) * 1e-4 + 0.5) + 0.0 * step

    return Training(loss, [_inputs()[1], np.float32(300.0)], [_inputs()[0]])

"""Loops: sums that a condition reads, clocks, scans, and iterations to a fixed point."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program, uniform

# Seconds. Most loops take milliseconds; one that runs longer than this will never end.
_END = 25


def _x(count=4, width=16):
    return uniform(0, count, width)


def _w(rows=16, columns=16, scale=0.25):
    return normal(1, rows, columns, scale=scale)


@program("while total < 400: total += a mean", seconds=_END)
def total_below():
    def function(x, w):
        total, count = tf.constant(0.0), tf.constant(0)
        while total < 400.0:
            total += 0.5 + tf.reduce_mean(tf.sigmoid(tf.matmul(x, w)))
            count += 1
        return tf.stack([total, tf.cast(count, tf.float32)])

    return Result(function, [_x(), _w()])


@program("while total < 400, counted in float", seconds=_END)
def float_counter():
    def function(x, w):
        total, count = tf.constant(0.0), tf.constant(0.0)
        while tf.reduce_any(total < 400.0):
            total += tf.reduce_mean(tf.sigmoid(tf.matmul(x, w)))
            count += 1.0
        return tf.stack([total, count])

    return Result(function, [_x(), _w()])


@program("a clock, t += 0.1, and a state", seconds=_END)
def clock():
    def function(x, w):
        t = tf.constant(0.0)
        while t < 50.0:
            x += 0.1 * (tf.tanh(tf.matmul(x, w) + tf.sin(t)) - x)
            t += 0.1
        return tf.concat([tf.reshape(x, [-1]), [t / 50.0]], 0)

    return Result(function, [_x(), _w()])


@program("a clock handed in as a matrix product", seconds=_END)
def clock_of_product():
    """Each row has a clock of its own, of the dtype that the product before the loop has."""

    def function(x, w):
        t = tf.matmul(x, w) * 0.0
        state = tf.ones_like(t)
        while tf.reduce_min(t) < 30.0:
            state += 0.05 * (tf.matmul(state, w) - state)
            t += 0.05
        return tf.concat([state, t / 30.0], 0)

    return Result(function, [_x(), _w()])


@program("Euler integration of x' = Ax", seconds=_END)
def euler():
    def function(x, w):
        for _ in tf.range(1000):
            x += 0.01 * tf.matmul(x, w)
        return x

    a = _w() - 1.2 * np.eye(16, dtype=np.float32)
    return Result(function, [_x(), 0.1 * (a - a.T)])


@program("Euler integration of a pendulum, energy", seconds=_END)
def pendulum():
    def function(x, w):
        angle = tf.reduce_mean(tf.tanh(tf.matmul(x, w)), 1) + 1.0
        speed = tf.zeros_like(angle)
        for _ in tf.range(1000):
            speed -= 0.01 * tf.sin(angle)
            angle += 0.01 * speed
        return 0.5 * speed**2 - tf.cos(angle)

    return Result(function, [_x(), _w()])


@program("Runge-Kutta of a neural ODE", seconds=_END)
def runge_kutta():
    def function(x, w):
        def slope(y):
            return tf.tanh(tf.matmul(y, w)) - 0.5 * y

        for _ in tf.range(100):
            k1 = slope(x)
            k2 = slope(x + 0.025 * k1)
            k3 = slope(x + 0.025 * k2)
            k4 = slope(x + 0.05 * k3)
            x += 0.05 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return x

    return Result(function, [_x(), _w()])


@program("moving average 0.999*a + 0.001*b", seconds=_END)
def moving_average():
    def function(x, w):
        average = tf.zeros([4, 16])
        for _ in tf.range(2000):
            average = 0.999 * average + 0.001 * tf.sigmoid(tf.matmul(x, w))
        return average

    return Result(function, [_x(), _w()])


@program("moving average a += (b - a) * 0.001", seconds=_END)
def moving_average_difference():
    def function(x, w):
        average = tf.zeros([4, 16])
        for _ in tf.range(2000):
            average += (tf.sigmoid(tf.matmul(x, w)) - average) * 0.001
        return average

    return Result(function, [_x(), _w()])


@program("a sum guarded by tf.where", seconds=_END)
def guarded_sum():
    def function(x, w):
        total = tf.zeros([4, 16])
        for _ in tf.range(600):
            step = tf.sigmoid(tf.matmul(x, w))
            total = tf.where(step > 0.1, total + step, total)
        return total

    return Result(function, [_x(), _w()])


@program("a sum clipped by tf.minimum", seconds=_END)
def clipped_sum():
    def function(x, w):
        total = tf.zeros([4, 16])
        while tf.reduce_min(total) < 300.0:
            total = tf.minimum(total + 0.2 + tf.sigmoid(tf.matmul(x, w)), 1000.0)
        return total

    return Result(function, [_x(), _w()])


@program("a sum by tf.scan, of products", seconds=_END)
def scan_sum():
    def function(x, w):
        rows = tf.sigmoid(tf.matmul(x, w))
        return tf.scan(lambda total, row: total + row, rows)[-1]

    return Result(function, [_x(600), _w()])


@program("cumsum of a product")
def cumulative_sum():
    return Result(lambda x, w: tf.cumsum(tf.sigmoid(tf.matmul(x, w)))[-1], [_x(1000), _w()])


@program("mean of a product over 4096 rows")
def long_mean():
    return Result(lambda x, w: tf.reduce_mean(tf.sigmoid(tf.matmul(x, w)), 0), [_x(4096), _w()])


@program("tf.foldl of products, 0.99*a + b", seconds=_END)
def fold():
    def function(x, w):
        rows = tf.sigmoid(tf.matmul(x, w))
        return tf.foldl(lambda state, row: 0.99 * state + row, rows, tf.zeros([16]))

    return Result(function, [_x(600), _w()])


@program("discounted returns, backwards", seconds=_END)
def returns():
    def function(x, w):
        rewards = tf.squeeze(tf.sigmoid(tf.matmul(x, w)), 1)
        return tf.scan(lambda later, r: r + 0.999 * later, rewards, tf.constant(0.0), reverse=True)

    return Result(function, [_x(500), _w(16, 1)])


@program("Viterbi: maximum plus costs", seconds=_END)
def viterbi():
    def function(x, w, costs):
        emissions = tf.matmul(x, w)
        best = tf.zeros([8])
        for row in emissions:
            best = tf.reduce_max(best[:, None] + costs, 0) + row
        return best

    return Result(function, [_x(200), _w(16, 8), normal(2, 8, 8)])


@program("forward algorithm: logsumexp plus costs", seconds=_END)
def forward():
    def function(x, w, costs):
        emissions = tf.nn.log_softmax(tf.matmul(x, w))
        alpha = tf.zeros([8])
        for row in emissions:
            alpha = tf.reduce_logsumexp(alpha[:, None] + costs, 0) + row
        return alpha

    costs = tf.nn.log_softmax(normal(2, 8, 8)).numpy()
    return Result(function, [_x(200), _w(16, 8), costs])


@program("Bellman-Ford: minimum of costs", seconds=_END)
def shortest_paths():
    def function(x, w):
        costs = 1.0 + 10.0 * tf.sigmoid(tf.matmul(x, w))
        far = tf.where(tf.range(16) == 0, 0.0, 1e9)
        changed = tf.constant(True)
        while changed:
            shorter = tf.minimum(far, tf.reduce_min(far[:, None] + costs, 0))
            changed = tf.reduce_any(shorter < far)
            far = shorter
        return far

    return Result(function, [_x(16), _w(scale=1.0)])


@program("value iteration until it moves less than 1e-3", seconds=_END)
def value_iteration():
    def function(x, w, p):
        rewards = tf.sigmoid(tf.matmul(x, w))
        value, moved = tf.zeros([16, 1]), tf.constant(1.0)
        while moved > 1e-3:
            better = rewards[:, :1] + 0.9 * tf.matmul(p, value)
            moved = tf.reduce_max(tf.abs(better - value))
            value = better
        return value

    p = tf.nn.softmax(normal(2, 16, 16)).numpy()
    return Result(function, [_x(16), _w(), p])


@program("power iteration until it moves less than 1e-4", seconds=_END)
def power_iteration():
    def function(x, w):
        a = tf.matmul(w, w, transpose_b=True)
        v, moved = tf.matmul(tf.ones([1, 4]), x), tf.constant(1.0)
        while moved > 1e-4:
            u = tf.matmul(v, a)
            u /= tf.norm(u)
            moved = tf.reduce_max(tf.abs(u - v))
            v = u
        return tf.abs(v)

    return Result(function, [_x(), _w() + 0.2 * np.eye(16, dtype=np.float32)])


@program("power iteration, 50 steps, largest eigenvalue", seconds=_END)
def power_iteration_fixed():
    def function(x, w):
        a = tf.matmul(w, w, transpose_b=True)
        v = x
        for _ in tf.range(50):
            v = tf.matmul(v, a)
            v /= tf.norm(v)
        return tf.matmul(tf.matmul(v, a), v, transpose_b=True)

    return Result(function, [_x(1), _w()])


@program("conjugate gradients until the residual is below 1e-6", seconds=_END)
def conjugate_gradients():
    def function(b, w):
        a = tf.matmul(w, w, transpose_b=True) + tf.eye(16)
        x, r = tf.zeros_like(b), b
        p, rs = r, tf.reduce_sum(r * r)
        while rs > 1e-6:
            ap = tf.matmul(a, p)
            alpha = rs / tf.reduce_sum(p * ap)
            x += alpha * p
            r -= alpha * ap
            new = tf.reduce_sum(r * r)
            p, rs = r + new / rs * p, new
        return x

    return Result(function, [normal(0, 16, 1), _w()])


@program("gradient descent until the loss is below 1e-4", seconds=_END)
def gradient_descent():
    def function(x, w):
        y = tf.matmul(x, w)
        guess, loss = tf.zeros_like(w), tf.constant(1.0)
        while loss > 1e-4:
            error = tf.matmul(x, guess) - y
            guess -= 0.02 * tf.matmul(x, error, transpose_a=True)
            loss = tf.reduce_mean(tf.square(error))
        return tf.matmul(x, guess)

    return Result(function, [normal(0, 12, 16), _w()])


@program("Newton's square root until it moves less than 1e-6", seconds=_END)
def newton():
    def function(x, w):
        a = 1.0 + tf.nn.relu(tf.matmul(x, w))
        guess, moved = a, tf.constant(1.0)
        while moved > 1e-6:
            better = 0.5 * (guess + a / guess)
            moved = tf.reduce_max(tf.abs(better - guess))
            guess = better
        return guess

    return Result(function, [_x(), _w()])


@program("bisection until the interval is below 1e-5", seconds=_END)
def bisection():
    def function(x, w):
        wanted = tf.sigmoid(tf.matmul(x, w))
        low, high = tf.zeros_like(wanted), tf.ones_like(wanted)
        while tf.reduce_max(high - low) > 1e-5:
            middle = (low + high) / 2.0
            above = middle > wanted
            low, high = tf.where(above, low, middle), tf.where(above, middle, high)
        return low

    return Result(function, [_x(), _w()])


@program("matrix inverse by Newton-Schulz", seconds=_END)
def newton_schulz():
    def function(w):
        a = tf.matmul(w, w, transpose_b=True) + tf.eye(16)
        x = tf.transpose(a) / (tf.reduce_max(tf.reduce_sum(tf.abs(a), 1)) ** 2)
        for _ in tf.range(30):
            x = tf.matmul(x, 2.0 * tf.eye(16) - tf.matmul(a, x))
        return x

    return Result(function, [_w()])


@program("PageRank, 100 steps, sums to one", seconds=_END)
def page_rank():
    def function(p):
        rank = tf.fill([1, 32], 1 / 32)
        for _ in tf.range(100):
            rank = 0.85 * tf.matmul(rank, p) + 0.15 / 32
        return tf.concat([rank * 32, [[tf.reduce_sum(rank)]]], 1)

    return Result(function, [tf.nn.softmax(normal(2, 32, 32)).numpy()])


@program("k-means until no centre moves", seconds=_END)
def k_means():
    def function(x, w):
        points = tf.matmul(x, w)
        centres, moved = points[:4], tf.constant(1.0)
        while moved > 0.0:
            away = tf.reduce_sum(tf.square(points[:, None] - centres[None]), -1)
            mine = tf.one_hot(tf.argmin(away, 1), 4)
            sums = tf.matmul(mine, points, transpose_a=True)
            new = sums / (tf.reduce_sum(mine, 0)[:, None] + 1e-9)
            moved = tf.reduce_max(tf.abs(new - centres))
            centres = new
        return centres

    clusters = 6.0 * np.repeat(normal(3, 4, 16), 12, 0)
    points = np.random.default_rng(4).permutation(clusters)
    return Result(function, [points + normal(5, 48, 16), _w()])


@program("running mean (99 * mean + x) / 100", seconds=_END)
def running_mean():
    def function(x, w):
        mean = tf.matmul(x, w)
        for _ in tf.range(1000):
            mean = (99.0 * mean + tf.tanh(tf.matmul(x + 3.0, w))) / 100.0
        return mean

    return Result(function, [_x(), _w()])


@program("product of 400 factors 1 - 0.01 * sigmoid", seconds=_END)
def product_of_factors():
    def function(x, w):
        left = tf.ones([4, 16])
        for _ in tf.range(400):
            left *= 1.0 - 0.01 * tf.sigmoid(tf.matmul(x, w))
        return left

    return Result(function, [_x(), _w()])

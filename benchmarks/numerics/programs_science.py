"""Equations of physics, prices, time series, samplers, clusters, optimisers, language models."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import layer
from numerics.program import Result, classes, normal, program, uniform


def _plate(degrees=300.0):
    """Temperatures of a plate in Kelvin, 1 x 32 x 32 x 1."""
    return (degrees + normal(8, 1, 32, 32, 1, scale=2.0)).astype(np.float32)


_LAPLACE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)[:, :, None, None]


@program("Laplacian of temperatures by a convolution")
def laplacian():
    return Result(lambda u: tf.nn.conv2d(u, _LAPLACE, 1, "VALID"), [_plate()])


@program("heat equation by a convolution, 40 steps")
def heat_equation():
    def function(u):
        step = lambda i, u: (i + 1, u + 0.1 * tf.nn.conv2d(u, _LAPLACE, 1, "SAME"))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 40, step, (0, u))[1][:, 12:-12, 12:-12] - 300.0

    return Result(function, [_plate()])


@program("second differences by a constant matrix")
def second_differences():
    matrix = np.eye(62, 64) - 2.0 * np.eye(62, 64, 1) + np.eye(62, 64, 2)
    waves = 50.0 + np.sin(np.arange(64)[:, None] / np.arange(4, 12)).astype(np.float32)
    return Result(lambda u: tf.matmul(matrix.astype(np.float32), u), [waves])


@program("a derivative by Savitzky and Golay")
def savitzky_golay():
    kernel = np.array([-2, -1, 0, 1, 2], np.float32)[:, None, None] / 10.0
    series = 1013.0 + np.cumsum(normal(0, 1, 200, 1, scale=0.3), 1).astype(np.float32)
    return Result(lambda p: tf.nn.conv1d(p, kernel, 1, "VALID"), [series])


@program("Poisson's equation by 400 steps of Jacobi")
def jacobi():
    kernel = np.abs(_LAPLACE) * (np.abs(_LAPLACE) < 2) / 4.0

    def function(source):
        step = lambda i, u: (i + 1, tf.nn.conv2d(u, kernel, 1, "SAME") + source)  # noqa: E731
        return tf.while_loop(lambda i, _: i < 400, step, (0, tf.zeros_like(source)))[1]

    return Result(function, [np.abs(normal(0, 1, 20, 20, 1, scale=0.1))])


@program("waves on a string, leapfrog by a convolution")
def leapfrog():
    kernel = np.float32([1, -2, 1])[:, None, None]

    def function(u):
        def step(i, before, now):
            return i + 1, now, 2.0 * now - before + 0.25 * tf.nn.conv1d(now, kernel, 1, "SAME")

        return tf.while_loop(lambda i, *_: i < 100, step, (0, u, u))[2]

    hill = np.exp(-np.square((np.arange(64) - 32.0) / 6.0)).astype(np.float32)
    return Result(function, [hill[None, :, None]])


@program("PINN: the residual u'' + u of a network")
def pinn():
    def function(x, w, v):
        hidden = tf.tanh(tf.matmul(x, w))
        first = tf.gradients(tf.matmul(hidden, v), x)[0]
        return tf.gradients(first, x)[0] + tf.matmul(hidden, v)

    x = np.linspace(-2, 2, 64, dtype=np.float32)[:, None]
    return Result(function, [x, normal(1, 1, 32), normal(2, 32, 1, scale=0.2)])


@program("predators and prey with learnt rates, Runge-Kutta")
def predators():
    def function(x, w, start):
        rates = 0.5 + 0.1 * tf.tanh(tf.matmul(x, w))

        def slope(y):
            met = y[:, :1] * y[:, 1:]
            return tf.concat([y[:, :1] - rates * met, rates * met - y[:, 1:]], 1)

        def step(i, y):
            a = slope(y)
            b = slope(y + 0.01 * a)
            return i + 1, y + 0.02 * b

        return tf.while_loop(lambda i, _: i < 200, step, (0, start))[1]

    inputs = [normal(0, 8, 32), normal(1, 32, 1, scale=0.18), uniform(2, 8, 2, low=1, high=3)]
    return Result(function, inputs)


def _kernel(x, y):
    """exp(-|x - y|² / 2), from squares and a product."""
    square = tf.reduce_sum(x**2, 1, keepdims=True) + tf.reduce_sum(y**2, 1)
    return tf.exp(-0.5 * (square - 2.0 * tf.matmul(x, y, transpose_b=True)))


@program("an RBF kernel of degrees of latitude and longitude")
def rbf():
    places = np.float32([[48.8, 12.3]]) + normal(0, 64, 2)
    return Result(lambda x: _kernel(x, x), [places])


@program("MMD of two samples around 10")
def mmd():
    def function(x, y):
        mean = tf.reduce_mean
        return mean(_kernel(x, x)) + mean(_kernel(y, y)) - 2.0 * mean(_kernel(x, y))

    return Result(function, [10.0 + normal(0, 100, 4), 10.2 + normal(1, 100, 4)])


@program("Gaussian process: the variance of a prediction")
def process():
    def function(x, new):
        kernel = _kernel(x, x) + 0.01 * tf.eye(40)
        cross = _kernel(new, x)
        return 1.0 - tf.reduce_sum(
            cross * tf.transpose(tf.linalg.solve(kernel, tf.transpose(cross))), 1
        )

    return Result(function, [normal(0, 40, 3), normal(1, 20, 3)])


@program("HMC: acceptance after ten leapfrog steps")
def hmc():
    def function(x, p, precision):
        energy = lambda x, p: 0.5 * tf.reduce_sum(x * tf.matmul(x, precision) + p * p, 1)  # noqa: E731
        before = energy(x, p)
        for _ in range(10):
            p -= 0.05 * tf.matmul(x, precision)
            x += 0.1 * p
            p -= 0.05 * tf.matmul(x, precision)
        return tf.minimum(1.0, tf.exp(before - energy(x, p)))

    root = normal(2, 16, 16, scale=0.25)
    precision = root @ root.T + np.eye(16, dtype=np.float32)
    return Result(function, [normal(0, 32, 16), normal(1, 32, 16), precision])


@program("a flow and its inverse, what does not come back")
def inverse_flow():
    def function(x, w):
        left, right = x[:, :16], x[:, 16:]
        scale = tf.exp(tf.tanh(tf.matmul(left, w)))
        return (right * scale + left) / scale - left / scale + right

    return Result(function, [normal(0, 64, 32), normal(1, 16, 16, scale=0.25)])


@program("a diffusion sampler of 50 steps")
def sampler():
    betas = np.linspace(1e-4, 0.05, 50, dtype=np.float32)
    kept = np.cumprod(1 - betas)

    def function(x, w, v):
        for t in range(49, -1, -1):
            noise = tf.matmul(tf.tanh(tf.matmul(x, w)), v)
            x = (x - betas[t] / np.sqrt(1 - kept[t]) * noise) / np.sqrt(1 - betas[t])
        return x

    return Result(
        function, [normal(0, 16, 32), normal(1, 32, 32, scale=0.18), normal(2, 32, 32, scale=0.1)]
    )


@program("k-means: the nearest centre of points around 100")
def nearest_centre():
    def function(x, centres):
        square = tf.reduce_sum(centres**2, 1) - 2.0 * tf.matmul(x, centres, transpose_b=True)
        return tf.one_hot(tf.argmin(square, 1), 5)

    centres = 100.0 + normal(1, 5, 8, scale=3.0)
    return Result(function, [centres[classes(2, 64, 5)] + normal(0, 64, 8, scale=0.3), centres])


@program("PCA: variances from a product less the means")
def principal():
    def function(x):
        mean = tf.reduce_mean(x, 0, keepdims=True)
        cov = tf.matmul(x, x, transpose_a=True) / 256.0 - tf.matmul(mean, mean, transpose_a=True)
        return tf.linalg.eigvalsh(cov)

    return Result(function, [20.0 + normal(0, 256, 8) * np.arange(1, 9, dtype=np.float32) / 4])


@program("polynomial regression of degree 5 by normal equations")
def regression():
    def function(x, y):
        gram = tf.matmul(x, x, transpose_a=True)
        return tf.matmul(x, tf.linalg.solve(gram, tf.matmul(x, y, transpose_a=True)))

    t = np.linspace(0, 1, 64, dtype=np.float32)
    return Result(function, [np.stack([t**k for k in range(6)], 1), np.sin(5 * t)[:, None]])


@program("Newton's steps of a logistic regression")
def newton():
    def function(w, x, y):
        for _ in range(5):
            p = tf.sigmoid(tf.matmul(x, w))
            hessian = tf.matmul(x, x * p * (1.0 - p), transpose_a=True) + 0.01 * tf.eye(8)
            w = w - tf.linalg.solve(hessian, tf.matmul(x, p - y, transpose_a=True))
        return w

    x = normal(0, 128, 8)
    y = (x @ normal(1, 8, 1) + normal(2, 128, 1) > 0).astype(np.float32)
    return Result(function, [np.zeros([8, 1], np.float32), x, y])


@program("mass of molecules by counts of atoms, parts per million off")
def masses():
    def function(counts, masses, measured):
        exact = tf.matmul(counts, masses)
        return (measured - exact) / exact * 1e6

    masses = np.float32([[12.0], [1.007825], [14.003074], [15.994915], [31.972071]])
    counts = classes(0, 64 * 5, 20).reshape([64, 5]).astype(np.float32)
    counts[:, 0] += 5
    return Result(
        function, [counts, masses, (counts @ masses) * (1 + normal(1, 64, 1, scale=5e-5))]
    )


@program("perplexity of a text, classes of a product")
def perplexity():
    def function(z, words):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(words, z)
        return tf.exp(tf.reduce_mean(loss))

    return layer(function, classes(2, 64, 50), outputs=50)


@program("mixture of experts: words sent by a product with their places")
def dispatched():
    def function(x, expert, place):
        sent = tf.einsum("te,tc->tec", expert, tf.one_hot(tf.cast(place, tf.int32), 64))
        return tf.einsum("tec,td->ecd", sent, x)

    expert = np.eye(4, dtype=np.float32)[classes(0, 200, 4)]
    place = np.sum((np.cumsum(expert, 0) - 1) * expert, 1)
    return Result(function, [normal(1, 200, 8), expert, place])


def _bytes():
    a, b = classes(0, 64 * 64, 256), classes(1, 64 * 8, 256)
    return [a.reshape([64, 64]).astype(np.uint8), b.reshape([64, 8]).astype(np.uint8)]


@program("a product of 8-bit integers in float, to int32")
def quantized_product():
    def function(a, b):
        total = tf.matmul(tf.cast(a, tf.float32), tf.cast(b, tf.float32))
        return tf.cast(total, tf.int32) % 256

    return Result(function, _bytes())


@program("a product of 8-bit integers less its zero points")
def zero_points():
    def function(a, b):
        a, b = tf.cast(a, tf.float32), tf.cast(b, tf.float32)
        return 1e-3 * (tf.matmul(a, b) - 128.0 * tf.reduce_sum(b, 0))

    return Result(function, _bytes())


@program("spherical harmonics of order 4 of turned directions")
def harmonics():
    def function(x, turn):
        z = tf.matmul(x, turn)[:, 2]
        return 35.0 * z**4 - 30.0 * z**2 + 3.0

    x = normal(0, 64, 3)
    turn = np.linalg.qr(normal(1, 3, 3))[0].astype(np.float32)
    return Result(function, [x / np.linalg.norm(x, axis=1, keepdims=True), turn])


@program("energy levels of a well, a product on a diagonal of 2 / h²")
def levels():
    def function(z):
        steps = 800.0 * (np.eye(40) - 0.5 * np.eye(40, k=1) - 0.5 * np.eye(40, k=-1))
        matrix = steps.astype(np.float32) + tf.linalg.diag(z[:, 0])
        return tf.linalg.eigvalsh(matrix)[:4]

    return layer(function, rows=40)


# The product itself is worth 1 % in float16.
@program("a differentiable threshold of 50 (p - t)", tolerance={"float16": 0.015})
def threshold():
    def function(z):
        p, t = tf.sigmoid(z[:, :1]), tf.sigmoid(z[:, 1:])
        return tf.sigmoid(50.0 * (p - t))

    return layer(function, outputs=2)


@program("gradient of a gate that is nearly open")
def open_gate():
    def function(z):
        gate = tf.sigmoid(6.0 + z)
        return tf.gradients(tf.reduce_sum(gate), z)[0]

    return layer(function)


@program("what a gate of nearly one leaves out")
def closed_gate():
    return layer(lambda z: 1.0 - tf.sigmoid(6.0 + z))


@program("site energies of 300 and a correction, softmax")
def site_energies():
    return layer(lambda z, energy: tf.nn.softmax(-(energy + z)), 300.0 + normal(2, 16), outputs=16)


@program("a fixed point z = tanh(Wz + x), until it moves less than 1e-5", seconds=8)
def fixed_point():
    def function(x, w):
        def body(z, _):
            new = tf.tanh(tf.matmul(z, w) + x)
            return new, z

        start = (tf.zeros_like(x), tf.ones_like(x))
        return tf.while_loop(lambda z, old: tf.reduce_max(tf.abs(z - old)) > 1e-5, body, start)[0]

    return Result(function, [normal(0, 8, 16), normal(1, 16, 16, scale=0.12)])


@program("Jacobi's solver until the residual is below 1e-4", seconds=8)
def jacobi_solver():
    def function(a, b):
        d = tf.linalg.diag_part(a)[:, None]
        body = lambda x: (x + (b - tf.matmul(a, x)) / d,)  # noqa: E731
        cond = lambda x: tf.reduce_max(tf.abs(tf.matmul(a, x) - b)) > 1e-4  # noqa: E731
        return tf.while_loop(cond, body, (tf.zeros_like(b),))[0]

    return Result(
        function,
        [normal(0, 32, 32, scale=0.1) + 4.0 * np.eye(32, dtype=np.float32), normal(1, 32, 1)],
    )


@program("an inverse by Newton and Schulz until |I - AX| is below 1e-4", seconds=8)
def schulz():
    def function(a):
        eye = tf.eye(16)
        body = lambda x: (tf.matmul(x, 2.0 * eye - tf.matmul(a, x)),)  # noqa: E731
        cond = lambda x: tf.reduce_max(tf.abs(eye - tf.matmul(a, x))) > 1e-4  # noqa: E731
        return tf.while_loop(cond, body, (0.2 * eye,))[0]

    return Result(function, [normal(0, 16, 16, scale=0.1) + 2.0 * np.eye(16, dtype=np.float32)])


@program("local contrast: a convolution less its average pool")
def contrast():
    def function(x, w, sky):
        h = tf.nn.conv2d(x, w, 1, "SAME") + sky
        return (h - tf.nn.avg_pool2d(h, 5, 1, "SAME"))[:, 2:-2, 2:-2]

    return Result(
        function, [normal(0, 1, 16, 16, 4), normal(1, 3, 3, 4, 4, scale=0.1), np.float32(200.0)]
    )

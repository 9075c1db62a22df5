"""Decompositions, exponentials and determinants of products."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, normal, program

_SIZE = 8
# Solving magnifies the error of the product by the condition of the matrix, here about 10.
_SOLVED = {"bfloat16": 0.1, "float16": 0.02}


def _w(seed=1, scale=0.3):
    return normal(seed, _SIZE, _SIZE, scale=scale)


def _of_gram(name, function, **options):
    """`function(w w' + 1, b)`, of a product that is symmetric and positive."""

    @program(name, **options)
    def build():
        def whole(w, b):
            return function(tf.matmul(w, w, transpose_b=True) + tf.eye(_SIZE), b)

        return Result(whole, [_w(), normal(2, _SIZE, 2)])


linalg = tf.linalg
_of_gram("expm of a product", lambda a, b: linalg.expm(a - 2.0 * tf.eye(_SIZE)))
_of_gram("inverse of a product", lambda a, b: linalg.inv(a), tolerance=_SOLVED)
_of_gram("cholesky of a product", lambda a, b: linalg.cholesky(a))
_of_gram("cholesky_solve", lambda a, b: linalg.cholesky_solve(linalg.cholesky(a), b))
_of_gram("logdet of a product", lambda a, b: linalg.logdet(a))
_of_gram("det of a product", lambda a, b: linalg.det(a))
_of_gram("svd of a product", lambda a, b: linalg.svd(a, compute_uv=False))
_of_gram("eigh of a product", lambda a, b: linalg.eigh(a)[0])
_of_gram("sqrtm of a product", lambda a, b: linalg.sqrtm(a))
_of_gram("qr of a product", lambda a, b: tf.abs(linalg.qr(a)[1]))
_of_gram("solve of a product", linalg.solve, tolerance=_SOLVED)
_of_gram("lstsq", lambda a, b: linalg.lstsq(a, b), tolerance=_SOLVED)
_of_gram("pinv of a product", lambda a, b: linalg.pinv(a), tolerance=_SOLVED)
_of_gram("trace and Frobenius norm", lambda a, b: tf.stack([linalg.trace(a), tf.norm(a)]))
_of_gram("solve by an inverse times a product", lambda a, b: tf.matmul(linalg.inv(a), b))


@program("the residual of a solution, a x - b")
def residual():
    """The residual is only rounding error; it is compared with the size of b."""

    def function(w, b):
        a = tf.matmul(w, w, transpose_b=True) + tf.eye(_SIZE)
        return tf.concat([b, tf.matmul(a, linalg.solve(a, b)) - b], 0)

    return Result(function, [_w(), normal(2, _SIZE, 2)])


@program("Gaussian process, cholesky of a kernel with 1e-6 jitter", tolerance=_SOLVED)
def gaussian_process():
    """The jitter is lost in a low dtype, and then the kernel has no root."""

    def function(x, w, y):
        z = tf.matmul(x, w)
        squares = tf.reduce_sum(z * z, 1, keepdims=True)
        away = squares + tf.transpose(squares) - 2.0 * tf.matmul(z, z, transpose_b=True)
        kernel = tf.exp(-0.5 * tf.maximum(away, 0.0) / 4.0) + 1e-6 * tf.eye(12)
        root = linalg.cholesky(kernel)
        log_det = 2.0 * tf.reduce_sum(tf.math.log(linalg.diag_part(root)))
        fit = tf.reduce_sum(y * linalg.cholesky_solve(root, y))
        return tf.stack([0.5 * (fit + log_det)])

    return Result(function, [normal(0, 12, 8), _w(), normal(2, 12, 1)])


@program("cholesky of a covariance with 1e-3 jitter", tolerance=_SOLVED)
def covariance():
    """A covariance of fewer rows than columns: only the jitter makes it positive definite."""

    def function(x, w):
        z = tf.matmul(x, w)
        z -= tf.reduce_mean(z, 0)
        a = tf.matmul(z, z, transpose_a=True) / 6.0 + 1e-3 * tf.eye(_SIZE)
        return linalg.cholesky(a)

    return Result(function, [normal(0, 6, 8), _w()])


@program("multivariate normal log-likelihood, trained", kind="training")
def multivariate():
    def loss(variables, x):
        mean, factor = variables
        a = tf.matmul(factor, factor, transpose_b=True) + 0.1 * tf.eye(_SIZE)
        centred = tf.transpose(x - mean)
        fit = tf.reduce_mean(tf.reduce_sum(centred * linalg.solve(a, centred), 0))
        return 0.5 * (fit + linalg.logdet(a))

    x = normal(0, 64, _SIZE) @ _w(3) + 1.0
    return Training(loss, [np.zeros(_SIZE, np.float32), _w()], [x])


@program("Kalman filter, 100 steps", tolerance=_SOLVED, seconds=25)
def kalman():
    def function(f, y):
        x, p = tf.zeros([_SIZE, 1]), tf.eye(_SIZE)
        h = tf.eye(2, _SIZE)
        for row in y:
            x, p = tf.matmul(f, x), tf.matmul(tf.matmul(f, p), f, transpose_b=True)
            p += 0.01 * tf.eye(_SIZE)
            s = tf.matmul(tf.matmul(h, p), h, transpose_b=True) + 0.1 * tf.eye(2)
            gain = tf.matmul(tf.matmul(p, h, transpose_b=True), linalg.inv(s))
            x += tf.matmul(gain, row[:, None] - tf.matmul(h, x))
            p = tf.matmul(tf.eye(_SIZE) - tf.matmul(gain, h), p)
        return tf.concat([x, p], 1)

    f = 0.95 * linalg.qr(_w())[0].numpy()
    return Result(function, [f, normal(2, 100, 2)])


@program("polynomial of 6th degree of a product")
def polynomial():
    def function(x, w):
        z = tf.matmul(x, w)
        return tf.math.polyval([1.0, -6.0, 15.0, -20.0, 15.0, -6.0, 1.0], 1.0 + 0.5 * z)

    return Result(function, [normal(0, 8, 8), _w()])


@program("log(1 + x) and exp(x) - 1 of a small product")
def small_numbers():
    def function(x, w):
        z = 1e-4 * tf.matmul(x, w)
        return 1e4 * tf.stack([tf.math.log1p(z), tf.math.expm1(z)])

    return Result(function, [normal(0, 8, 8), _w()])


@program("softplus by hand, log(1 + exp(x)) of a large product")
def softplus():
    def function(x, w):
        return tf.math.log(1.0 + tf.exp(6.0 * tf.matmul(x, w)))

    return Result(function, [normal(0, 8, 8), _w()])


@program("finite difference of a product")
def finite_difference():
    """With a step of 1e-3, the change is below the precision of a low dtype."""

    def function(x, w):
        def f(y):
            return tf.reduce_sum(tf.sin(tf.matmul(y, w)), 1)

        return (f(x + 1e-3) - f(x - 1e-3)) / 2e-3

    return Result(function, [normal(0, 8, 8), _w()])


@program("Jacobian's log-determinant of a layer")
def jacobian():
    def function(x, w):
        slopes = 1.0 - tf.square(tf.tanh(tf.matmul(x, w)))
        return linalg.logdet(tf.abs(slopes[:, :, None]) * tf.transpose(tf.matmul(w, w)) + tf.eye(8))

    return Result(function, [normal(0, 8, 8), _w(scale=0.2)])

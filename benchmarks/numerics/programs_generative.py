"""ELBOs, normalizing flows and samplers: sums of logarithms of densities."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, normal, program, uniform

_COUNT, _WIDTH = 32, 8
_LOG_2PI = float(np.log(2 * np.pi))


def _weights(sizes):
    """Weights and biases of layers of these sizes."""
    pairs = zip(sizes[:-1], sizes[1:])
    found = []
    for seed, (rows, columns) in enumerate(pairs):
        found += [normal(seed, rows, columns, scale=rows**-0.5), np.zeros(columns, np.float32)]
    return found


@program("VAE, ELBO with logits", kind="training")
def vae():
    return _vae(lambda logits, x: tf.nn.sigmoid_cross_entropy_with_logits(x, logits))


@program("VAE, ELBO with log(sigmoid + 1e-10)", kind="training")
def vae_by_hand():
    def reconstruction(logits, x):
        chance = tf.sigmoid(logits)
        return -(x * tf.math.log(chance + 1e-10) + (1 - x) * tf.math.log(1 - chance + 1e-10))

    return _vae(reconstruction, steps=150)


def _vae(reconstruction, **options):
    def loss(variables, x, noise):
        w1, b1, w2, b2 = variables[:4]
        mean, log_variance = tf.split(tf.matmul(x, w1) + b1, 2, 1)
        z = mean + tf.exp(0.5 * log_variance) * noise
        kl = 0.5 * tf.reduce_sum(tf.exp(log_variance) + tf.square(mean) - 1.0 - log_variance, 1)
        return tf.reduce_mean(tf.reduce_sum(reconstruction(tf.matmul(z, w2) + b2, x), 1) + kl)

    variables = [*_weights([24, 8]), *_weights([4, 24])]
    x = (uniform(5, _COUNT, 24) > 0.5).astype(np.float32)
    return Training(loss, variables, [x, normal(6, _COUNT, 4)], **options)


@program("RealNVP, sum of scales as log-determinant", kind="training")
def coupling_flow():
    def loss(variables, x):
        log_det = tf.zeros([_COUNT])
        for index in range(0, 8, 4):
            w1, b1, w2, b2 = variables[index : index + 4]
            kept, changed = tf.split(x, 2, 1)
            shift, scale = tf.split(tf.matmul(tf.tanh(tf.matmul(kept, w1) + b1), w2) + b2, 2, 1)
            scale = tf.tanh(scale)
            log_det += tf.reduce_sum(scale, 1)
            x = tf.concat([changed * tf.exp(scale) + shift, kept], 1)
        density = -0.5 * tf.reduce_sum(tf.square(x) + _LOG_2PI, 1)
        return -tf.reduce_mean(density + log_det)

    variables = [*_weights([4, 16, 8]), *_weights([4, 16, 8])]
    return Training(loss, variables, [3.0 + 2.0 * normal(5, _COUNT, _WIDTH)])


@program("linear flow, slogdet of the weights", kind="training")
def linear_flow():
    def loss(variables, x):
        w, b = variables
        z = tf.matmul(x, w) + b
        _, log_det = tf.linalg.slogdet(w)
        return tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(z) + _LOG_2PI, 1)) - log_det

    variables = [np.eye(_WIDTH, dtype=np.float32), np.zeros(_WIDTH, np.float32)]
    return Training(loss, variables, [3.0 + 2.0 * normal(5, _COUNT, _WIDTH)], steps=150)


@program("planar flow, log|1 + u'ψ| + 1e-6", kind="training")
def planar_flow():
    def loss(variables, x):
        log_det = tf.zeros([_COUNT, 1])
        for u, w, b in zip(variables[::3], variables[1::3], variables[2::3]):
            h = tf.tanh(tf.matmul(x, w) + b)
            psi = (1.0 - tf.square(h)) * tf.matmul(u, w)
            x += tf.matmul(h, u)
            log_det += tf.math.log(tf.abs(1.0 + psi) + 1e-6)
        return tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(x), 1, keepdims=True) - log_det)

    layers = [
        [normal(seed, 1, _WIDTH, scale=0.3), normal(seed + 9, _WIDTH, 1), np.zeros(1, np.float32)]
        for seed in range(3)
    ]
    return Training(loss, sum(layers, []), [1.0 + normal(5, _COUNT, _WIDTH)])


@program("GAN's losses with log(x + 1e-8)", kind="training")
def gan():
    def loss(variables, x, noise):
        def critic(images):
            w1, b1, w2, b2 = variables[:4]
            return tf.sigmoid(tf.matmul(tf.nn.relu(tf.matmul(images, w1) + b1), w2) + b2)

        made = tf.matmul(noise, tf.ones([_WIDTH, _WIDTH]) / _WIDTH)
        right = tf.math.log(critic(x) + 1e-8) + tf.math.log(1.0 - critic(made) + 1e-8)
        return -tf.reduce_mean(right)

    inputs = [2.0 + normal(5, _COUNT, _WIDTH), normal(6, _COUNT, _WIDTH)]
    return Training(loss, _weights([_WIDTH, 16, 1]), inputs, steps=150)


@program("WGAN's gradient penalty", kind="training")
def gradient_penalty():
    def loss(variables, x):
        w1, b1, w2, b2 = variables
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = tf.matmul(tf.tanh(tf.matmul(x, w1) + b1), w2) + b2
        slopes = tf.sqrt(tf.reduce_sum(tf.square(tape.gradient(values, x)), 1) + 1e-12)
        return tf.reduce_mean(values) + 10.0 * tf.reduce_mean(tf.square(slopes - 1.0))

    return Training(loss, _weights([_WIDTH, 16, 1]), [normal(5, _COUNT, _WIDTH)])


@program("diffusion, cumulative product of 1 - beta")
def diffusion():
    def function(x, w, noise):
        betas = tf.linspace(1e-4, 0.02, 200)
        alphas = tf.math.cumprod(1.0 - betas)
        for t in range(199, 0, -10):
            guessed = 0.1 * tf.matmul(x, w)
            x = (x - tf.sqrt(1.0 - alphas[t]) * guessed) / tf.sqrt(alphas[t])
            x = tf.sqrt(alphas[t - 1]) * x + tf.sqrt(1.0 - alphas[t - 1]) * guessed
        return x + 0.01 * noise

    shape = (_COUNT, _WIDTH)
    return Result(function, [normal(0, *shape), normal(1, 8, 8, scale=0.3), normal(2, *shape)])


@program("Gumbel softmax with -log(-log(u + 1e-20) + 1e-20)")
def gumbel():
    def function(x, w, u):
        noise = -tf.math.log(-tf.math.log(u + 1e-20) + 1e-20)
        return tf.nn.softmax((tf.matmul(x, w) + noise) / 0.5)

    u = uniform(2, _COUNT, 4)
    u[0, 0] = 0.0
    return Result(function, [normal(0, _COUNT, _WIDTH), normal(1, _WIDTH, 4, scale=0.3), u])


@program("importance weights, effective sample size")
def importance():
    def function(x, w):
        log_weights = tf.squeeze(tf.matmul(x, w), 1)
        weights = tf.exp(log_weights - tf.reduce_max(log_weights))
        weights /= tf.reduce_sum(weights)
        return tf.stack([1.0 / tf.reduce_sum(tf.square(weights)), tf.reduce_max(weights) * 10.0])

    return Result(function, [normal(0, 512, _WIDTH), normal(1, _WIDTH, 1, scale=0.3)])

"""Losses that users write by hand."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Training, classes, normal, program, uniform

_COUNT, _WIDTH = 32, 12
# Examples for a density without a bound: enough that two layers do not overfit, which is chaotic.
_MANY = 256


def _mlp(variables, x):
    """Two layers with the first four variables as weights and biases."""
    w1, b1, w2, b2 = variables[:4]
    return tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2


def _weights(outputs, hidden=16, width=_WIDTH):
    first = normal(1, width, hidden, scale=width**-0.5)
    last = normal(2, hidden, outputs, scale=hidden**-0.5)
    return [first, np.zeros(hidden, np.float32), last, np.zeros(outputs, np.float32)]


def _add(name, outputs, loss, targets, count=_COUNT, **options):
    """Adds a program that minimizes `loss(outputs of two layers, targets)`."""

    @program(name, kind="training")
    def build():
        def of_variables(variables, x, *y):
            return tf.reduce_mean(loss(_mlp(variables, x), *y))

        x = normal(0, count, _WIDTH)
        return Training(of_variables, _weights(outputs), [x, *targets()], **options)


def _add_density(name, outputs, loss, targets=None):
    """Adds a likelihood of numbers that are half linear in the inputs and half noise."""

    def linear():
        return [normal(0, _MANY, _WIDTH) @ normal(9, _WIDTH, 1, scale=0.2) + normal(3, _MANY, 1)]

    _add(name, outputs, loss, targets or linear, count=_MANY, rate=0.01)


def _numbers(outputs=1, seed=3):
    return lambda: [normal(seed, _COUNT, outputs)]


def _bits(outputs=1):
    return lambda: [classes(2, _COUNT * outputs, 2).reshape(_COUNT, outputs).astype(np.float32)]


def _gaussian_log_variance(x, y):
    mean, log_variance = tf.split(x, 2, 1)
    return 0.5 * (log_variance + tf.square(y - mean) * tf.exp(-log_variance) + np.log(2 * np.pi))


def _gaussian_softplus(x, y):
    mean, spread = tf.split(x, 2, 1)
    spread = tf.nn.softplus(spread) + 1e-6
    return tf.square((y - mean) / spread) / 2.0 + tf.math.log(spread)


_add_density("Gaussian log-likelihood, log-variance", 2, _gaussian_log_variance)
_add_density("Gaussian log-likelihood, softplus + 1e-6", 2, _gaussian_softplus)


def _student(x, y):
    mean, spread = tf.split(x, 2, 1)
    ratio = (y - mean) * tf.exp(-spread)
    constant = tf.math.lgamma(2.0) - tf.math.lgamma(1.5)
    return 2.0 * tf.math.log1p(tf.square(ratio) / 3.0) + spread - constant


_add_density("Student's t log-likelihood", 2, _student)


def _negative_binomial(x, y):
    log_mean, log_size = tf.split(x, 2, 1)
    mean, size = tf.exp(log_mean), tf.exp(log_size)
    chance = tf.math.lgamma(y + size) - tf.math.lgamma(size) - tf.math.lgamma(y + 1.0)
    chance += size * tf.math.log(size / (size + mean)) + y * tf.math.log(mean / (size + mean))
    return -chance


def _counts():
    return [np.floor(np.exp(1.5 * normal(3, _MANY, 1) + 1)).astype(np.float32)]


_add_density("negative binomial log-likelihood", 2, _negative_binomial, _counts)


def _poisson(x, y):
    return tf.exp(x) - y * x + tf.math.lgamma(y + 1.0)


_add_density("Poisson log-likelihood", 1, _poisson, _counts)
_add_density("Poisson log-likelihood of large counts", 1, _poisson, lambda: [_counts()[0] * 40])


def _gamma(x, y):
    alpha, beta = tf.split(tf.nn.softplus(x) + 1e-3, 2, 1)
    return (
        tf.math.lgamma(alpha) - alpha * tf.math.log(beta) - (alpha - 1) * tf.math.log(y) + beta * y
    )


_add_density("Gamma log-likelihood", 2, _gamma, lambda: [uniform(3, _MANY, 1, low=0.1, high=4.0)])


def _beta(x, y):
    a, b = tf.split(tf.nn.softplus(x) + 1e-3, 2, 1)
    log_beta = tf.math.lgamma(a) + tf.math.lgamma(b) - tf.math.lgamma(a + b)
    return log_beta - (a - 1) * tf.math.log(y) - (b - 1) * tf.math.log1p(-y)


_add_density("Beta log-likelihood", 2, _beta, lambda: [uniform(3, _MANY, 1, low=0.001, high=0.999)])


def _von_mises(x, y):
    mean, size = tf.split(x, 2, 1)
    size = tf.nn.softplus(size)
    return -size * tf.cos(y - mean) + tf.math.log(tf.math.bessel_i0e(size)) + size


_add_density("von Mises log-likelihood", 2, _von_mises)


def _mixture(x, y):
    logits, means, log_spreads = tf.split(x, 3, 1)
    chances = -0.5 * tf.square((y - means) * tf.exp(-log_spreads)) - log_spreads
    return -tf.reduce_logsumexp(tf.nn.log_softmax(logits) + chances, 1)


def _mixture_by_hand(x, y):
    logits, means, spreads = tf.split(x, 3, 1)
    spreads = tf.exp(spreads)
    chances = tf.exp(-0.5 * tf.square((y - means) / spreads)) / (spreads * np.sqrt(2 * np.pi))
    return -tf.math.log(tf.reduce_sum(tf.nn.softmax(logits) * chances, 1) + 1e-10)


_add_density("mixture density, logsumexp", 9, _mixture)
_add_density("mixture density, logarithm of a sum + 1e-10", 9, _mixture_by_hand)


def _quantiles(x, y):
    levels = tf.constant([0.01, 0.5, 0.99])
    return tf.maximum(levels * (y - x), (levels - 1.0) * (y - x))


_add("quantile loss", 3, _quantiles, _numbers())


def _cox(x, times, seen):
    """The partial likelihood of survival; the risk set is all who live at least as long."""
    order = tf.argsort(tf.squeeze(times, 1), direction="DESCENDING")
    risk = tf.gather(tf.squeeze(x, 1), order)
    log_risks = tf.math.log(tf.cumsum(tf.exp(risk)))
    return -tf.gather(tf.squeeze(seen, 1), order) * (risk - log_risks)


_add("Cox partial likelihood", 1, _cox, lambda: [uniform(3, _COUNT, 1), _bits()()[0]])


def _dice(x, y):
    chances = tf.sigmoid(x)
    both = 2.0 * tf.reduce_sum(chances * y) + 1e-7
    return 1.0 - both / (tf.reduce_sum(chances) + tf.reduce_sum(y) + 1e-7)


def _iou(x, y):
    chances = tf.sigmoid(x)
    both = tf.reduce_sum(chances * y, 1)
    return 1.0 - (both + 1e-6) / (tf.reduce_sum(chances + y - chances * y, 1) + 1e-6)


def _tversky(x, y):
    chances = tf.sigmoid(x)
    both = tf.reduce_sum(chances * y)
    wrong = 0.3 * tf.reduce_sum(chances * (1 - y)) + 0.7 * tf.reduce_sum((1 - chances) * y)
    return tf.pow(1.0 - both / (both + wrong + 1e-6), 0.75)


_add("dice loss", 8, _dice, _bits(8))
_add("IoU loss", 8, _iou, _bits(8))
_add("focal Tversky loss", 8, _tversky, _bits(8))
_add("dice loss of empty masks", 8, _dice, lambda: [np.zeros([_COUNT, 8], np.float32)], steps=150)


def _boxes(x, y):
    """Generalized IoU of boxes given as corners and sizes."""
    low, high = x[:, :2], x[:, :2] + tf.nn.softplus(x[:, 2:])
    low_y, high_y = y[:, :2], y[:, :2] + y[:, 2:]
    area = tf.reduce_prod(high - low, 1)
    area_y = tf.reduce_prod(high_y - low_y, 1)
    both = tf.maximum(tf.minimum(high, high_y) - tf.maximum(low, low_y), 0.0)
    either = area + area_y - tf.reduce_prod(both, 1)
    hull = tf.reduce_prod(tf.maximum(high, high_y) - tf.minimum(low, low_y), 1)
    return 1.0 - tf.reduce_prod(both, 1) / (either + 1e-7) + (hull - either) / (hull + 1e-7)


_add("generalized IoU of boxes", 4, _boxes, lambda: [uniform(3, _COUNT, 4, low=0.1, high=1.0)])


def _focal(x, y):
    chances = tf.clip_by_value(tf.sigmoid(x), 1e-7, 1.0 - 1e-7)
    sure = y * chances + (1 - y) * (1 - chances)
    return -tf.pow(1.0 - sure, 2.0) * tf.math.log(sure)


_add("focal loss by hand", 8, _focal, _bits(8), steps=150)


def _smoothed(x, y):
    labels = tf.one_hot(y, 4) * 0.9 + 0.1 / 4
    return -tf.reduce_sum(labels * tf.math.log(tf.nn.softmax(x) + 1e-8), 1)


_add("label smoothing by hand", 4, _smoothed, lambda: [classes(3, _COUNT, 4)])


def _reshaped_bce(x, y):
    chances = tf.reshape(tf.sigmoid(x), [-1])
    y = tf.reshape(y, [-1])
    return -(y * tf.math.log(chances + 1e-7) + (1 - y) * tf.math.log(1 - chances + 1e-7))


_add("BCE of a Sigmoid and a Reshape, 1e-7", 8, _reshaped_bce, _bits(8), steps=150)


def _log_of_one_minus(x, y):
    chances = tf.sigmoid(x)
    return -(y * tf.math.log(chances) + (1 - y) * tf.math.log(1 - chances))


_add("BCE without an epsilon", 8, _log_of_one_minus, _bits(8), steps=40)


def _contrastive(x):
    x = tf.math.l2_normalize(x, 1)
    scores = tf.matmul(x, x, transpose_b=True) / 0.07
    scores -= 1e9 * tf.eye(_COUNT)
    pairs = tf.roll(tf.range(_COUNT), _COUNT // 2, 0)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(pairs, scores)


_add("contrastive, diagonal - 1e9", 8, _contrastive, lambda: [])


def _contrastive_where(x):
    x = tf.math.l2_normalize(x, 1)
    scores = tf.matmul(x, x, transpose_b=True) / 0.07
    scores = tf.linalg.set_diag(scores, tf.fill([_COUNT], -1e9))
    half = _COUNT // 2
    paired = tf.gather(scores, tf.roll(tf.range(_COUNT), half, 0), batch_dims=1)
    return tf.reduce_logsumexp(scores, 1) - paired


_add("contrastive, set_diag and logsumexp", 8, _contrastive_where, lambda: [])


def _triplet(x, y):
    x = tf.math.l2_normalize(x, 1)
    squares = tf.reduce_sum(x * x, 1, keepdims=True)
    away = squares + tf.transpose(squares) - 2.0 * tf.matmul(x, x, transpose_b=True)
    away = tf.sqrt(tf.maximum(away, 0.0) + 1e-12)
    same = tf.cast(tf.equal(y[:, None], y[None]), tf.float32)
    farthest = tf.reduce_max(away * same, 1)
    nearest = tf.reduce_min(away + 1e6 * same, 1)
    return tf.nn.relu(farthest - nearest + 0.2)


_add("triplet loss, hardest by + 1e6", 8, _triplet, lambda: [classes(3, _COUNT, 4)])


def _barlow(x, y):
    def standard(z):
        return (z - tf.reduce_mean(z, 0)) / (tf.math.reduce_std(z, 0) + 1e-5)

    product = tf.matmul(standard(x), standard(y), transpose_a=True) / _COUNT
    off = tf.square(product) * (1.0 - tf.eye(8))
    diagonal = tf.square(1.0 - tf.linalg.diag_part(product))
    return tf.reduce_sum(diagonal) + 5e-3 * tf.reduce_sum(off)


_add("Barlow twins", 8, _barlow, _numbers(8))


def _ppo(x, actions, old, gains):
    log_chances = tf.gather(tf.nn.log_softmax(x), actions, batch_dims=1)
    ratio = tf.exp(log_chances - old)
    clipped = tf.clip_by_value(ratio, 0.8, 1.2)
    entropy = -tf.reduce_sum(tf.nn.softmax(x) * tf.nn.log_softmax(x), 1)
    return -tf.minimum(ratio * gains, clipped * gains) - 0.01 * entropy


def _steps_of_an_agent():
    return [classes(3, _COUNT, 4), -uniform(4, _COUNT, low=0.8, high=2.0), normal(5, _COUNT)]


_add("PPO, clipped ratio", 4, _ppo, _steps_of_an_agent)


def _ratio_of_chances(x, actions, old, gains):
    chances = tf.reduce_sum(tf.nn.softmax(x) * tf.one_hot(actions, 4), 1)
    return -chances / (tf.exp(old) + 1e-8) * gains


_add("ratio of probabilities + 1e-8", 4, _ratio_of_chances, _steps_of_an_agent)


def _squashed_gaussian(x, noise, q):
    mean, log_spread = tf.split(x, 2, 1)
    log_spread = tf.clip_by_value(log_spread, -20.0, 2.0)
    raw = mean + tf.exp(log_spread) * noise
    action = tf.tanh(raw)
    chance = -0.5 * tf.square(noise) - log_spread - tf.math.log(1.0 - tf.square(action) + 1e-6)
    return 0.2 * tf.reduce_sum(chance, 1) + tf.reduce_sum(tf.square(action - q), 1)


_add(
    "soft actor-critic, log(1 - tanh² + 1e-6)",
    4,
    _squashed_gaussian,
    lambda: [2.0 * normal(3, _COUNT, 2), normal(4, _COUNT, 2)],
)


def _ctc(x, labels):
    logits = tf.reshape(x, [_COUNT, 8, 5])
    lengths = tf.fill([_COUNT], 3)
    return tf.nn.ctc_loss(labels, logits, lengths, tf.fill([_COUNT], 8), False, blank_index=0)


_add("CTC", 40, _ctc, lambda: [1 + classes(3, _COUNT * 3, 4).reshape(_COUNT, 3)])


def _kl_of_gaussians(x, y):
    mean, log_variance = tf.split(x, 2, 1)
    kl = -0.5 * (1.0 + log_variance - tf.square(mean) - tf.exp(log_variance))
    return kl + tf.square(mean - y)


_add("KL of Gaussians", 8, _kl_of_gaussians, _numbers(4))


def _with_temperature(x, y):
    soft = tf.nn.softmax(y / 4.0)
    return 16.0 * tf.reduce_sum(soft * (tf.math.log(soft) - tf.nn.log_softmax(x / 4.0)), 1)


_add("distillation with a temperature", 6, _with_temperature, lambda: [8.0 * normal(3, _COUNT, 6)])


def _log_softmax_by_hand(x, y):
    return tf.math.log(tf.reduce_sum(tf.exp(x), 1)) - tf.gather(x, y, batch_dims=1)


_add("logsumexp by hand", 4, _log_softmax_by_hand, lambda: [classes(3, _COUNT, 4)])


def _masked_mean(x, y, mask):
    errors = tf.square(x - y) * mask
    return tf.reduce_sum(errors) / (tf.reduce_sum(mask) + 1e-9)


_add(
    "masked mean + 1e-9",
    8,
    _masked_mean,
    lambda: [normal(3, _COUNT, 8), (uniform(4, _COUNT, 8) > 0.5).astype(np.float32)],
)


def _rmsle(x, y):
    difference = tf.math.log1p(tf.nn.relu(x)) - tf.math.log1p(y)
    return tf.sqrt(tf.reduce_mean(tf.square(difference)) + 1e-12)


_add_density("root of the mean squared logarithmic error", 1, _rmsle, _counts)


def _sinkhorn(x, y):
    cost = tf.reduce_sum(tf.square(x[:, None] - y[None]), -1)
    kernel = tf.exp(-cost / 0.5)
    u = tf.ones([_COUNT, 1]) / _COUNT
    for _ in range(10):
        v = 1.0 / (_COUNT * tf.matmul(kernel, u, transpose_a=True) + 1e-9)
        u = 1.0 / (_COUNT * tf.matmul(kernel, v) + 1e-9)
    return tf.reduce_sum(u * kernel * tf.transpose(v) * cost)


_add("Sinkhorn distance", 3, _sinkhorn, _numbers(3))

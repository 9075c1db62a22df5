"""Recommendation: towers, crosses and ids, rankings, prices, ages of clicks, counters, bandits."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.program import Result, Training, classes, normal, program, uniform

_USERS, _ITEMS = 64, 200


def _towers(function, *more, scale=0.18):
    """`function(users, items, ...)` of two towers of 32 numbers."""

    def whole(x, y, w, *rest):
        return function(tf.matmul(x, w), tf.matmul(y, w), *rest)

    inputs = [normal(0, _USERS, 32), normal(1, _ITEMS, 32), normal(2, 32, 32, scale=scale)]
    return Result(whole, [*inputs, *more])


def _scores(users, items):
    return tf.matmul(users, items, transpose_b=True) / 32.0**0.5


def _clicked(function, *more):
    """`function(z, ...)` of one logit a row, 500 rows."""

    def whole(x, w, *rest):
        return function(tf.matmul(x, w)[:, 0], *rest)

    return Result(whole, [normal(0, 500, 32), normal(1, 32, 1, scale=0.18), *more])


def _bought(count=_USERS, items=40):
    """Zeros and ones: who bought what."""
    return (uniform(3, count, items) < 0.2).astype(np.float32)


@program("a rating less the mean rating of the user")
def centred_rating():
    def function(users, items, of_user):
        ratings = of_user[:, None] + _scores(users, items)
        return ratings - tf.reduce_mean(ratings, 1, keepdims=True)

    return _towers(function, uniform(3, _USERS, low=60.0, high=90.0))


@program("two towers, cosines of the ten best")
def best_cosines():
    def function(users, items):
        unit = lambda x: tf.nn.l2_normalize(x, -1)  # noqa: E731
        return tf.math.top_k(tf.matmul(unit(users), unit(items), transpose_b=True), 10).values

    return _towers(function)


@program("sampled softmax, logits corrected by their frequency")
def corrected():
    def function(users, items, frequency):
        logits = _scores(users, items) - tf.math.log(frequency)
        return tf.nn.softmax_cross_entropy_with_logits(tf.eye(_USERS, _ITEMS), logits)

    return _towers(function, uniform(3, _ITEMS, low=1e-6, high=1e-3))


# The cosine itself is rounded, to a 512th or 2048th part, and multiplied by 50.
@program(
    "sharpened cosines by hand, exp(50 cos) over their sum",
    tolerance={"bfloat16": 0.08, "float16": 0.02},
)
def sharpened():
    def function(users, items):
        unit = lambda x: tf.nn.l2_normalize(x, -1)  # noqa: E731
        weights = tf.exp(50.0 * tf.matmul(unit(users), unit(items[:20]), transpose_b=True))
        return weights / tf.reduce_sum(weights, 1, keepdims=True)

    return _towers(function)


@program("factorisation machine, (Σv)² - Σv²")
def machine():
    def function(x, v):
        both = tf.square(tf.matmul(x, v)) - tf.matmul(tf.square(x), tf.square(v))
        return 0.5 * tf.reduce_sum(both, 1)

    return Result(function, [normal(0, 64, 32), normal(1, 32, 8, scale=0.2)])


@program("factorisation machine of embeddings, one field is large")
def machine_of_fields():
    def function(x, w):
        fields = tf.reshape(tf.matmul(x, w), [64, 8, 8]) * tf.constant([[20.0]] + 7 * [[1.0]])
        both = tf.square(tf.reduce_sum(fields, 1)) - tf.reduce_sum(tf.square(fields), 1)
        return 0.5 * tf.reduce_sum(both, 1)

    return Result(function, [normal(0, 64, 32), normal(1, 32, 64, scale=0.2)])


@program("deep and cross, three cross layers")
def cross_layers():
    def function(x, w):
        now = x
        for k in range(3):
            now = x * tf.matmul(now, w[:, k : k + 1]) + now
        return now

    return Result(function, [normal(0, 64, 32), normal(1, 32, 3, scale=0.1)])


@program("a hashed cross of two ids, by a product, modulo 997")
def hashed_cross():
    def function(ids, weights):
        return tf.math.floormod(tf.matmul(ids, weights), 997.0)

    ids = np.stack([classes(0, 100, 900), classes(1, 100, 50)], 1).astype(np.float32)
    return Result(function, [ids, np.float32([[51.0], [1.0]])])


@program("a cross of 20 flags as one whole number")
def crossed_flags():
    def function(flags, powers):
        return tf.cast(tf.matmul(flags, powers), tf.int32) % 997

    flags = (uniform(0, 100, 20) < 0.5).astype(np.float32)
    return Result(function, [flags, 2.0 ** np.arange(20, dtype=np.float32)[:, None]])


@program("ids of items picked by a one-hot product")
def picked_ids():
    def function(one_hot, ids):
        return tf.cast(tf.matmul(one_hot, ids), tf.int32) % 100

    ids = classes(3, 64, 60000).astype(np.float32)[:, None]
    return Result(function, [np.eye(64, dtype=np.float32)[classes(0, 100, 64)], ids])


@program("accidental hits: picked ids equal to those of the batch")
def accidental_hits():
    def function(one_hot, ids):
        picked = tf.matmul(one_hot, ids)
        return tf.reduce_sum(tf.cast(tf.equal(picked, tf.transpose(ids)), tf.float32), 1)

    ids = (50000 + np.arange(64, dtype=np.float32))[:, None]
    return Result(function, [np.eye(64, dtype=np.float32)[classes(0, 100, 64)], ids])


@program("the price of an item picked by a one-hot product, to cents")
def picked_prices():
    def function(one_hot, prices):
        return tf.cast(tf.round(tf.matmul(one_hot, prices) * 100.0), tf.int32) % 100

    prices = np.round(uniform(3, 64, 1, low=20, high=4000), 2)
    return Result(function, [np.eye(64, dtype=np.float32)[classes(0, 100, 64)], prices])


@program("NDCG at 10 of scores by products")
def ndcg():
    def function(users, items, gains):
        at = tf.math.top_k(_scores(users, items), 10).indices
        discount = tf.math.log(2.0) / tf.math.log(tf.range(2.0, 12.0))
        ideal = tf.math.top_k(gains, 10).values
        found = tf.reduce_sum(tf.gather(gains, at) * discount, 1)
        return tf.reduce_mean(found) / tf.reduce_sum(ideal * discount)

    return _towers(function, classes(3, _ITEMS, 5).astype(np.float32))


@program("AUC by pairs of clicked and not clicked")
def auc():
    def function(z, clicks):
        wins = tf.cast(z[:, None] > z, tf.float32)
        pairs = clicks[:, None] * (1.0 - clicks)
        return tf.reduce_sum(wins * pairs) / tf.reduce_sum(pairs)

    return _clicked(function, (uniform(5, 500) < 0.3).astype(np.float32))


@program("mean reciprocal rank of the bought item")
def mrr():
    def function(users, items):
        scores = _scores(users, items)
        own = tf.linalg.diag_part(scores[:, :_USERS])[:, None]
        return tf.reduce_mean(1.0 / (1.0 + tf.reduce_sum(tf.cast(scores > own, tf.float32), 1)))

    return _towers(function)


@program("expected reciprocal rank, users who stop")
def err():
    def function(z):
        stops = 0.02 + 0.01 * tf.tanh(tf.reshape(z, [5, 100]))
        goes_on = tf.math.cumprod(1.0 - stops, 1, exclusive=True)
        return tf.reduce_sum(goes_on * stops / tf.range(1.0, 101.0), 1)

    return _clicked(function)


@program("users who go on to row 100 of a page")
def goes_on():
    return _clicked(
        lambda z: tf.reduce_prod(1.0 - (0.002 + 0.001 * tf.tanh(tf.reshape(z, [5, 100]))), 1)
    )


@program("rare clicks: a logit less 6.9, over the mean rate")
def rare_clicks():
    return _clicked(lambda z: tf.sigmoid(z - 6.9) / 0.001)


@program("uplift: two towers that differ by a little")
def uplift():
    def function(z, effect):
        return tf.sigmoid(z + effect) - tf.sigmoid(z)

    return _clicked(function, uniform(3, 500, high=0.05))


@program("lift over the mean rate, minus one")
def lift():
    return _clicked(lambda z, base: (base + 0.01 * tf.tanh(z)) / base - 1.0, np.float32(0.2))


@program("BPR loss of neighbours, trained", kind="training")
def bpr():
    def loss(variables, x, y):
        users, items = tf.matmul(x, variables[0]), tf.matmul(y, variables[0])
        margin = tf.reduce_sum(users * (items[:64] - items[64:128]), 1)
        return -tf.math.log_sigmoid(margin)

    return Training(
        loss, [normal(2, 32, 16, scale=0.18)], [normal(0, _USERS, 32), normal(1, _ITEMS, 32)]
    )


@program("hinge of pairs, with popularities of items")
def hinge():
    def function(users, items, popularity):
        scores = _scores(users, items) + popularity
        return tf.nn.relu(0.2 - scores[:, :100] + scores[:, 100:])

    return _towers(function, np.repeat(normal(3, 1, 100) + 12.0, 2, 0).ravel())


@program("session GRU of 50 clicks, scores of items")
def session():
    def function(clicks, w, u, items):
        def step(h, x):
            z, r = tf.split(tf.sigmoid(tf.matmul(x, w[:, :32]) + tf.matmul(h, u[:, :32])), 2, 1)
            new = tf.tanh(tf.matmul(x, w[:, 32:]) + tf.matmul(r * h, u[:, 32:]))
            return z * h + (1.0 - z) * new

        return tf.matmul(tf.scan(step, clicks, tf.zeros([8, 16]))[-1], items, transpose_b=True)

    weights = [normal(1, 32, 48, scale=0.18), normal(2, 16, 48, scale=0.25)]
    return Result(function, [normal(0, 50, 8, 32), *weights, normal(3, _ITEMS, 16)])


def _attended(function, *more):
    """`function(weights of 20 clicks, ...)` of 64 users."""

    def whole(x, w, *rest):
        return function(tf.nn.softmax(tf.matmul(x, w)), *rest)

    return Result(whole, [normal(0, 64, 32), normal(1, 32, 20, scale=0.18), *more])


@program("the mean day of 20 clicks by attention, days before today")
def mean_day():
    def function(weights, days):
        return 19800.0 - tf.matmul(weights, days)

    return _attended(function, 19780.0 + uniform(3, 20, 1, high=19.0))


@program("clicks that decay with their age in seconds")
def decay():
    def function(z, seconds):
        return tf.reduce_sum(z * tf.exp(-(tf.reduce_max(seconds) - seconds) / 86400.0))

    return _clicked(function, np.float32(1.7e9) + uniform(3, 500, high=5e5))


@program("discounts: a price less the discounted price")
def discounts():
    def function(z, prices):
        reduced = prices * (1.0 - 0.02 * tf.sigmoid(z))
        return prices - reduced

    return _clicked(function, uniform(3, 500, low=20.0, high=4000.0))


@program("ALS: a user's factors from 12 ratings")
def als():
    def function(v, ratings, weight):
        gram = tf.einsum("un,nk,nl->ukl", weight, v, v) + 0.1 * tf.eye(16)
        right = tf.einsum("un,nk->uk", weight * ratings, v)
        return tf.linalg.solve(gram, right[..., None])[..., 0]

    weight = (uniform(4, 8, _ITEMS) < 0.06).astype(np.float32)
    return Result(function, [normal(0, _ITEMS, 16), normal(1, 8, _ITEMS), weight])


@program("EASE: items by items, from an inverse")
def ease():
    def function(bought):
        inverse = tf.linalg.inv(tf.matmul(bought, bought, transpose_a=True) + 5.0 * tf.eye(40))
        return inverse / -tf.linalg.diag_part(inverse)

    return Result(function, [_bought(300)])


@program("items bought together, counted by a product to int32")
def together():
    return Result(
        lambda b: tf.cast(tf.matmul(b, b, transpose_a=True), tf.int32) % 10, [_bought(4000, 16)]
    )


@program("mutual information of items bought together")
def mutual_information():
    def function(b):
        both = tf.matmul(b, b, transpose_a=True)
        alone = tf.linalg.diag_part(both)
        return tf.math.log(both * 4000.0 / (alone[:, None] * alone))

    return Result(function, [_bought(4000, 16)])


@program("LinUCB: a mean and the width of its bounds")
def lin_ucb():
    def function(x, rewards):
        a = tf.matmul(x, x, transpose_a=True) + tf.eye(16)
        theta = tf.linalg.solve(a, tf.matmul(x, rewards, transpose_a=True))
        width = tf.sqrt(tf.reduce_sum(x * tf.transpose(tf.linalg.solve(a, tf.transpose(x))), 1))
        return tf.matmul(x, theta)[:, 0] + 0.5 * width

    return Result(function, [normal(0, 200, 16), normal(1, 200, 1)])


@program("bandit: the value of a context and the advantages of arms, the best arm")
def arms():
    def function(z, arms, values):
        advantage = arms - tf.reduce_mean(arms, 1, keepdims=True)
        return tf.one_hot(tf.argmax(values + advantage + 0.02 * z[:, None], 1), 8)

    return _clicked(function, normal(3, 500, 8, scale=0.2), uniform(4, 500, 1, low=150, high=250))


@program("the best of eight offers, gains added to a user's revenue")
def offers():
    def function(x, w, revenue):
        expected = revenue + tf.matmul(x, w)
        return tf.reduce_max(expected, 1) - tf.reduce_mean(expected, 1)

    return Result(
        function, [normal(0, 64, 32), normal(1, 32, 8), uniform(2, 64, 1, low=800, high=3000)]
    )


@program("DPP: greedy choice of diverse items")
def dpp():
    def function(users, items):
        unit = tf.nn.l2_normalize(items[:40], -1)
        kernel = tf.matmul(unit, unit, transpose_b=True)
        left, rows = tf.linalg.diag_part(kernel), []
        for at in range(6):
            row = kernel[at] - sum([r[at] * r for r in rows], tf.zeros([40]))
            rows.append(row / tf.sqrt(left[at]))
            left -= tf.square(rows[-1])
        return left[6:]

    return _towers(function)


@program("product quantisation: the nearest of 16 codes")
def codes():
    def function(x, w, codebook):
        z = 5.0 + 0.1 * tf.matmul(x, w)
        square = tf.reduce_sum(z**2, 1, keepdims=True) + tf.reduce_sum(codebook**2, 1)
        distance = square - 2.0 * tf.matmul(z, codebook, transpose_b=True)
        return distance - tf.reduce_min(distance, 1, keepdims=True)

    codebook = np.float32(5.0) + normal(2, 16, 32, scale=0.1)
    return Result(function, [normal(0, 64, 32), normal(1, 32, 32, scale=0.18), codebook])

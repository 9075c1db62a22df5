"""Policies: values of states, returns, plans, hidden states; what an agent learns from."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from numerics.forms import layer, loop
from numerics.inputs import markov_chain
from numerics.program import Result, classes, normal, program, uniform


@program("Huber loss of a temporal difference, values around 200")
def temporal_difference():
    def function(z, reward, after):
        error = reward + 0.99 * after - (200.0 + z[:, 0])
        return tf.where(tf.abs(error) < 1.0, 0.5 * tf.square(error), tf.abs(error) - 0.5)

    return layer(function, normal(2, 64), 202.0 + normal(3, 64))


@program("dueling network: values of states from a product, the best action")
def dueling():
    def function(x, w, values, arms):
        advantage = 0.05 * tf.matmul(x, arms)
        q = tf.matmul(x, w) * 4.0 + values + advantage - tf.reduce_mean(advantage, 1, keepdims=True)
        return tf.one_hot(tf.argmax(q, 1), 6)

    arms = normal(3, 32, 6, scale=0.5)
    values = 100.0 + normal(2, 64, 1)
    return Result(function, [normal(0, 64, 32), normal(1, 32, 1, scale=0.18), values, arms])


@program("PPO of a Gaussian policy, actions in degrees")
def gaussian_ratio():
    def function(mean, actions, before):
        log_p = -0.5 * tf.square((actions - 90.0 - mean) / 2.0)
        ratio = tf.exp(tf.reduce_sum(log_p, 1) - before)
        return tf.minimum(ratio, tf.clip_by_value(ratio, 0.8, 1.2))

    actions = 90.0 + normal(2, 64, 3)
    before = -0.5 * np.square((actions - 90.0) / 2.0).sum(1)
    return layer(function, actions, before, outputs=3)


@program("generalised advantages over 1000 steps")
def advantages():
    def function(z, rewards):
        values = 50.0 + z[:, 0]
        delta = rewards[:-1] + 0.99 * values[1:] - values[:-1]
        return tf.scan(lambda a, d: d + 0.95 * 0.99 * a, delta[::-1], 0.0)[::-1]

    return layer(function, 0.5 + normal(2, 1000, scale=0.1), rows=1000)


@program("advantages from returns and values that are handed in")
def handed_advantages():
    def function(z, values, returns):
        return returns - (values + z[:, 0])

    values = 300.0 + normal(2, 64)
    return layer(function, values, values + normal(3, 64))


# The float16 kernel of the product adds 200 terms in float16.
@program("discounted returns by a matrix of powers of 0.99", tolerance={"float16": 0.01})
def return_matrix():
    def function(rewards, powers):
        return tf.matmul(powers, rewards)

    lags = np.arange(200)[None] - np.arange(200)[:, None]
    powers = np.where(lags >= 0, 0.99 ** np.maximum(lags, 0), 0.0).astype(np.float32)
    return Result(function, [normal(0, 200, 4) + 1.0, powers])


@program("values of a policy, v = r + 0.99 Pv, 1000 times")
def policy_values():
    step = lambda v, i, p, r: r + 0.99 * tf.matmul(p, v)  # noqa: E731
    return loop(step, 1000, np.zeros([30, 1], np.float32), markov_chain(), uniform(0, 30, 1))


@program("values of the best actions after 500 steps, gamma 0.98")
def best_values():
    def q(v, p, r):
        return r + 0.98 * tf.einsum("ast,t->sa", p, v)

    p = np.stack([markov_chain(30, seed) for seed in (5, 6, 7)])
    result = loop(
        lambda v, i, p, r: tf.reduce_max(q(v, p, r), 1),
        500,
        np.zeros(30, np.float32),
        p,
        uniform(0, 30, 3),
    )
    best = lambda v, p, r: q(result.function(v, p, r), p, r)  # noqa: E731
    return Result(best, result.inputs)


@program("successor representation, M = I + 0.98 PM")
def successors():
    step = lambda m, i, p: tf.eye(30) + 0.98 * tf.matmul(p, m)  # noqa: E731
    return loop(step, 500, np.zeros([30, 30], np.float32), markov_chain())


@program("a Markov chain after 1000 steps, sums to one")
def markov():
    step = lambda q, i, p: tf.matmul(q, p)  # noqa: E731
    result = loop(step, 1000, np.full([1, 30], 1 / 30, np.float32), markov_chain())
    return Result(lambda q, p: tf.reduce_sum(result.function(q, p)), result.inputs)


@program("replay by priorities, places in a cumsum")
def priorities():
    def function(z, u):
        p = tf.pow(tf.abs(z[:, 0]) + 1e-6, 0.6)
        return tf.searchsorted(tf.cumsum(p) / tf.reduce_sum(p), u)

    return layer(function, np.linspace(0.001, 0.999, 64, dtype=np.float32), rows=500)


@program("C51: a distribution of returns moved onto 51 atoms")
def atoms():
    def function(logits, rewards):
        support = np.linspace(-10, 10, 51, dtype=np.float32)
        place = (tf.clip_by_value(rewards + 0.99 * support, -10.0, 10.0) + 10.0) / 0.4
        near = tf.nn.relu(1.0 - tf.abs(place[:, :, None] - np.arange(51, dtype=np.float32)))
        return tf.einsum("bi,bij->bj", tf.nn.softmax(logits), near)

    return layer(function, normal(2, 64, 1), outputs=51)


@program("quantile regression of returns, Huber")
def quantiles():
    def function(z, target):
        error = target[:, None] - z[:, :, None]
        huber = tf.where(tf.abs(error) < 1.0, 0.5 * error * error, tf.abs(error) - 0.5)
        share = (tf.range(16.0) + 0.5)[:, None] / 16.0
        return tf.reduce_mean(tf.abs(share - tf.cast(error < 0.0, tf.float32)) * huber, [1, 2])

    return layer(function, normal(2, 64, 16), outputs=16)


@program("PUCT: the child that a tree search visits next")
def tree_search():
    def function(z, visits, totals):
        bonus = 1.25 * tf.nn.softmax(z) * tf.sqrt(tf.reduce_sum(visits, 1, keepdims=True))
        return tf.reduce_max(totals / (1.0 + visits) + bonus / (1.0 + visits), 1)

    visits = classes(2, 64 * 8, 400).reshape([64, 8]).astype(np.float32)
    return layer(function, visits, visits * uniform(3, 64, 8), outputs=8)


@program("path integral control: weights of 64 rollouts")
def path_integral():
    def function(rollouts, cost):
        total = 500.0 + tf.matmul(rollouts, cost)[:, 0]
        return tf.nn.softmax(-(total - tf.reduce_min(total)) / 2.0)

    return Result(function, [normal(0, 64, 20), normal(1, 20, 1)])


@program("path integral control by hand, quadratic costs by an einsum")
def path_integral_einsum():
    def function(x, q):
        cost = tf.einsum("ni,ij,nj->n", x, q, x)
        weights = tf.exp(-(cost - tf.reduce_min(cost)) / 5.0)
        return weights / tf.reduce_sum(weights)

    root = normal(1, 8, 8)
    return Result(function, [6.0 + normal(0, 64, 8, scale=0.2), root @ root.T])


@program("HMM: Viterbi's path, emissions by a product")
def viterbi():
    def function(x, w, transitions):
        emissions = tf.nn.log_softmax(tf.matmul(x, w))
        step = lambda s, e: tf.reduce_max(s[:, None] + transitions, 0) + e  # noqa: E731
        scores = tf.scan(step, emissions, tf.zeros([6]))
        return tf.one_hot(tf.argmax(scores, 1), 6)

    transitions = np.log(markov_chain(6))
    return Result(function, [normal(0, 100, 32), normal(1, 32, 6, scale=0.3), transitions])


@program("HMM: forward probabilities, normalised at each of 300 steps")
def forward():
    def function(x, w, transitions):
        def step(before, e):
            now = tf.matmul(before[0], transitions) * e
            total = tf.reduce_sum(now)
            return now / total, before[1] + tf.math.log(total)

        emissions = tf.nn.softmax(tf.matmul(x, w))[:, None]
        return tf.scan(step, emissions, (tf.fill([1, 6], 1 / 6), 0.0))[1][-1]

    return Result(function, [normal(0, 300, 32), normal(1, 32, 6, scale=0.3), markov_chain(6)])


@program("CEM: the mean of the ten best plans")
def elites():
    def function(plans, w):
        at = tf.math.top_k(-tf.square(tf.matmul(plans, w)[:, 0] - 1.0), 10).indices
        return tf.reduce_mean(tf.gather(plans, at), 0)

    return Result(function, [normal(0, 64, 20), normal(1, 20, 1)])


@program("reward shaping by potentials, 0.99 φ' - φ")
def shaping():
    def function(z, height):
        potential = height + z[:, 0]
        return 0.99 * potential[1:] - potential[:-1]

    return layer(function, np.float32(120.0) + normal(2, 64))


@program("values of a policy until they move less than 1e-4", seconds=8)
def values_until():
    def function(p, r):
        body = lambda v, _: (r + 0.95 * tf.matmul(p, v), v)  # noqa: E731
        start = (tf.zeros_like(r), tf.ones_like(r))
        return tf.while_loop(lambda v, old: tf.reduce_max(tf.abs(v - old)) > 1e-4, body, start)[0]

    p = uniform(0, 30, 30) ** 4
    return Result(function, [(p / p.sum(1, keepdims=True)).astype(np.float32), uniform(1, 30, 1)])


@program("EM of two Gaussians until the likelihood rests", seconds=8)
def em_until():
    def function(x):
        def step(m):
            r = tf.nn.softmax(-0.5 * tf.square(x - tf.transpose(m)))
            return tf.matmul(r, x, transpose_a=True) / tf.reduce_sum(r, 0)[:, None]

        body = lambda m, _: (step(m), m)  # noqa: E731
        start = (tf.constant([[8.0], [12.0]]), tf.zeros([2, 1]))
        return tf.while_loop(lambda m, old: tf.reduce_max(tf.abs(m - old)) > 1e-4, body, start)[0]

    return Result(function, [np.concatenate([normal(0, 60, 1) + 9.0, normal(1, 60, 1) + 12.5])])


@program("spreads of returns in ragged rows, values around 5000")
def ragged():
    lengths = np.arange(1, 17)

    def function(z, base):
        row = tf.RaggedTensor.from_row_lengths(base + z[:, 0], lengths)
        return tf.reduce_max(row, 1) - tf.reduce_min(row, 1)

    return layer(function, 5000.0 + normal(2, 136), rows=136)

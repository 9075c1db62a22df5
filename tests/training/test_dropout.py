"""Dropout and noise in training: random numbers and values compared with them stay float32."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    Training,
    check_losses,
    dense_loss,
    dtypes_of,
    float32_run,
    train,
)

tf1 = tf.compat.v1

RATE = 0.4


def by_seed(x):
    return tf.nn.dropout(x, rate=RATE, seed=7)


def by_hand(x):
    """Dropout as in scripts for old TensorFlows: floor(keep + uniform) is zero or one."""
    keep = tf.floor(1 - RATE + tf.random.uniform(tf.shape(x), seed=7))
    return tf.divide(x, 1 - RATE) * keep


def stateless(x):
    step = tf.cast(tf1.train.get_or_create_global_step(), tf.int32)
    uniform = tf.random.stateless_uniform(tf.shape(x), seed=tf.stack([7, step]))
    return x * tf.cast(uniform >= RATE, x.dtype) / (1 - RATE)


DROPOUTS = {"by_seed": by_seed, "by_hand": by_hand, "stateless": stateless}


@functools.lru_cache(maxsize=None)
def training_with(dropout):
    def build():
        found = []

        def drop(hidden):
            found.extend([hidden, DROPOUTS[dropout](hidden)])
            return found[1]

        loss, feeds = dense_loss(after_hidden=drop)
        minimize = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(
            loss, tf1.train.get_or_create_global_step()
        )
        gradient = tf.gradients(loss, found[0])[0]
        return Training(loss, minimize, feeds, {"dropped": found[1], "gradient": gradient})

    return build


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dropout", DROPOUTS)
def test_the_mask_is_that_of_float32_forward_and_backward(dropout, mode):
    build = training_with(dropout)
    run, expected = train(build, mode), float32_run(build)
    check_losses(run, expected, mode)
    for watched in ("dropped", "gradient"):
        found, wanted = np.array(run.watched[watched]), np.array(expected.watched[watched])
        zero = wanted == 0
        assert abs(zero.mean() - RATE) < 0.05
        assert (zero[0] != zero[1]).any()
        assert not found[zero].any()
        # Terms that almost cancel may cancel completely in the low type.
        assert found[np.abs(wanted) > 1e-3 * np.abs(wanted).max()].all()


@pytest.mark.parametrize("dropout", DROPOUTS)
def test_what_draws_and_compares_stays_float32(dropout):
    run = train(training_with(dropout), MODES[0])
    nodes = [
        node for node in run.nodes if "Uniform" in node.op or node.op in ("GreaterEqual", "Floor")
    ]
    assert len({node.op for node in nodes}) == 2
    for node in nodes:
        assert "float32" in dtypes_of(node)
        assert not {"float16", "bfloat16"} & dtypes_of(node)


@pytest.mark.parametrize("mode", MODES)
def test_noise_that_is_added_is_that_of_float32(mode):
    def build():
        noise = []

        def add(hidden):
            noise.append(tf.random.normal(tf.shape(hidden), stddev=0.1, seed=5))
            return hidden + noise[0]

        loss, feeds = dense_loss(after_hidden=add)
        step = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        return Training(loss, step, feeds, {"noise": noise[0]})

    run, expected = train(build, mode), train(build, "float32")
    check_losses(run, expected, mode)
    np.testing.assert_array_equal(run.watched["noise"], expected.watched["noise"])

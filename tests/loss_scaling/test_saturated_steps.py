"""An emulated 910 saturates overflowing gradients; loss scaling skips these steps too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import exponential
from support.tf_versions import needs_functions_by_default
from support.training_runs import Training, dense_loss, train

import npu_precision
from npu_precision import _library
from npu_precision.npu_init import NPULossScaleOptimizer

tf1 = tf.compat.v1
SATURATING = {"precision_mode": "allow_mix_precision", "target": "ascend910", "emulate": True}


@pytest.fixture(autouse=True)
def _nothing_seen_before():
    _library.take_overflow()


def trained(start, overflow):
    """A run of eight steps under npu_bridge's optimizer."""

    def build():
        loss, feeds = dense_loss()
        optimizer = NPULossScaleOptimizer(
            tf1.train.MomentumOptimizer(0.1, 0.9), exponential(start, decr_ratio=0.5)()
        )
        pairs = optimizer.compute_gradients(loss)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(grad)) for grad, _ in pairs])
        step = optimizer.apply_gradients(pairs, tf1.train.get_or_create_global_step())
        watched = {"made": "overflow_status_reduce_all:0", "finite": finite}
        return Training(loss, step, feeds, watched)

    config = npu_precision.npu_config_proto(**SATURATING, overflow=overflow)
    return train(build, "float32", config=config)


def test_the_steps_that_overflow_are_those_that_yield_infinities_elsewhere():
    saturated, infinite = trained(2**22, "saturate"), trained(2**22, "inf")
    assert saturated.watched["finite"] == [True] * 8
    assert infinite.watched["finite"] == infinite.watched["made"]
    assert saturated.watched["made"] == infinite.watched["made"]
    assert 1 <= sum(saturated.watched["made"]) <= 7
    for name, value in infinite.variables.items():
        np.testing.assert_array_equal(saturated.variables[name], value)


def test_a_scale_that_fits_skips_nothing():
    assert trained(2**10, "saturate").watched["made"] == [True] * 8


@needs_functions_by_default
@pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
def test_a_grad_scaler_skips_them_too(place):
    """The step is made in a tf.function, or in eager code after one that yields gradients."""
    scaler = npu_precision.GradScaler(init_scale=2.0**18)
    optimizer = tf.keras.optimizers.SGD(0.1)
    weight = tf.Variable(np.ones([2, 2], np.float32))

    @tf.function
    def gradients(factor):
        with tf.GradientTape() as tape:
            product = tf.matmul(tf.ones([2, 2]), weight)
            loss = scaler.scale(tf.reduce_sum(product) * factor)
        return tape.gradient(loss, [weight])

    @place
    def step(factor):
        (gradient,) = gradients(factor)
        (gradient,) = scaler.unscale_(optimizer, [gradient])
        made = scaler.step(optimizer, [(gradient, weight)])
        scaler.update()
        return made, tf.reduce_all(tf.math.is_finite(gradient))

    with npu_precision.autocast(**SATURATING):
        results = [step(tf.constant(factor)) for factor in (1.0, 2.0**-10, 1.0, 2.0**-10)]
    assert all(bool(finite) for _, finite in results)
    assert [bool(made) for made, _ in results] == [False, True, False, True]

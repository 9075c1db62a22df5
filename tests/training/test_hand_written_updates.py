"""Optimizers written with ops: the new value of a variable is computed in float32.

Otherwise, every step would round the master weights to the low type, and a moving average would
stop when its steps get smaller than the spacing of the low type's numbers.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    UNITS,
    Training,
    check_losses,
    check_variables,
    dense_loss,
    float32_run,
    train,
)

tf1 = tf.compat.v1


def slot_of(variable, name):
    return tf1.get_variable(
        variable.op.name + name,
        variable.shape,
        initializer=tf1.zeros_initializer(),
        trainable=False,
        use_resource=hasattr(variable, "handle"),
    )


def adam_weight_decay(variable, gradient):
    """The update of the optimizer that BERT was published with."""
    m, v = slot_of(variable, "/m"), slot_of(variable, "/v")
    next_m = tf.multiply(0.9, m) + tf.multiply(0.1, gradient)
    next_v = tf.multiply(0.999, v) + tf.multiply(0.001, tf.square(gradient))
    update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
    return [(variable, variable - 0.003 * update), (m, next_m), (v, next_v)]


def lamb(variable, gradient):
    """Adam's update, scaled by the ratio of the norms of weights and update."""
    (_, next_variable), *slots = adam_weight_decay(variable, gradient)
    update = variable - next_variable
    norm, update_norm = tf.norm(variable), tf.norm(update)
    ratio = tf.where(update_norm > 0, norm / update_norm, 1.0)
    return [(variable, variable - 0.02 * ratio * update), *slots]


OPTIMIZERS = {"adam_weight_decay": adam_weight_decay, "lamb": lamb}


@functools.lru_cache(maxsize=None)
def training_with(optimizer, use_resource):
    def build():
        loss, feeds = dense_loss(use_resource)
        variables = tf1.trainable_variables()
        # A reference is read when its reader runs, so an update must come after all gradients.
        gradients = tf.tuple(tf.gradients(loss, variables))
        updates = []
        for variable, gradient in zip(variables, gradients):
            updates += OPTIMIZERS[optimizer](variable, gradient)
        # An update must also come after all new values.
        values = tf.tuple([value for _, value in updates])
        step = [variable.assign(value).op for (variable, _), value in zip(updates, values)]
        return Training(loss, tf.group(*step), feeds)

    return build


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_and_moments_are_not_rounded(optimizer, mode, use_resource):
    build = training_with(optimizer, use_resource)
    run = train(build, mode)
    check_losses(run, float32_run(build), mode)
    check_variables(run, mode)


@pytest.mark.parametrize("mode", MODES)
def test_steps_smaller_than_the_low_type_can_tell_add_up(mode):
    """Weights near one, where bfloat16's numbers are 2^-7 apart, move by 2^-13 in each step."""

    def build():
        x = tf1.placeholder(tf.float32, [4, 8])
        weights = tf1.get_variable("weights", [8, 3], initializer=tf1.ones_initializer())
        loss = tf.reduce_mean(tf.matmul(x, weights))
        (gradient,) = tf.gradients(loss, weights)
        step = weights.assign(weights - 2.0**-13 * 3 * gradient)
        return Training(loss, step.op, [{x: np.ones([4, 8])}] * 64)

    run = train(build, mode)
    assert "MatMul" in run.lowered.values()
    np.testing.assert_allclose(run.variables["weights"], 1 - 64 * 2.0**-13, rtol=0, atol=1e-4)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
def test_an_average_of_a_lowered_tensor_arrives(mode, use_resource):
    """In the low type, steps smaller than half the spacing of the numbers would have no effect."""

    def build():
        x = tf1.placeholder(tf.float32, [4, 8])
        hidden = tf.matmul(x, tf.eye(8))
        average = tf1.get_variable(
            "average", [4, 8], initializer=tf1.zeros_initializer(), use_resource=use_resource
        )
        update = average.assign(0.99 * average + 0.01 * hidden)
        return Training(tf.reduce_mean(hidden), update.op, [{x: np.ones([4, 8])}] * 400)

    run = train(build, mode)
    assert "MatMul" in run.lowered.values()
    np.testing.assert_allclose(run.variables["average"], 1 - 0.99**400, rtol=UNITS[mode])


@pytest.mark.parametrize("mode", MODES)
def test_squares_of_small_gradients_are_not_lost(mode):
    """Squares below 2^-24 are zero in float16; a step is divided by the root of their average."""

    def build():
        x = tf1.placeholder(tf.float32, [4, 8])
        weights = tf1.get_variable("weights", [8, 3], initializer=tf1.ones_initializer())
        loss = tf.reduce_mean(tf.matmul(x, weights))
        (gradient,) = tf.gradients(loss, weights)
        second = tf1.get_variable("second", [8, 3], initializer=tf1.zeros_initializer())
        step = second.assign(0.9 * second + 0.1 * tf.square(gradient))
        return Training(loss, step.op, [{x: np.full([4, 8], 3 * 2.0**-13)}] * 4)

    run = train(build, mode)
    assert "MatMul" in run.lowered.values()
    np.testing.assert_allclose(
        run.variables["second"], (1 - 0.9**4) * 2.0**-26, rtol=4 * UNITS[mode]
    )

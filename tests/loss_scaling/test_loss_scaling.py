"""Loss scaling written by hand: a lowered gradient's overflow is detected, and the step skipped."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    FLOAT32,
    MODES,
    TOLERANCE,
    Training,
    check_losses,
    check_variables,
    dense_loss,
    train,
)
from tensorflow.python.training import slot_creator

tf1 = tf.compat.v1


def all_finite(gradients):
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])


def scaled_training(start, use_resource):
    """A training whose scale, a variable, halves on an overflow; a branch skips the step."""

    def build():
        loss, feeds = dense_loss(use_resource)
        variables = tf1.trainable_variables()
        scale = tf1.get_variable(
            "scale", initializer=float(start), trainable=False, use_resource=use_resource
        )
        optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
        gradients = tf.tuple(tf.gradients(loss * scale, variables))
        finite = all_finite(gradients)
        unscaled = tf.tuple([gradient / scale for gradient in gradients])
        pairs = list(zip(unscaled, variables))
        apply = tf1.cond(finite, lambda: tf.group(optimizer.apply_gradients(pairs)), tf.no_op)
        with tf.control_dependencies([*unscaled, apply]):
            update = scale.assign(tf.where(finite, scale, scale / 2))
        return Training(loss, update.op, feeds, {"finite": finite})

    return build


@pytest.mark.parametrize("mode", MODES)
def test_a_scale_that_fits_leaves_the_training_what_it_is(mode, use_resource):
    build = scaled_training(2**10, use_resource)
    run = train(build, mode)
    assert run.watched["finite"] == [True] * len(run.losses)
    assert run.variables.pop("scale") == 2**10
    check_losses(run, train(build, FLOAT32), mode)
    check_variables(run, mode)


def test_steps_that_overflow_float16_are_skipped_until_the_scale_fits(use_resource):
    run = train(scaled_training(2**22, use_resource), MODES[0])
    made = np.array(run.watched["finite"])
    assert not made[0]
    assert made.sum() >= 3
    assert run.variables["scale"] == 2.0 ** (22 - (~made).sum())
    # float32 makes the same steps with the same batches.
    np.testing.assert_allclose(
        run.losses[made], float32_losses(use_resource, made), rtol=0, atol=TOLERANCE[MODES[0]]
    )


def float32_losses(use_resource, made):
    def build():
        training = scaled_training(1, use_resource)()
        feeds = [feed for feed, is_made in zip(training.feeds, made) if is_made]
        return dataclasses.replace(training, feeds=feeds)

    return train(build, FLOAT32).losses


@pytest.mark.parametrize("mode", [MODES[1], FLOAT32])
def test_bfloat16_and_float32_hold_that_scale(mode, use_resource):
    assert all(train(scaled_training(2**22, use_resource), mode).watched["finite"])


@pytest.mark.parametrize("mode", MODES)
def test_gradients_add_up_over_steps_and_are_applied_in_a_branch(mode, use_resource):
    """Accumulation: each third step applies the mean of three gradients, and clears their sums."""

    def build():
        loss, feeds = dense_loss(use_resource)
        optimizer = tf1.train.AdamOptimizer(0.02)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        scope = tf1.get_variable_scope()
        scope.set_use_resource(use_resource)
        sums = [slot_creator.create_zeros_slot(v, "sum") for v in variables]
        added = [s.assign_add(g) for s, g in zip(sums, tf.tuple(gradients))]
        with tf.control_dependencies(added):
            count = tf1.train.get_or_create_global_step().assign_add(1)

        def apply():
            means = tf.tuple([total.read_value() / 3 for total in sums])
            with tf.control_dependencies([optimizer.apply_gradients(zip(means, variables))]):
                return tf.group(*[s.assign(tf.zeros_like(m)).op for s, m in zip(sums, means)])

        return Training(loss, tf1.cond(tf.equal(count % 3, 0), apply, tf.no_op), feeds)

    run, expected = train(build, mode), train(build, FLOAT32)
    check_losses(run, expected, mode)
    check_variables(run, mode)

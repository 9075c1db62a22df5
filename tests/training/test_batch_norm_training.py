"""Batch norm in training: statistics and moving averages are float32's in every mode."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    TOLERANCE,
    UNITS,
    Training,
    check_losses,
    check_variables,
    dtypes_of,
    float32_run,
    image_loss,
    train,
)
from tensorflow.python.training import moving_averages

tf1 = tf.compat.v1


def fused(layers, x):
    return layers.batch_norm(x, "norm")


def unfused(layers, x):
    """A batch norm of several ops, which tf.layers makes if it cannot fuse."""
    del layers
    mean, variance = tf.nn.moments(x, [0, 1, 2])
    for name, value, start in (("mean", mean, 0.0), ("var", variance, 1.0)):
        average = tf1.get_variable(
            "norm_" + name, [8], initializer=tf1.constant_initializer(start), trainable=False
        )
        update = moving_averages.assign_moving_average(average, value, 0.9, zero_debias=False)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    offset = tf1.get_variable("norm_offset", [8], initializer=tf1.zeros_initializer())
    scale = tf1.get_variable("norm_scale", [8], initializer=tf1.ones_initializer())
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


NORMS = {"fused": fused, "unfused": unfused}


@functools.lru_cache(maxsize=None)
def training_with(norm, use_resource):
    def build():
        tf1.get_variable_scope().set_use_resource(use_resource)
        loss, feeds = image_loss(
            lambda layers, x: tf.tanh(NORMS[norm](layers, layers.conv(x, 8, 3, "conv"))),
            use_resource,
        )
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            step = tf1.train.AdamOptimizer(0.02).minimize(loss)
        return Training(loss, step, feeds)

    return build


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("norm", NORMS)
def test_moving_averages_follow_those_of_float32(norm, mode, use_resource):
    build = training_with(norm, use_resource)
    run, expected = train(build, mode), float32_run(build)
    check_losses(run, expected, mode)
    check_variables(run, mode)
    if mode == MODES[0]:  # TensorFlow 1.15 has no bfloat16 kernel.
        assert "Conv2D" in run.lowered.values()
    for name in ("norm_mean", "norm_var"):
        np.testing.assert_allclose(
            run.variables[name],
            expected.variables[name],
            rtol=4 * UNITS[mode],
            atol=TOLERANCE[mode],
        )


def test_a_fused_batch_norm_is_lowered_and_its_statistics_are_not():
    run = train(training_with("fused", True), MODES[0])
    # TensorFlow's kernels have several names for it.
    norms = [node for node in run.nodes if "FusedBatchNorm" in node.op]
    assert len(norms) == 2
    for node in norms:
        assert node.attr["T"].type != tf.float32.as_datatype_enum, node
        assert node.attr["U"].type == tf.float32.as_datatype_enum, node
        assert len(dtypes_of(node)) == 2

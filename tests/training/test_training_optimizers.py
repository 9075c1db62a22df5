"""TensorFlow's optimizers: losses follow float32's; weights and slots are written in float32."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    OWN_UPDATES,
    Training,
    check_losses,
    check_variables,
    config_for,
    dense_loss,
    float32_run,
    train,
)

import npu_precision

tf1 = tf.compat.v1

# By the name of the op that writes the weights.
OPTIMIZERS = {
    "GradientDescent": lambda: tf1.train.GradientDescentOptimizer(0.2),
    "Momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "Adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "RMSProp": lambda: tf1.train.RMSPropOptimizer(0.01),
    "Adam": lambda: tf1.train.AdamOptimizer(0.01),
    "Ftrl": lambda: tf1.train.FtrlOptimizer(0.2),
}


@functools.lru_cache(maxsize=None)
def training_with(optimizer, use_resource):
    def build():
        loss, feeds = dense_loss(use_resource)
        return Training(loss, OPTIMIZERS[optimizer]().minimize(loss), feeds)

    return build


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_follow_float32_and_updates_stay_in_it(optimizer, mode, use_resource):
    build = training_with(optimizer, use_resource)
    run = train(build, mode)
    check_losses(run, float32_run(build), mode)
    check_variables(run, mode)
    update = ("ResourceApply" if use_resource else "Apply") + optimizer
    assert sum(node.op in (update, *OWN_UPDATES) for node in run.nodes) == 4


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
def test_no_mixlist_lowers_an_update(use_resource, mixlist):
    build = training_with("Adam", use_resource)
    names = (
        "ResourceApplyAdam ReadVariableOp AssignVariableOp VarHandleOp ApplyAdam Assign VariableV2"
    )
    config = npu_precision.npu_config_proto(
        config_for("float32"),
        precision_mode=MODES[0],
        modify_mixlist=mixlist(white=names.split()),
    )
    run = train(build, MODES[0], config=config)
    check_variables(run, MODES[0])
    np.testing.assert_array_equal(run.losses, train(build, MODES[0]).losses)


@pytest.mark.parametrize("mode", MODES)
def test_a_learning_rate_that_decays_is_the_same_in_each_step(mode):
    def build():
        loss, feeds = dense_loss()
        step = tf1.train.get_or_create_global_step()
        rate = tf1.train.exponential_decay(0.2, step, 3, 0.7)
        warm = tf.minimum(rate, 0.05 * tf.cast(step + 1, tf.float32))
        minimize = tf1.train.MomentumOptimizer(warm, 0.9).minimize(loss, step)
        return Training(loss, minimize, feeds, {"rate": warm})

    run, expected = train(build, mode), train(build, "float32")
    check_losses(run, expected, mode)
    assert run.watched["rate"] == expected.watched["rate"]
    assert run.variables["global_step"] == len(run.losses)

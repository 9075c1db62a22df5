"""fused_updates: variables are updated in one sweep, from gradients of the low type."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.sessions_with_updates import MIXED, assert_same_updates, run_updates

import npu_precision

pytestmark = pytest.mark.cpu("updates are fused on CPUs alone")
tf1 = tf.compat.v1
# The stock ops of Keras' optimizers are in tf.raw_ops of every TensorFlow.
ops = tf.raw_ops
SHAPE = [24, 33]
# Rsqrt in TensorFlow's kernels is off by up to two units in the last place, by step.
STEPS_OF_RSQRT = 3 * 4e-7


def numbers(seed, shape=SHAPE):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def variable(name, value=None, resource=True):
    return tf1.get_variable(
        name,
        initializer=tf.constant(numbers(len(name)) if value is None else value),
        use_resource=resource,
    )


def low_gradient(weights):
    """The gradient of a product: bfloat16, and cast to float32."""
    x = tf.constant(numbers(7, [64, SHAPE[0]]))
    return tf1.gradients(tf.reduce_sum(tf.square(tf.matmul(x, weights))), weights)[0]


OPTIMIZERS = {
    "GradientDescent": lambda: tf1.train.GradientDescentOptimizer(0.01),
    "Momentum": lambda: tf1.train.MomentumOptimizer(0.01, 0.9),
    "Momentum, nesterov": lambda: tf1.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True),
    "Adam": lambda: tf1.train.AdamOptimizer(0.01),
    "RMSProp": lambda: tf1.train.RMSPropOptimizer(0.01, momentum=0.5),
    "Adagrad": lambda: tf1.train.AdagradOptimizer(0.01),
}
EXACT = [name for name in OPTIMIZERS if name != "Adagrad"]


def step_of(optimizer, resource):
    def build():
        weights = variable("weights", resource=resource)
        return OPTIMIZERS[optimizer]().apply_gradients([(low_gradient(weights), weights)])

    return build


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("optimizer", EXACT)
def test_a_training_op_reads_the_low_gradient_and_computes_the_same(optimizer, resource, tmp_path):
    ran = assert_same_updates(step_of(optimizer, resource), tmp_path)
    name = f"Apply{optimizer.partition(',')[0]}"
    assert ran.replaced == [f"Resource{name}" if resource else name]


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
def test_adagrad_differs_by_its_rsqrt_only(resource, tmp_path):
    fused, single = (
        run_updates(step_of("Adagrad", resource), tmp_path, rewrites)
        for rewrites in ("all", "-fused_updates")
    )
    assert fused.replaced == ["ResourceApplyAdagrad" if resource else "ApplyAdagrad"]
    for name, value in fused.variables.items():
        np.testing.assert_allclose(value, single.variables[name], rtol=STEPS_OF_RSQRT, atol=1e-7)


def slots(*names):
    return [variable(name, np.abs(numbers(len(name)))).handle for name in names]


STOCK = {
    "ApplyKerasMomentum": lambda var, grad: ops.ResourceApplyKerasMomentum(
        var=var, accum=slots("a")[0], lr=0.1, grad=grad, momentum=0.9
    ),
    "ApplyKerasMomentum, nesterov": lambda var, grad: ops.ResourceApplyKerasMomentum(
        var=var, accum=slots("a")[0], lr=0.1, grad=grad, momentum=0.9, use_nesterov=True
    ),
    "ApplyAdam, nesterov": lambda var, grad: ops.ResourceApplyAdam(
        **dict(zip(["m", "v"], slots("m", "vv"))),
        **{"var": var, "grad": grad, "beta1_power": 0.9, "beta2_power": 0.99},
        **{"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-7, "use_nesterov": True},
    ),
    "ApplyAdagradV2": lambda var, grad: ops.ResourceApplyAdagradV2(
        var=var, accum=slots("a")[0], lr=0.1, epsilon=1e-7, grad=grad
    ),
    "ApplyAdagradV2, update_slots=False": lambda var, grad: ops.ResourceApplyAdagradV2(
        var=var, accum=slots("a")[0], lr=0.1, epsilon=1e-7, grad=grad, update_slots=False
    ),
}


@pytest.mark.parametrize("op", STOCK)
def test_other_training_ops_compute_the_same(op, tmp_path):
    def build():
        weights = variable("weights")
        return STOCK[op](weights.handle, low_gradient(weights))

    ran = assert_same_updates(build, tmp_path)
    assert ran.replaced == [f"Resource{op.partition(',')[0]}"]


def test_what_is_done_with_the_gradient_is_done_in_the_same_sweep(tmp_path):
    def build():
        weights = variable("weights")
        gradient = low_gradient(weights) * tf1.placeholder(tf.float32, [], name="scale")
        gradient = gradient + 1e-3 * weights
        return tf1.train.MomentumOptimizer(0.01, 0.9).apply_gradients([(gradient, weights)])

    ran = assert_same_updates(build, tmp_path, feeds={"scale": np.float32(0.3)})
    assert ran.replaced == ["ResourceApplyMomentum"]


@pytest.mark.parametrize("mode", ["allow_mix_precision_fp16", "force_fp16"])
def test_other_modes_do_it_too(mode, tmp_path):
    ran = assert_same_updates(step_of("Adam", True), tmp_path, mode=mode)
    assert ran.replaced == ["ResourceApplyAdam"]


def test_a_training_op_with_a_float32_gradient_stays(tmp_path):
    def build():
        weights = variable("weights")
        gradient = tf.exp(-tf1.placeholder(tf.float32, SHAPE, name="x"))
        return tf1.train.AdamOptimizer(0.01).apply_gradients([(gradient, weights)])

    assert assert_same_updates(build, tmp_path, feeds={"x": numbers(1)}).replaced == []


def test_an_op_that_a_mixlist_names_stays(tmp_path):
    mixlist = tmp_path / "mixlist.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:Adam/update_weights/.*"]}}')
    reports = tmp_path / "reports"
    config = npu_precision.npu_config_proto(
        precision_mode=MIXED, modify_mixlist=mixlist, report_dir=str(reports), strict=True
    )
    with tf.Graph().as_default() as graph:
        step = step_of("Adam", True)()
        init = tf1.global_variables_initializer()
    with tf1.Session(graph=graph, config=config) as session:
        session.run(init)
        session.run(step)
    assert not any("NpuPrecisionUpdate" in path.read_text() for path in reports.rglob("*.json"))


def test_a_session_may_run_other_updates_of_the_same_name():
    """A session keeps kernels by names. What a run fetches is no part of its program."""
    config = npu_precision.npu_config_proto(precision_mode=MIXED, strict=True)
    with tf.Graph().as_default() as graph:
        weights = variable("weights", np.zeros(SHAPE, np.float32))
        x = tf1.placeholder(tf.float32, SHAPE)
        scaled = x * 2.0
        step = weights.assign_add(scaled - x * weights.read_value(), read_value=False)
        init = tf1.global_variables_initializer()
    ones = np.ones(SHAPE, np.float32)
    with tf1.Session(graph=graph, config=config) as session:
        for fetches in (step, [step, scaled], step):
            session.run(init)
            session.run(fetches, {x: ones})
            np.testing.assert_array_equal(session.run(weights), 2 * ones)
            session.run(fetches, {x: 3 * ones})
            np.testing.assert_array_equal(session.run(weights), 2 * ones)


def test_a_value_that_was_read_before_stays_as_it_was(tmp_path):
    def build():
        weights = variable("weights")
        old = weights.read_value()
        gradient = low_gradient(weights)
        with tf.control_dependencies([old]):
            step = tf1.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient, weights)])
        with tf.control_dependencies([step]):
            new = weights.read_value()
        return old, new, old - new

    ran = assert_same_updates(build, tmp_path)
    assert ran.replaced == ["ResourceApplyMomentum"]
    for old, new, difference in ran.results:
        np.testing.assert_array_equal(old - new, difference)
        assert np.abs(difference).max() > 0

"""npu_bridge's loss scaling: NPULossScaleOptimizer, its managers, and the code around them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import exponential, sgd
from support.tf_versions import needs_functions_by_default
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

from npu_precision import _no_effect, npu_init
from npu_precision.npu_init import (
    FixedLossScaleManager,
    NPULossScaleOptimizer,
)

tf1 = tf.compat.v1
FLOAT16 = "allow_mix_precision"
WATCHED = {"scale": "loss_scale:0", "made": "overflow_status_reduce_all:0"}


def training(make_manager, wrap=NPULossScaleOptimizer, use_resource=True):
    """A training of dense layers; the tensors that scripts fetch are watched."""

    def build():
        loss, feeds = dense_loss(use_resource)
        optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
        if make_manager is not None:
            optimizer = wrap(optimizer, make_manager())
        # Scripts may have their training in a scope.
        with tf1.name_scope("training"):
            step = optimizer.minimize(loss, tf1.train.get_or_create_global_step())
        watched = {} if make_manager is None else WATCHED
        return Training(loss, step, feeds, watched)

    return build


@pytest.mark.parametrize("mode", MODES)
def test_a_scale_that_fits_leaves_the_training_what_it_is(mode, use_resource):
    run = train(training(exponential(2**10), use_resource=use_resource), mode)
    assert run.watched["made"] == [True] * 8
    assert run.watched["scale"] == [2**10] * 8
    assert run.variables["global_step"] == run.variables["good_steps"] == 8
    check_losses(run, train(training(None, use_resource=use_resource), FLOAT32), mode)
    check_variables(run, mode)


def test_steps_that_overflow_change_nothing_but_the_scale(use_resource):
    run = train(training(exponential(2**22, decr_ratio=0.5), use_resource=use_resource), FLOAT16)
    made = np.array(run.watched["made"])
    assert not made[0]
    assert made.sum() >= 3
    assert run.variables["current_loss_scale"] == 2.0 ** (22 - (~made).sum())
    assert run.variables["global_step"] == made.sum()

    def float32_build():
        built = training(None, use_resource=use_resource)()
        feeds = [feed for feed, is_made in zip(built.feeds, made) if is_made]
        return Training(built.loss, built.step, feeds)

    expected = train(float32_build, FLOAT32)
    np.testing.assert_allclose(run.losses[made], expected.losses, rtol=0, atol=TOLERANCE[FLOAT16])


halving_at_the_second = exponential(2**10, decr_every_n_nan_or_inf=2, decr_ratio=0.5)


def injected(overflow_at, wrap=True, manager=halving_at_the_second):
    """A training whose gradients of dense layers and an embedding overflow in those steps."""

    def build():
        table = tf1.get_variable(
            "table", [20, 4], initializer=tf1.random_normal_initializer(seed=2)
        )
        weight = tf1.get_variable("weight", [4], initializer=tf1.ones_initializer())
        ids = tf1.placeholder(tf.int32, [3])
        factor = tf1.placeholder(tf.float32, [])
        loss = tf.reduce_mean(tf.square(tf.gather(table, ids) * weight * factor - 1.0))
        optimizer = tf1.train.AdamOptimizer(0.1)
        if wrap:
            optimizer = NPULossScaleOptimizer(optimizer, manager())
        pairs = optimizer.compute_gradients(loss)
        assert isinstance(pairs[0][0], tf.IndexedSlices)
        step = optimizer.apply_gradients(pairs, tf1.train.get_or_create_global_step())
        feeds = [
            {ids: [i, i + 1, 2 * i], factor: np.inf if i in overflow_at else 1.0} for i in range(6)
        ]
        feeds = feeds if wrap else [feed for feed in feeds if feed[factor] == 1.0]
        return Training(loss, step, feeds, WATCHED if wrap else {})

    return build


@pytest.mark.parametrize("overflow_at", [[0], [2], [1, 3], [2, 3], [5]])
def test_a_skipped_step_leaves_no_trace_in_variables_and_slots(overflow_at):
    run, expected = (
        train(injected(overflow_at), FLOAT32),
        train(injected(overflow_at, False), FLOAT32),
    )
    assert [i for i, made in enumerate(run.watched["made"]) if not made] == overflow_at
    for name, value in expected.variables.items():
        np.testing.assert_array_equal(run.variables[name], value, err_msg=name)
    decreased = len(overflow_at) // 2
    assert run.variables["current_loss_scale"] == np.float32(2.0**10 / 2**decreased)


def test_without_the_check_a_step_that_overflows_is_made():
    def manager():
        return FixedLossScaleManager(128, enable_overflow_check=False)

    def build():
        built = injected([2], manager=manager)()
        return Training(built.loss, built.step, built.feeds, WATCHED)

    run = train(build, FLOAT32)
    assert np.isnan(run.variables["weight"]).any()
    assert run.watched["made"] == [True] * 6


def test_a_fixed_scale_skips_too_and_is_not_in_checkpoints():
    run = train(injected([1, 2], manager=lambda: FixedLossScaleManager(128)), FLOAT32)
    assert run.watched["made"] == [True, False, False, True, True, True]
    assert run.watched["scale"] == [128.0] * 6
    assert not {"current_loss_scale", "good_steps", "bad_steps"} & set(run.variables)


def test_the_scale_and_its_counters_are_in_checkpoints(tmp_path):
    path = str(tmp_path / "model")
    first = train(injected([1, 3, 5]), FLOAT32, save=path)
    state = [first.variables[name] for name in ("current_loss_scale", "good_steps", "bad_steps")]
    assert state == [2.0**9, 0, 1]
    second = train(injected([0]), FLOAT32, restore=path)
    # The overflow that was counted before the checkpoint, and this one.
    assert second.variables["current_loss_scale"] == 2.0**8


def test_an_object_based_checkpoint_has_them_too(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer())
        optimizer = NPULossScaleOptimizer(sgd(), exponential(16.0, incr_every_n_steps=1)())
        step = optimizer.minimize(tf.square(variable))
        session.run(tf1.global_variables_initializer())
        session.run(step)
        checkpoint = tf1.train.Checkpoint(optimizer=optimizer)
        path = checkpoint.write(str(tmp_path / "model"), session=session)
        session.run(tf1.global_variables_initializer())
        checkpoint.restore(path).run_restore_ops(session)
        assert session.run("loss_scale:0") == 32.0


def test_the_scale_stays_at_least_one():
    run = train(injected([0, 1], manager=exponential(1.5, decr_ratio=0.5)), FLOAT32)
    assert run.watched["scale"][1:3] == [1.0, 1.0]


def test_the_largest_scale_loses_no_gradient():
    """The scale's reciprocal is too small for float32."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", [4], initializer=tf1.ones_initializer())
        optimizer = tf1.train.GradientDescentOptimizer(2.0**99)
        step = NPULossScaleOptimizer(optimizer, FixedLossScaleManager(2.0**127)).minimize(
            tf.reduce_sum(variable * tf.constant(2.0**-100))
        )
        session.run(tf1.global_variables_initializer())
        session.run(step)
        assert list(session.run(variable)) == [0.5] * 4


def test_what_is_fetched_with_a_step_is_its_scale():
    run = train(injected([], manager=exponential(8.0, incr_every_n_steps=1)), FLOAT32)
    assert run.watched["scale"] == [8.0 * 2**i for i in range(6)]


@pytest.mark.parametrize("start", [2.0**16, 2.0**32])
def test_force_fp16_lowers_no_scale(start, use_resource):
    """No scale above 65504 fits float16; the gradient of the product is lowered, and overflows."""
    manager = exponential(start, decr_ratio=2.0**-4)
    run = train(training(manager, use_resource=use_resource), "force_fp16")
    made = run.watched["made"]
    assert not made[0]
    assert made[-1]
    assert np.isfinite(run.watched["scale"]).all()


@needs_functions_by_default
@pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
def test_without_a_session_it_skips_and_adjusts_as_well(place):
    variable, factor = tf.Variable(1.0), tf.Variable(1.0)
    manager = exponential(16.0, incr_every_n_steps=2, decr_ratio=0.5)()
    optimizer = NPULossScaleOptimizer(sgd(), manager)

    @place
    def step():
        optimizer.minimize(lambda: variable * factor, var_list=[variable])

    for value, expected, scale in (1.0, 0.9, 16.0), (1.0, 0.8, 32.0), (np.inf, 0.8, 16.0):
        factor.assign(value)
        step()
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)
        assert manager.get_loss_scale().numpy() == scale


class OfTheScript:
    """A manager like those of tf.contrib.mixed_precision."""

    def get_loss_scale(self):
        return tf.constant(4.0)

    def update_loss_scale(self, finite_grads):
        return tf.group(finite_grads)


def test_a_manager_of_tf_contrib_will_do():
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", [], initializer=tf1.ones_initializer())
        optimizer = NPULossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.1), OfTheScript())
        step = optimizer.minimize(tf.square(variable))
        session.run(tf1.global_variables_initializer())
        session.run(step)
        assert session.run(variable) == np.float32(0.8)


def test_npu_optimizer_scales_if_asked(caplog, monkeypatch):
    monkeypatch.setattr(_no_effect, "_named", set())
    optimizer, manager = tf1.train.GradientDescentOptimizer(0.1), FixedLossScaleManager(8)
    scaling = npu_init.NPUOptimizer(optimizer, manager, is_loss_scale=True)
    assert isinstance(scaling, NPULossScaleOptimizer)
    assert npu_init.NPUOptimizer(optimizer) is optimizer
    assert not caplog.messages
    assert npu_init.NPUOptimizer(optimizer, manager, is_tailing_optimization=True) is optimizer
    assert caplog.messages == [
        "NPUOptimizer: is_tailing_optimization has no effect on stock TensorFlow",
        "NPUOptimizer: loss_scale_manager has no effect without is_loss_scale=True",
    ]
    with pytest.raises(ValueError, match="^loss_scale_manager: got None, and is_loss_scale=True"):
        npu_init.NPUOptimizer(optimizer, is_loss_scale=True)


@pytest.mark.parametrize(
    "wrap",
    [
        npu_init.NPUDistributedOptimizer,
        npu_init.npu_distributed_optimizer_wrapper,
        npu_init.npu_tf_optimizer,
        npu_init.npu_keras_optimizer,
    ],
)
def test_wrappers_for_several_devices_give_the_optimizer_itself(wrap):
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    assert wrap(optimizer) is optimizer


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            lambda: FixedLossScaleManager(0.5),
            "loss_scale: got 0.5 (float), expected a number of at",
        ),
        (
            lambda: FixedLossScaleManager(-1),
            "loss_scale: got -1 (int), expected a positive, finite",
        ),
        (lambda: FixedLossScaleManager("8"), "loss_scale: got '8' (str), expected a positive"),
        (lambda: exponential(float("nan"))(), "init_loss_scale: got nan (float), expected a pos"),
        (lambda: exponential(8, incr_every_n_steps=0)(), "incr_every_n_steps: got 0 (int), expec"),
        (lambda: exponential(8, incr_ratio=1.0)(), "incr_ratio: got 1.0 (float), expected a fini"),
        (lambda: exponential(8, decr_ratio=1)(), "decr_ratio: got 1 (int), expected a number abo"),
        (
            lambda: exponential(8, decr_every_n_nan_or_inf=-2)(),
            "decr_every_n_nan_or_inf: got -2 (int), expected a whole number from 1 to",
        ),
        (
            lambda: NPULossScaleOptimizer(8, FixedLossScaleManager(8)),
            "opt: got 8 (int), expected a tf.compat.v1.train.Optimizer; for Keras' there is",
        ),
        (
            lambda: NPULossScaleOptimizer(
                NPULossScaleOptimizer(sgd(), FixedLossScaleManager(8)), FixedLossScaleManager(8)
            ),
            "opt: got NPULossScaleOptimizer, which scales the loss already",
        ),
        (
            lambda: NPULossScaleOptimizer(sgd(), 128.0),
            "loss_scale_manager: got 128.0 (float), expected an instance of FixedLossScaleManager",
        ),
        (
            lambda: npu_init.NPUDistributedOptimizer("adam"),
            "optimizer: got 'adam' (str), expected a tf.compat.v1.train.Optimizer",
        ),
    ],
)
def test_a_mistake_is_named(mistake, message):
    with pytest.raises(ValueError, match="got") as error:
        mistake()
    assert str(error.value).startswith(message)

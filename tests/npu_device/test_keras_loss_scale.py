"""npu_device's NpuLossScaleOptimizer: Keras' own, and overflows that an emulated 910 saturates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from support.replicas import MIRRORED, shown
from support.tf_versions import needs_functions_by_default, needs_logical_devices

import npu_precision
from npu_precision import _library

pytestmark = [needs_functions_by_default, pytest.mark.slow]

SATURATING = {"precision_mode": "allow_mix_precision", "target": "ascend910", "emulate": True}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=[64, 4]).astype(np.float32)
Y = X @ RANDOM.normal(size=[4, 1]).astype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_seen_before():
    _library.take_overflow()


@pytest.fixture
def scaling(npu):
    """Makes an NpuLossScaleOptimizer around SGD."""

    def make(*args, rate=0.1, **kwargs):
        return npu.train.optimizer.NpuLossScaleOptimizer(
            tf.keras.optimizers.SGD(rate), *args, **kwargs
        )

    return make


def model_of(optimizer=None):
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    if optimizer is not None:
        model.compile(optimizer, "mse")
    return model


def losses_of_fit(optimizer, **options):
    model = model_of(optimizer)
    return model.fit(X, Y, batch_size=16, shuffle=False, epochs=3, verbose=0, **options).history[
        "loss"
    ]


def weight_and_step(optimizer, place=tf.function):
    """A weight of 1, and a step of a custom training loop with the loss weight * factor."""
    weight = tf.Variable(1.0)

    @place
    def step(factor):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(weight * factor)
        grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
        optimizer.apply_gradients(zip(grads, [weight]))

    return weight, step


def test_it_is_an_optimizer_of_keras_around_another(scaling, npu):
    optimizer = scaling()
    assert isinstance(optimizer, npu.train.optimizer.NpuLossScaleOptimizer)
    assert isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    assert isinstance(optimizer.inner_optimizer, tf.keras.optimizers.SGD)
    assert optimizer.dynamic is True
    assert float(optimizer.loss_scale) == optimizer.initial_scale == 2.0**15
    assert optimizer.dynamic_growth_steps == 2000
    optimizer.learning_rate = 0.5
    assert float(optimizer.inner_optimizer.learning_rate) == 0.5


def test_fit_trains_as_without_it(scaling):
    # A power of two scales without rounding.
    expected = losses_of_fit(tf.keras.optimizers.SGD(0.1))
    np.testing.assert_allclose(losses_of_fit(scaling()), expected, rtol=1e-6)
    assert expected[-1] < 0.5 * expected[0]


def test_fit_in_float16_skips_what_overflows_and_learns(scaling):
    expected = losses_of_fit(tf.keras.optimizers.SGD(0.1))
    npu_precision.enable(precision_mode="allow_mix_precision")
    optimizer = scaling(initial_scale=2.0**30)
    losses = losses_of_fit(optimizer)
    assert 1 < float(optimizer.loss_scale) < 2.0**30
    assert np.isfinite(losses).all()
    # With a scale that fits, no step is lost, and float16 rounds by 2**-11.
    fitting = losses_of_fit(scaling(initial_scale=256.0))
    np.testing.assert_allclose(fitting, expected, rtol=2e-3)


@pytest.mark.parametrize("place", [tf.function, lambda f: f], ids=["function", "eager"])
def test_a_loop_of_ones_own_steps_by_the_unscaled_gradient(scaling, place):
    optimizer = scaling(initial_scale=1024.0, dynamic_growth_steps=2)
    weight, step = weight_and_step(optimizer, place)
    scales = []
    for factor in (1.0, 2.0, math.inf, 1.0, math.nan):
        step(tf.constant(factor))
        scales.append((weight.numpy().item(), float(optimizer.loss_scale)))
    expected = [(0.9, 1024.0), (0.7, 2048.0), (0.7, 1024.0), (0.6, 1024.0), (0.6, 512.0)]
    np.testing.assert_allclose(scales, expected, rtol=1e-6)
    assert int(optimizer.dynamic_counter) == 0


def test_the_parts_of_a_step_may_be_in_functions_of_their_own(scaling):
    optimizer, weight = scaling(initial_scale=8.0), tf.Variable(1.0)

    @tf.function
    def unscaled(factor):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(weight * factor)
        return optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))

    @tf.function
    def clip_and_apply(grads):
        grads, _ = tf.clip_by_global_norm(grads, 2.0)
        optimizer.apply_gradients(zip(grads, [weight]))

    for factor in (1.0, 100.0, math.inf, 1.0):
        clip_and_apply(unscaled(tf.constant(factor)))
    assert weight.numpy() == pytest.approx(1 - 0.1 - 0.2 - 0.1, rel=1e-6)
    assert float(optimizer.loss_scale) == 4.0


def test_a_loss_may_be_a_function(scaling):
    scaled = scaling(initial_scale=4.0).get_scaled_loss(lambda: tf.constant(2.0))
    assert scaled().numpy() == 8.0


def test_the_scaled_loss_may_exceed_float16(scaling):
    npu_precision.enable(precision_mode="force_fp16")
    optimizer = scaling(initial_scale=2.0**15)
    scaled = tf.function(lambda x: optimizer.get_scaled_loss(tf.square(x)))
    assert scaled(tf.constant(4.0)).numpy() == 16 * 2.0**15


def test_a_fixed_scale_stays(scaling):
    optimizer = scaling(False, 16.0)
    assert optimizer.dynamic is False
    weight, step = weight_and_step(optimizer)
    for _ in range(3):
        step(tf.constant(1.0))
    assert weight.numpy() == pytest.approx(0.7, rel=1e-6)
    assert float(optimizer.loss_scale) == 16.0


def test_a_step_that_saturates_is_skipped_though_its_gradients_are_finite(scaling):
    npu_precision.enable(**SATURATING)
    optimizer, weight = scaling(initial_scale=2.0**18), tf.Variable(np.ones([2, 2], np.float32))

    @tf.function
    def step(factor):
        with tf.GradientTape() as tape:
            product = tf.matmul(tf.ones([2, 2]), weight)
            loss = optimizer.get_scaled_loss(tf.reduce_sum(product) * factor)
        (gradient,) = tape.gradient(loss, [weight])
        grads = optimizer.get_unscaled_gradients([gradient])
        optimizer.apply_gradients(zip(grads, [weight]))
        return tf.reduce_all(tf.math.is_finite(gradient))

    seen = []
    for factor in (1.0, 2.0**-10, 1.0, 2.0**-10):
        before = weight.numpy()
        assert step(tf.constant(factor))
        seen.append((bool((weight.numpy() != before).all()), float(optimizer.loss_scale)))
    assert seen == [(False, 2.0**17), (True, 2.0**17), (False, 2.0**16), (True, 2.0**16)]


def test_fit_skips_steps_that_saturate(scaling):
    npu_precision.enable(**SATURATING)
    optimizer = scaling(initial_scale=2.0**30)
    model = model_of(optimizer)
    before = model.get_weights()
    model.fit(X[:16], Y[:16], batch_size=16, verbose=0)
    for now, then in zip(model.get_weights(), before):
        np.testing.assert_array_equal(now, then)
    assert float(optimizer.loss_scale) == 2.0**29


def test_a_saved_model_has_keras_own_optimizer(scaling, tmp_path):
    model = model_of(scaling(initial_scale=64.0))
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    assert loaded.optimizer.initial_scale == 64.0
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), model.predict(X, verbose=0))


def test_a_checkpoint_has_the_scale_and_the_inner_optimizer(scaling, tmp_path):
    optimizer = scaling(initial_scale=64.0, dynamic_growth_steps=1)
    model = model_of(optimizer)
    model.fit(X, Y, batch_size=16, verbose=0)  # four steps
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(tmp_path / "saved"))
    other = scaling(initial_scale=2.0)
    other_model = model_of(other)
    other_model.fit(X, Y, verbose=0)
    tf.train.Checkpoint(model=other_model, optimizer=other).restore(path)
    assert float(other.loss_scale) == float(optimizer.loss_scale) == 64.0 * 2**4
    assert int(other.iterations) == 4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dynamic": "yes"}, TypeError, "dynamic: got 'yes' (str), expected a bool"),
        ({"dynamic": False}, ValueError, "initial_scale: got None, expected a number"),
        (
            {"dynamic": False, "initial_scale": 2.0, "dynamic_growth_steps": 3},
            ValueError,
            "dynamic_growth_steps: got 3, expected None",
        ),
    ],
)
def test_wrong_arguments_are_errors(scaling, arguments, error, message):
    with pytest.raises(error) as raised:
        scaling(**arguments)
    assert message in str(raised.value)


REPLICAS = f"""{MIRRORED}
from npu_precision import npu_device as npu

with strategy.scope():
    weight = tf.Variable(1.0)
    optimizer = npu.train.optimizer.NpuLossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
    optimizer.build([weight])


def step(factor):
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(weight * factor)
    grads = optimizer.get_unscaled_gradients(tape.gradient(loss, [weight]))
    optimizer.apply_gradients(zip(grads, [weight]))


run = tf.function(lambda factors: strategy.run(step, args=(factors,)))
for factors in ([1.0, 1.0], [1.0, np.inf], [1.0, 1.0]):
    run(per_replica(factors))
    show(weight.numpy(), optimizer.loss_scale.numpy())
"""


@needs_logical_devices
def test_replicas_of_a_strategy_skip_a_step_together(run_python):
    printed = run_python(REPLICAS, 2).stdout
    assert shown(printed) == [[0.5, 2.0**15], [0.5, 2.0**14], [0.0, 2.0**14]]

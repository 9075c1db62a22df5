"""AutoGraph converts the user's functions, and none of the package."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default
from tensorflow.python.autograph.impl import api

import npu_precision
from npu_precision import amp
from npu_precision.training import program

pytestmark = needs_functions_by_default
layers = tf.keras.layers
IMAGES = np.ones([8, 4], np.float32)


@pytest.fixture
def conversions(monkeypatch):
    """The functions that AutoGraph converts, each with its module."""
    found = []
    convert = api._convert_actual

    def noting(entity, *rest):
        found.append((entity.__module__, entity.__qualname__))
        return convert(entity, *rest)

    monkeypatch.setattr(api, "_convert_actual", noting)
    return found


def ours(conversions):
    return [each for each in conversions if each[0].split(".")[0] == "npu_precision"]


def with_branch(x):
    """A function that only works if AutoGraph converts it."""
    if tf.reduce_sum(x) > 0.0:
        return x * 2.0
    return x


class Halving(tf.keras.optimizers.SGD):
    """An optimizer of the user's, whose apply_gradients has a branch on a tensor."""

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        pairs = list(grads_and_vars)
        factor = tf.constant(1.0)
        if tf.reduce_sum(pairs[0][0]) > 0.0:
            factor = tf.constant(0.5)
        pairs = [(grad * factor, variable) for grad, variable in pairs]
        return super().apply_gradients(pairs, *args, **kwargs)


class WithBranch(tf.keras.Sequential):
    def train_step(self, data):
        images, labels = data
        if tf.reduce_sum(images) > 0.0:
            images = images * 2.0
        return super().train_step((images, labels))


def model_of(kind=tf.keras.Sequential, optimizer=None):
    model = kind([layers.Dense(1, kernel_initializer="ones", name="only")])
    model.build([None, 4])
    model.compile(optimizer or tf.keras.optimizers.SGD(0.0), "mse", jit_compile=False)
    return model


@pytest.mark.parametrize("enabled", [True, False])
def test_a_step_of_grad_scaler(enabled, conversions):
    scaler = npu_precision.GradScaler(8.0, enabled=enabled)
    variable, optimizer = tf.Variable([1.0, 1.0]), Halving(0.1)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = scaler.scale(tf.reduce_sum(variable * with_branch(x)))
        grads = scaler.unscale_(optimizer, tape.gradient(loss, [variable]))
        made = scaler.step(optimizer, zip(grads, [variable]))
        scaler.update()
        return made

    step(tf.ones([2]))
    np.testing.assert_allclose(variable.numpy(), [0.9, 0.9])
    assert ours(conversions) == []
    assert {name for _, name in conversions} >= {"with_branch", "Halving.apply_gradients"}


def test_scopes_and_decorators_of_amp(conversions):
    @amp.half_function
    def marked(x):
        return with_branch(x)

    @npu_precision.autocast(dtype="bfloat16")
    def scoped(x):
        return with_branch(x)

    @tf.function
    def step(x):
        with npu_precision.keep_dtype_scope(), npu_precision.autocast(dtype="bfloat16"):
            return marked(x) + scoped(x) + with_branch(x)

    assert float(step(tf.constant(1.0))) == 6.0
    assert ours(conversions) == []


def test_a_step_of_amp(conversions):
    model = tf.keras.Sequential([layers.Dense(1)])
    model.build([None, 4])
    optimizer = Halving(0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1", verbosity=0)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(with_branch(x)))
            with amp.scale_loss(loss, optimizer) as scaled:
                pass
        grads = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

    step(tf.constant(IMAGES))
    assert ours(conversions) == []
    assert "with_branch" in {name for _, name in conversions}


def test_an_optimizer_of_tensorflow_1_with_a_loss_in_a_function(conversions):
    variable = tf.Variable(1.0)
    optimizer = npu_precision.NPULossScaleOptimizer(
        tf.compat.v1.train.GradientDescentOptimizer(0.1),
        npu_precision.FixedLossScaleManager(8.0),
    )

    @tf.function
    def step():
        optimizer.minimize(lambda: with_branch(variable), var_list=[variable])

    step()
    np.testing.assert_allclose(variable.numpy(), 0.8)
    assert ours(conversions) == []


def test_the_train_step_under_a_guard(tmp_path, conversions):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    data = (IMAGES, np.zeros([8, 1], np.float32))
    history = model_of(WithBranch).fit(*data, batch_size=8, verbose=0, callbacks=[guard]).history
    assert history["loss"] == [64.0]
    assert ours(conversions) == []


def test_the_train_step_of_a_program(conversions):
    batch = (tf.constant(IMAGES), tf.zeros([8, 1]))
    built = program._of_model("built", model_of(WithBranch), [batch])
    run = next(built.steps())
    assert run.loss == 64.0
    assert ours(conversions) == []

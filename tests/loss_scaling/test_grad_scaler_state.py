"""GradScaler: its state, set, saved, restored and copied."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import (
    gradient_of,
    new_scaler_optimizer_and_variable,
    train,
)
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision.loss_scaling.strategies import (
    DynamicLossScale,
    FixedLossScale,
)

pytestmark = needs_functions_by_default


def test_update_takes_a_new_scale():
    scaler = npu_precision.GradScaler(8.0)
    scaler.update(new_scale=128.0)
    assert scaler.get_scale().numpy() == 128.0
    scaler.update(new_scale=tf.constant(64.0))
    assert scaler.get_scale().numpy() == 64.0
    scaler.update(new_scale=32)
    assert scaler.get_scale().numpy() == 32.0


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 2.0**30])
def test_a_new_scale_out_of_range_is_refused(scale, as_tensor):
    scaler = npu_precision.GradScaler(strategy=DynamicLossScale(8.0, max_scale=2.0**24))
    with pytest.raises(ValueError, match="^new_scale: got "):
        scaler.update(new_scale=tf.constant(scale) if as_tensor else scale)
    assert scaler.get_scale().numpy() == 8.0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("scale", [0.0, -4.0, np.nan, np.inf])
def test_a_new_scale_out_of_range_is_refused_in_a_function_too(scale, compiled):
    scaler = npu_precision.GradScaler(8.0)
    update = tf.function(lambda scale: scaler.update(new_scale=scale), jit_compile=compiled)
    if compiled:  # XLA drops assertions
        update(tf.constant(scale))
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="new_scale: expected a number"):
            update(tf.constant(scale))
    assert scaler.get_scale().numpy() == 8.0


def test_a_bound_that_is_no_float32_is_within_the_bounds():
    scaler = npu_precision.GradScaler(strategy=DynamicLossScale(0.7, min_scale=0.7, max_scale=1e16))
    scaler.load_state_dict(scaler.state_dict())
    scaler.update(new_scale=scaler.get_scale())


def test_a_fixed_scale_takes_no_other():
    scaler = npu_precision.GradScaler(strategy=FixedLossScale(8.0))
    with pytest.raises(ValueError, match=r"^new_scale: got 9.0 \(float\), and the scale is fixed"):
        scaler.update(new_scale=9.0)


def test_a_state_dict_goes_on_where_it_was_taken():
    def make():
        return npu_precision.GradScaler(4.0, growth_interval=3)

    first, second = make(), make()
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf, 1.0, 1.0])
    state = first.state_dict()
    assert (state["scale"], state["_growth_tracker"]) == (2.0, 2)
    second.load_state_dict(state)
    train(second, tf.keras.optimizers.SGD(0.1), tf.function, [1.0])
    assert second.state_dict() == {**state, "scale": 4.0, "_growth_tracker": 0}


def test_a_state_dict_begins_a_round_anew():
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
    scaler.load_state_dict(scaler.state_dict())
    scaler.unscale_(optimizer, [gradient_of(scaler, variable)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"more": 1}, "state_dict: got ['_growth_tracker', "),
        ({"growth_factor": 3.0}, "state_dict: got growth_factor 3.0, and this scaler has 2.0"),
        ({"scale": -1.0}, "scale: got -1.0 (float), expected a positive"),
        ({"_growth_tracker": -5, "scale": 2.0}, "_growth_tracker: got -5 (int), expected a whole"),
        ({"_growth_tracker": "x", "scale": 2.0}, "_growth_tracker: got 'x' (str), expected a who"),
        ({"_hysteresis_tracker": 1, "scale": 2.0}, "_hysteresis_tracker: got 1 (int), expected"),
    ],
)
def test_a_state_dict_of_another_scaler_is_refused(changed, message):
    scaler = npu_precision.GradScaler()
    with pytest.raises(ValueError, match="got") as error:
        scaler.load_state_dict({**scaler.state_dict(), **changed})
    assert str(error.value).startswith(message)
    assert scaler.get_scale().numpy() == 2.0**16


def test_a_state_dict_does_not_bring_another_fixed_scale():
    state = npu_precision.GradScaler(strategy=FixedLossScale(8.0)).state_dict()
    with pytest.raises(ValueError, match=r"got scale 8.0, and this scaler has 16.0"):
        npu_precision.GradScaler(strategy=FixedLossScale(16.0)).load_state_dict(state)


def test_a_state_dict_counts_overflows_too():
    def make():
        return npu_precision.GradScaler(strategy=DynamicLossScale(8.0, hysteresis=2))

    first, second = make(), make()
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf])
    second.load_state_dict(first.state_dict())
    train(second, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf])
    assert second.get_scale().numpy() == 4.0


def test_checkpoints_hold_the_state(tmp_path):
    first, second = npu_precision.GradScaler(4.0), npu_precision.GradScaler(4.0)
    train(first, tf.keras.optimizers.SGD(0.1), tf.function, [np.inf, 1.0])
    path = tf.train.Checkpoint(scaler=first).save(str(tmp_path / "state"))
    tf.train.Checkpoint(scaler=second).restore(path).assert_consumed()
    assert second.state_dict() == first.state_dict()
    assert second.skipped_steps.numpy() == 1


def test_restoring_does_not_bring_back_what_was_called(tmp_path):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    checkpoint = tf.train.Checkpoint(scaler=scaler)
    path = checkpoint.save(str(tmp_path / "state"))

    def step():
        scaler.step(optimizer, [(gradient_of(scaler, variable), variable)])
        scaler.update()

    step()
    checkpoint.restore(path)
    step()
    scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
    checkpoint.restore(path)
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(optimizer, [gradient_of(scaler, variable)])


def test_a_copy_goes_on_where_the_original_is():
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    scaler.step(optimizer, [(gradient_of(scaler, variable, np.inf), variable)])
    scaler.update()
    assert copy.deepcopy(scaler).state_dict() == scaler.state_dict()

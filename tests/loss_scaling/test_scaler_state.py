"""GradScaler: its state, set, saved, restored and copied."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import (
    each_place,
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
        ({"hysteresis": 3}, "state_dict: got hysteresis 3, and this scaler has 1"),
        ({"growth_factor": 1.0, "scale": 2.0}, "growth_factor: got 1.0 (float), expected a finite"),
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


TORCHS = {
    "scale": 32.0,
    "growth_factor": 1.1,
    "backoff_factor": 0.3,
    "growth_interval": 5,
    "_growth_tracker": 3,
}


def test_a_state_dict_of_torchs_scaler_is_taken_over():
    scaler = npu_precision.GradScaler(8.0)
    scaler.load_state_dict(TORCHS)
    assert scaler.state_dict(torch=True) == TORCHS
    train(scaler, tf.keras.optimizers.SGD(0.1), tf.function, [1.0, 1.0])
    np.testing.assert_allclose(scaler.get_scale(), 32.0 * 1.1, rtol=1e-6)
    scaler.load_state_dict({**TORCHS, "_growth_tracker": 9})  # its interval was longer once
    train(scaler, tf.keras.optimizers.SGD(0.1), tf.function, [1.0])
    np.testing.assert_allclose(scaler.get_scale(), 32.0 * 1.1, rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"growth_factor": 0.5}, "growth_factor: got 0.5 (float), expected a finite number above"),
        ({"backoff_factor": 1.5}, "backoff_factor: got 1.5 (float), expected a number above 0 and"),
        ({"growth_interval": 0}, "growth_interval: got 0 (int), expected a whole number from 1"),
        ({"scale": 0.0}, "scale: got 0.0 (float), expected a positive"),
    ],
)
def test_a_wrong_number_in_torchs_state_changes_nothing(changed, message):
    scaler = npu_precision.GradScaler()
    before = scaler.state_dict()
    with pytest.raises(ValueError, match="got") as error:
        scaler.load_state_dict({**TORCHS, **changed})
    assert str(error.value).startswith(message)
    assert scaler.state_dict() == before


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (FixedLossScale(8.0), "torch=True: got a scaler with FixedLossScale"),
        (DynamicLossScale(hysteresis=2), "torch=True: got a scaler with hysteresis 2, expected 1"),
        (DynamicLossScale(min_scale=1.0), "torch=True: got a scaler with min_scale 1.0, expected"),
    ],
)
def test_what_torchs_scaler_does_not_know_is_not_written_for_it(strategy, message):
    with pytest.raises(ValueError, match="^torch=True") as error:
        npu_precision.GradScaler(strategy=strategy).state_dict(torch=True)
    assert str(error.value).startswith(message)


@each_place
def test_what_is_set_is_seen_by_functions_that_are_traced_already(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def step(factor):
        scaler.step(optimizer, [(gradient_of(scaler, variable, factor), variable)])
        scaler.update()

    step(tf.constant(1.0))
    scaler.set_growth_interval(2)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    assert scaler.get_growth_interval() == 2
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor()) == (3.0, 0.1)
    step(tf.constant(1.0))
    assert scaler.get_scale().numpy() == 24.0
    step(tf.constant(np.inf))
    np.testing.assert_allclose(scaler.get_scale(), 2.4, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("growth_factor", 1.0, "new_factor: got 1.0 (float), expected a finite number above 1"),
        ("backoff_factor", 1, "new_factor: got 1 (int), expected a number above 0 and below 1"),
        ("growth_interval", 2.0, "new_interval: got 2.0 (float), expected a whole number from 1"),
    ],
)
def test_a_wrong_number_is_not_set(name, value, message):
    scaler = npu_precision.GradScaler()
    before = scaler.state_dict()
    with pytest.raises(ValueError, match="^new_") as error:
        getattr(scaler, f"set_{name}")(value)
    assert str(error.value).startswith(message)
    assert scaler.state_dict() == before


@pytest.mark.parametrize("name", ["growth_factor", "backoff_factor", "growth_interval"])
def test_a_fixed_scale_has_no_growth_and_a_graph_no_numbers(name):
    fixed = npu_precision.GradScaler(strategy=FixedLossScale(8.0))
    with pytest.raises(ValueError, match=f"^{name}: the scale is fixed, and has none"):
        getattr(fixed, f"get_{name}")()
    get = getattr(npu_precision.GradScaler(), f"get_{name}")
    with pytest.raises(RuntimeError, match=f"the {name} is asked for in a graph"):
        tf.function(get)()


def test_who_is_not_enabled_remembers_its_growth():
    scaler = npu_precision.GradScaler(enabled=False, growth_interval=7)
    scaler.set_growth_interval(scaler.get_growth_interval() + 1)
    assert scaler.get_growth_interval() == 8
    assert scaler.state_dict(torch=True) == {}


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
    first.set_growth_interval(30)
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

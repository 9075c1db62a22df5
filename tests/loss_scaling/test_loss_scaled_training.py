"""Small networks learn digits in float16, with each strategy in each style, as in float32."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from support.digits_training import (
    MODELS,
    accuracy,
    batches,
    train_in_float32,
    train_in_session,
    train_with_amp,
    train_with_scaler,
    with_level,
    with_manager,
)
from support.tf_versions import needs_fast_loops, needs_functions_by_default
from support.tiers import mostly_full

import npu_precision
from npu_precision import ExponentialUpdateLossScaleManager as Exponential
from npu_precision import FixedLossScale, NoLossScale
from npu_precision import FixedLossScaleManager as Fixed

# Gradients times this factor are zero in float16 without loss scaling.
TINY = 2.0**-20
POINT = 0.01


@functools.lru_cache(maxsize=None)
def accuracy_in_float32(name):
    return accuracy(MODELS[name], train_in_float32(MODELS[name], batches()))


def session(make):
    return lambda model, inputs, factor=1.0: train_in_session(model, inputs, make(), factor)


def scaler(**arguments):
    return functools.partial(train_with_scaler, **arguments)


def level(name, **overrides):
    return functools.partial(train_with_amp, level=name, **overrides)


def function(train, name):
    return pytest.param(train, marks=needs_functions_by_default, id=name)


SCALED = [
    pytest.param(session(lambda: with_manager(Fixed(2**18))), id="npu fixed"),
    pytest.param(session(lambda: with_manager(Exponential(2**32, 1000, 2, 2, 0.5))), id="npu"),
    pytest.param(session(lambda: with_level("O1", loss_scale=2**18)), id="amp session"),
    function(scaler(init_scale=2.0**28), "scaler"),
    function(scaler(strategy=FixedLossScale(2.0**18)), "scaler fixed"),
    function(level("O1", min_loss_scale=2**16), "amp"),
]
UNSCALED = [
    pytest.param(session(lambda: with_manager(Fixed(1, False))), id="npu"),
    pytest.param(session(lambda: with_level("O1", loss_scale=1.0)), id="amp session"),
    function(scaler(strategy=NoLossScale()), "scaler"),
    function(level("O1", loss_scale=1.0), "amp"),
]


DYNAMIC = [SCALED[1], SCALED[3], SCALED[5]]


def check_learns(name, train, factor):
    weights = train(MODELS[name], batches(), factor=factor)
    assert accuracy(MODELS[name], weights) >= accuracy_in_float32(name) - POINT


@pytest.mark.parametrize("train", mostly_full(SCALED, ["npu"]))
def test_convolutions_whose_gradients_are_tiny_learn_as_in_float32(train):
    check_learns("convolutions", train, TINY)


@pytest.mark.full
@needs_fast_loops
@pytest.mark.parametrize("train", DYNAMIC)
def test_an_lstm_whose_gradients_are_tiny_learns_as_in_float32(train):
    check_learns("lstm", train, TINY)


@pytest.mark.full
@pytest.mark.parametrize("train", [*DYNAMIC, *UNSCALED])
def test_convolutions_whose_gradients_are_not_learn_with_a_scale_or_none(train):
    check_learns("convolutions", train, 1.0)


@pytest.mark.parametrize(
    "train",
    mostly_full(
        [
            pytest.param(session(lambda: with_level("O2")), id="O2 session"),
            pytest.param(session(lambda: with_level("O3")), id="O3 session"),
            function(level("O0"), "O0"),
            function(level("O2"), "O2"),
        ],
        ["O2 session"],
    ),
)
def test_convolutions_learn_at_every_level(train):
    check_learns("convolutions", train, 1.0)


@pytest.mark.parametrize("train", mostly_full(UNSCALED, ["scaler"]))
def test_without_a_scale_tiny_gradients_teach_nothing_and_the_recorder_says_why(train, tmp_path):
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        weights = train(MODELS["convolutions"], batches(), factor=TINY)
    assert accuracy(MODELS["convolutions"], weights) < 0.2
    assert "400 steps, 0 overflowed" in recorder.summary()
    assert re.search(r"scale 1: (99|100)\.\d% of the gradients are zero", recorder.summary())
    assert "all zero, 3 of 3: " in recorder.summary()


@pytest.mark.parametrize("train", mostly_full(SCALED, ["amp"]))
def test_an_overflow_in_between_changes_nothing_but_the_scale(train, tmp_path):
    plain = train(MODELS["convolutions"], batches(6), factor=TINY)
    with npu_precision.FlightRecorder(tmp_path) as recorder:
        weights = train(MODELS["convolutions"], batches(6, overflow_at=3), factor=TINY)
    assert "7 steps, " in recorder.summary()
    assert "last overflow: step 3, " in recorder.summary()
    for name, value in plain.items():
        # Half the scale loses the last of some digits that float16 has for them.
        np.testing.assert_allclose(weights[name], value, rtol=0, atol=1e-3 * np.abs(value).max())

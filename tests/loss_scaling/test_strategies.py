"""Compares the strategies to a reference of ten lines, for all arguments and overflow sequences."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_precision.loss_scaling.strategies import (
    DynamicLossScale,
    FixedLossScale,
    LossScaleState,
    NoLossScale,
)

tf1 = tf.compat.v1
LARGEST = float(np.finfo(np.float32).max)


def reference(strategy, state, finite):
    """The strategy in plain Python, with products in float32."""
    scale, good, bad = state
    good, bad = (good + 1, bad) if finite else (0, bad + 1)
    with np.errstate(over="ignore"):
        grown = np.float32(scale) * np.float32(strategy.growth_factor)
    if finite and good >= strategy.growth_interval:
        return (min(grown, strategy.max_scale) if np.isfinite(grown) else scale), 0, 0
    if not finite and bad >= strategy.hysteresis:
        backed_off = np.float32(scale) * np.float32(strategy.backoff_factor)
        return max(backed_off, np.float32(strategy.min_scale)), 0, 0
    return scale, good, bad


def states(strategy, steps):
    """The state after each of the steps, in a graph."""
    with tf.Graph().as_default(), tf1.Session() as session:
        dtypes = LossScaleState(tf.float32, tf.int32, tf.int32)
        before = LossScaleState(*(tf1.placeholder(dtype, []) for dtype in dtypes))
        finite = tf1.placeholder(tf.bool, [])
        after = strategy.adjust(before, finite)
        state, found = strategy.initial(), []
        for is_finite in steps:
            state = session.run(after, {**dict(zip(before, state)), finite: is_finite})
            found.append(state)
        return found


@st.composite
def dynamic(draw):
    def number(low, high):
        return draw(st.floats(low, high, width=32))

    least = draw(st.sampled_from([2.0**-14, 0.5, 1.0]))
    largest = draw(st.sampled_from([1.5, 2.0**24, LARGEST]))
    return DynamicLossScale(
        init_scale=number(least, largest),
        growth_factor=number(1.125, 2.0**40),
        backoff_factor=number(2.0**-20, 0.875),
        growth_interval=draw(st.integers(1, 4)),
        hysteresis=draw(st.integers(1, 3)),
        min_scale=least,
        max_scale=largest,
    )


SEQUENCES = st.lists(st.booleans(), min_size=1, max_size=24)


@settings(deadline=None)
@given(dynamic(), SEQUENCES)
def test_a_dynamic_scale_is_what_the_reference_says(strategy, steps):
    state = strategy.initial()
    for finite, found in zip(steps, states(strategy, steps)):
        state = reference(strategy, state, finite)
        assert found == LossScaleState(*state)


@settings(deadline=None)
@given(dynamic(), SEQUENCES)
def test_a_dynamic_scale_stays_within_its_bounds_and_moves_as_it_says(strategy, steps):
    before = strategy.initial()
    for finite, after in zip(steps, states(strategy, steps)):
        assert strategy.min_scale <= after.scale <= strategy.max_scale
        assert 0 <= after.good_steps < strategy.growth_interval
        assert 0 <= after.bad_steps < strategy.hysteresis
        assert after.scale >= before.scale if finite else after.scale <= before.scale
        before = after


@pytest.mark.parametrize(
    "strategy", [NoLossScale(), FixedLossScale(128.0), FixedLossScale(3.5, False)]
)
def test_other_scales_stay(strategy):
    assert states(strategy, [True, False, True])[-1] == strategy.initial()


def test_npu_bridges_scripts_want_two_overflows_that_need_not_be_in_a_row():
    strategy = DynamicLossScale(2.0**32, 2, 0.5, growth_interval=1000, hysteresis=2, min_scale=1)
    scales = [state.scale for state in states(strategy, [False, True, True, False, False, False])]
    assert scales == [2.0**32, 2.0**32, 2.0**32, 2.0**31, 2.0**31, 2.0**30]


def test_growth_that_is_infinite_is_left_out():
    strategy = DynamicLossScale(2.0**127, growth_interval=1)
    assert [state.scale for state in states(strategy, [True, True])] == [2.0**127, 2.0**127]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"init_scale": 0}, "init_scale: got 0 (int), expected a positive, finite number"),
        ({"init_scale": -1.0}, "init_scale: got -1.0 (float), expected a positive, finite number"),
        ({"init_scale": float("nan")}, "init_scale: got nan (float), expected a positive"),
        ({"init_scale": float("inf")}, "init_scale: got inf (float), expected a positive"),
        ({"init_scale": 1e39}, "that float32 can hold"),
        ({"init_scale": "dynamic"}, "init_scale: got 'dynamic' (str), expected a positive"),
        ({"init_scale": True}, "init_scale: got True (bool), expected a positive"),
        ({"init_scale": 0.5, "min_scale": 1.0}, "init_scale: got 0.5, expected a number from"),
        ({"init_scale": 9.0, "max_scale": 8.0}, "from min_scale, 1.1754943508222875e-38, to"),
        ({"min_scale": 4.0, "max_scale": 2.0}, "min_scale: got 4.0, which is above max_scale, 2.0"),
        ({"growth_factor": 1}, "growth_factor: got 1 (int), expected a finite number above 1"),
        ({"growth_factor": float("inf")}, "growth_factor: got inf (float), expected a finite"),
        ({"backoff_factor": 1.0}, "backoff_factor: got 1.0 (float), expected a number above 0"),
        ({"backoff_factor": 0}, "backoff_factor: got 0 (int), expected a number above 0"),
        ({"growth_interval": 0}, "growth_interval: got 0 (int), expected a whole number from 1 to"),
        ({"growth_interval": 2**31}, "expected a whole number from 1 to 2147483647"),
        ({"hysteresis": 1.5}, "hysteresis: got 1.5 (float), expected a whole number from 1 to"),
    ],
)
def test_an_argument_out_of_its_range_is_named(arguments, message):
    with pytest.raises(ValueError, match="^" + next(iter(arguments))[:4] + "|^m") as error:
        DynamicLossScale(**arguments)
    assert message in str(error.value)


def test_a_fixed_scale_is_checked_too():
    with pytest.raises(ValueError, match="^scale: got 0 "):
        FixedLossScale(0)


def test_strategies_are_values():
    assert DynamicLossScale() == DynamicLossScale(2.0**16)
    with pytest.raises(dataclasses.FrozenInstanceError):
        DynamicLossScale().hysteresis = 2

"""The order of calls in all three styles: compares sequences of three calls to a reference."""

from __future__ import annotations

import itertools
import random

import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default
from support.tiers import corpus_size

import npu_precision
from npu_precision import amp

tf1 = tf.compat.v1
LENGTH = 3


def first_refused(calls, make):
    """The index of the first call that raises, or None."""
    for index, (name, which) in enumerate(calls):
        try:
            make[name](which)
        except (RuntimeError, ValueError):
            return index
    return None


def first_out_of_order(calls, is_refused):
    """The same index by a rule: is_refused(name, which, state), which changes the dict of sets."""
    state = {"scaled": set(), "unscaled": set(), "stepped": set()}
    for index, (name, which) in enumerate(calls):
        if is_refused(name, which, state):
            return index
    return None


def of_scaler(name, which, state):
    unscaled, stepped = state["unscaled"], state["stepped"]
    if name == "update":
        is_refused = not unscaled | stepped
        unscaled.clear()
        stepped.clear()
    elif name == "unscale":
        is_refused = which in unscaled | stepped
        unscaled.add(which)
    else:
        is_refused = which in stepped
        stepped.add(which)
    return is_refused


def of_keras(name, which, state):
    scaled, unscaled = state["scaled"], state["unscaled"]
    if name == "scale":
        scaled.add(which)
        return False
    if name == "unscale":
        is_refused = which not in scaled
        scaled.discard(which)
        unscaled.add(which)
        return is_refused
    is_refused = len(scaled) != (0 if unscaled else 1)
    scaled.clear()
    unscaled.clear()
    return is_refused


def of_session(name, which, state):
    scaled = state["scaled"]
    if name == "scale":
        scaled.add(which)
    elif name == "unscale":
        scaled.discard(which)
    return name in ("plain", "step") and bool(scaled)


def sequences(names, all_of_them):
    """Sequences of calls: a call in `names` is for one of two objects, other calls are for all.

    The first call for an object is for object 0: the other sequences only exchange the two.
    """
    calls = [*itertools.product(names, range(2)), *((name, None) for name in all_of_them)]
    return [
        each
        for each in itertools.product(calls, repeat=LENGTH)
        if next((which for _, which in each if which is not None), 0) == 0
    ]


@needs_functions_by_default
def test_of_grad_scaler():
    optimizers = [tf.keras.optimizers.SGD(0.0) for _ in range(2)]
    variable = tf.Variable(1.0)
    for calls in sequences(["unscale", "step"], ["update"]):
        scaler = npu_precision.GradScaler(2.0)
        scaler.scale(tf.constant(1.0))
        make = {
            "unscale": lambda n, s=scaler: s.unscale_(optimizers[n], [tf.constant(1.0)]),
            "step": lambda n, s=scaler: s.step(optimizers[n], [(tf.constant(1.0), variable)]),
            "update": lambda _, s=scaler: s.update(),
        }
        assert first_refused(calls, make) == first_out_of_order(calls, of_scaler), calls


def losses_of(optimizer):
    def scale(loss_id):
        with amp.scale_loss(tf.constant(1.0), optimizer, loss_id):
            pass

    return {
        "scale": scale,
        "unscale": lambda n: amp.unscale_gradients([tf.constant(1.0)], optimizer, n),
    }


@needs_functions_by_default
def test_of_amp_with_keras():
    variable = tf.Variable(1.0)
    for calls in sequences(["scale", "unscale"], ["step"]):
        plain = tf.keras.optimizers.SGD(0.0)
        optimizer, _ = amp.initialize(plain, "O1", num_losses=2, loss_scale=2.0, verbosity=0)
        make = {
            **losses_of(optimizer),
            "step": lambda _, o=optimizer: o.apply_gradients([(tf.constant(1.0), variable)]),
        }
        assert first_refused(calls, make) == first_out_of_order(calls, of_keras), calls


def test_of_amp_in_a_graph():
    plain = tf1.train.GradientDescentOptimizer(0.0)
    optimizer, _ = amp.initialize(plain, "O1", num_losses=2, loss_scale=2.0, verbosity=0)
    every = sequences(["scale", "unscale"], ["plain", "step"])
    # Each takes a third of a second.
    for calls in random.Random(0).sample(every, min(len(every), corpus_size(300))):
        with tf.Graph().as_default():
            variable = tf1.get_variable("v", initializer=1.0, use_resource=True)
            make = {
                **losses_of(optimizer),
                "plain": lambda _, v=variable: optimizer.compute_gradients(v * 1.0, [v]),
                "step": lambda _, v=variable: optimizer.apply_gradients([(tf.constant(1.0), v)]),
            }
            assert first_refused(calls, make) == first_out_of_order(calls, of_session), calls


@needs_functions_by_default
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["unscale", "unscale"], "SGD: unscale_() was called for it since the last update(), exp"),
        (["step", "step"], "SGD: step() was called for it since the last update(), expected one"),
        (["update"], "update() is called without step() since the last one, expected step() or"),
    ],
)
def test_an_error_says_what_was_got_expected_and_to_do(calls, message):
    scaler, optimizer = npu_precision.GradScaler(2.0), tf.keras.optimizers.SGD(0.0)
    scaler.scale(tf.constant(1.0))
    make = {
        "unscale": lambda: scaler.unscale_(optimizer, [tf.constant(1.0)]),
        "step": lambda: scaler.step(optimizer, [(tf.constant(1.0), tf.Variable(1.0))]),
        "update": scaler.update,
    }
    for call in calls[:-1]:
        make[call]()
    with pytest.raises(RuntimeError) as error:
        make[calls[-1]]()
    assert str(error.value).startswith(message)
    assert ": " in str(error.value)[len(message) :]

"""GradScaler: the order of its calls, in eager code, functions and branches."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from support.scaled_steps import (
    Model,
    each_place,
    gradient_of,
    new_scaler_optimizer_and_variable,
    with_gradient,
)
from support.tf_versions import needs_functions_by_default

import npu_precision

pytestmark = needs_functions_by_default


def test_update_may_be_outside_of_the_function():
    scaler, optimizer, model = npu_precision.GradScaler(8.0), tf.keras.optimizers.SGD(0.1), Model()

    @tf.function
    def step(factor):
        gradients = model.gradients(scaler, factor)
        return scaler.step(optimizer, with_gradient(zip(gradients, model.variables)))

    for factor, scale in (1.0, 8.0), (np.inf, 4.0), (1.0, 4.0):
        step(tf.constant(factor))
        scaler.update()
        assert scaler.get_scale().numpy() == scale


@pytest.mark.parametrize("where", [set(), {"unscale"}, {"step"}, {"update"}, {"unscale", "step"}])
def test_each_call_may_be_in_a_function_of_its_own(where):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=2)

    def place(name, call):
        return tf.function(call) if name in where else call

    gradient = place("gradient", lambda: gradient_of(scaler, variable))
    unscale = place("unscale", lambda grad: scaler.unscale_(optimizer, [grad]))
    step = place("step", lambda grad: scaler.step(optimizer, [(grad, variable)]))
    update = place("update", scaler.update)
    for _ in range(4):
        (unscaled,) = unscale(gradient())
        assert step(unscaled)
        update()
    assert variable.numpy() == -3.0
    assert scaler.get_scale().numpy() == 32.0


@each_place
def test_a_step_may_be_in_a_branch(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run(limit):
        grads = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        if tf.linalg.global_norm(grads) < limit:
            scaler.step(optimizer, zip(grads, [variable]))
        scaler.update()

    for limit, value in (0.5, 1.0), (2.0, 0.0), (0.5, 0.0):
        run(tf.constant(limit))
        assert variable.numpy() == value


@each_place
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (["step"], r"step\(\) is called without scale\(\)"),
        (["scale", "unscale", "unscale"], r"SGD: unscale_\(\) was called for it"),
        (["scale", "step", "unscale"], r"SGD: unscale_\(\) is called after step\(\)"),
        (["scale", "step", "step"], r"SGD: step\(\) was called for it"),
        (["scale", "update"], r"update\(\) is called without step\(\)"),
        (["scale", "step", "update", "update"], r"update\(\) is called without step\(\)"),
    ],
)
def test_calls_in_a_wrong_order_are_refused(calls, message, place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()
    gradient = tf.constant(1.0)
    make = {
        "scale": lambda: scaler.scale(gradient),
        "unscale": lambda: scaler.unscale_(optimizer, [gradient]),
        "step": lambda: scaler.step(optimizer, [(gradient, variable)]),
        "update": scaler.update,
    }

    @place
    def run():
        for call in calls:
            make[call]()

    with pytest.raises((RuntimeError, tf.errors.InvalidArgumentError), match=message):
        run()


def test_compiled_by_xla_nothing_is_divided_or_adjusted_twice():
    """XLA drops the assertions that refuse calls out of order."""
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=1)

    @tf.function(jit_compile=True)
    def run():
        grads = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        grads = scaler.unscale_(optimizer, grads)
        scaler.step(optimizer, zip(grads, [variable]))
        scaler.update()
        scaler.update()

    run()
    assert variable.numpy() == 0.0
    assert scaler.get_scale().numpy() == 16.0


@each_place
def test_an_overflow_that_unscale_finds_counts_without_a_step(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable(growth_interval=1)

    @place
    def run(factor):
        scaler.unscale_(optimizer, [gradient_of(scaler, variable, factor)])
        scaler.update()

    for factor, scale in (np.inf, 4.0), (np.nan, 2.0), (1.0, 4.0):
        run(tf.constant(factor))
        assert scaler.get_scale().numpy() == scale


@each_place
def test_what_unscale_finds_infinite_is_not_applied_once_it_is_clipped(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        (grad,) = scaler.unscale_(optimizer, [gradient_of(scaler, variable, tf.constant(np.inf))])
        made = scaler.step(optimizer, [(tf.clip_by_value(grad, -1.0, 1.0), variable)])
        scaler.update()
        return made

    assert not run()
    assert variable.numpy() == 1.0


@each_place
def test_gradients_that_became_infinite_after_unscale_are_not_applied(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        (grad,) = scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        made = scaler.step(optimizer, [(grad / 0.0, variable)])
        scaler.update()
        return made

    assert not run()
    assert variable.numpy() == 1.0
    assert scaler.get_scale().numpy() == 4.0


@each_place
@pytest.mark.parametrize("in_branch", [False, True])
def test_who_forgets_what_unscale_returns_is_told(place, in_branch):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run(is_on):
        grads = [gradient_of(scaler, variable)]
        scaler.unscale_(optimizer, grads)
        if is_on or not in_branch:
            scaler.step(optimizer, zip(grads, [variable]))

    with pytest.raises(ValueError, match=r"the gradients that unscale_\(\) was given; pass on"):
        run(tf.constant(True) if in_branch else True)
    assert variable.numpy() == 1.0


@each_place
@pytest.mark.parametrize("call", ["unscale", "step"])
@pytest.mark.parametrize("scale_first", [False, True])
def test_gradients_of_the_loss_that_scale_was_given_are_refused(place, call, scale_first):
    """scale() is called outside of the tape's scope, or inside but its result is not used."""
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        with tf.GradientTape() as tape:
            loss = variable * 2.0
            if scale_first:
                scaler.scale(loss)
        gradient = tape.gradient(loss, variable)
        if not scale_first:
            scaler.scale(loss)
        if call == "unscale":
            scaler.unscale_(optimizer, [gradient])
        else:
            scaler.step(optimizer, [(gradient, variable)])

    with pytest.raises(ValueError, match=r"of the loss that scale\(\) was given, expected those"):
        run()
    assert variable.numpy() == 1.0


@each_place
def test_a_loss_scaled_outside_of_the_tape_has_no_gradients(place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        with tf.GradientTape() as tape:
            loss = variable * 2.0
        scaled = scaler.scale(loss)
        scaler.step(optimizer, [(tape.gradient(scaled, variable), variable)])

    with pytest.raises(ValueError, match=r"got None for every variable, .* scale\(loss\) inside"):
        run()


def by_a_persistent_tape(scaler, variable):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.square(variable)
        scaled = scaler.scale(loss)
    tape.gradient(loss, variable)  # to look at it
    return tape.gradient(scaled, variable)


def by_nested_tapes(scaler, variable):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = tf.square(variable)
        penalty = tf.stop_gradient(inner.gradient(loss, variable))
        scaled = scaler.scale(loss + 0.0 * penalty)
    return outer.gradient(scaled, variable)


def by_hand(scaler, variable):
    with tf.GradientTape() as tape:
        loss = tf.square(variable)
    scaler.scale(loss)
    return tape.gradient(loss, variable) * scaler.get_scale()


def by_output_gradients(scaler, variable):
    with tf.GradientTape() as tape:
        loss = tf.square(variable)
    scaler.scale(loss)
    return tape.gradient(loss, variable, output_gradients=scaler.get_scale())


def by_a_function(scaler, variable):
    with tf.GradientTape() as tape:
        scaled = tf.function(lambda: scaler.scale(tf.square(variable)))()
    return tape.gradient(scaled, variable)


def by_tf_gradients(scaler, variable):
    @tf.function
    def gradient():
        return tf.gradients(scaler.scale(tf.square(variable)), variable)[0]

    return gradient()


@each_place
@pytest.mark.parametrize(
    "gradient",
    [
        by_a_persistent_tape,
        by_nested_tapes,
        by_hand,
        by_output_gradients,
        by_a_function,
        by_tf_gradients,
    ],
)
def test_scaled_gradients_are_taken_however_they_were_made(gradient, place):
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @place
    def run():
        scaler.step(optimizer, [(gradient(scaler, variable), variable)])
        scaler.update()

    for expected in -1.0, 1.0:
        run()
        assert variable.numpy() == expected


def test_a_function_that_fails_when_traced_leaves_nothing_behind():
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    @tf.function
    def fails():
        scaler.unscale_(optimizer, [gradient_of(scaler, variable)])
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert scaler.step(optimizer, [(gradient_of(scaler, variable), variable)])


def test_graphs_are_not_kept():
    """Keras keeps the graphs that contain step(), as all graphs with its optimizers in a branch."""
    scaler, optimizer, variable = new_scaler_optimizer_and_variable()

    def traced():
        unscale = tf.function(lambda grad: scaler.unscale_(optimizer, [grad]))
        unscale(gradient_of(scaler, variable))
        scaler.update()
        return weakref.ref(unscale.get_concrete_function(tf.TensorSpec([])).graph)

    graphs = [traced() for _ in range(3)]
    gc.collect()
    assert [graph() for graph in graphs] == [None] * 3

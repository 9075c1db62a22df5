"""Runs a program under a contender; the result is an Outcome."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import npu_precision
from numerics import contender as contenders
from numerics.program import Graph, KerasTraining, Program, Result, Training

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a program.

    Attributes:
        values: the result, flat, or the last loss.
        start: the size of the first loss; zero for a result.
    """

    values: list[float]
    start: float = 0.0


class DoesNotApply(Exception):
    """The contender has no way to change this program, or XLA would compile no function of it."""


def run(program: Program, contender: str, compiled: bool = False, **options: object) -> Outcome:
    """Builds a program anew and runs it.

    Args:
        program: the program.
        contender: the name of the contender.
        compiled: whether XLA compiles it.
        **options: of our modes.

    Raises:
        DoesNotApply: the contender is Keras' policy, and the program is no Keras model; or it is a
            graph for a session, and is to be compiled.
    """
    tf.keras.utils.set_random_seed(1)
    with contenders.functions(contender, **options):
        form = _built(program)
        if contender == contenders.KERAS and not isinstance(form, KerasTraining):
            raise DoesNotApply
        if isinstance(form, Result):
            result = _function(form.function, compiled)(*map(tf.constant, form.inputs))
            return Outcome(_flat(result))
        if isinstance(form, Graph):
            if compiled:
                raise DoesNotApply
            return _graph(form, contender, options)
        return _trained(form, contender, compiled)


def _function(function: Callable[..., Any], compiled: bool) -> Any:
    return tf.function(function, jit_compile=True) if compiled else tf.function(function)


def _built(program: Program):
    """Builds the program; a Graph is built in a tf.Graph of its own, which its fetch keeps."""
    if program.room.startswith("v1"):
        with tf.Graph().as_default():
            return program.build()
    return program.build()


def _flat(result: tf.Tensor) -> list[float]:
    return [float(value) for value in np.ravel(np.asarray(result, np.float64))]


def _trained(form: Training | KerasTraining, contender: str, compiled: bool) -> Outcome:
    if isinstance(form, KerasTraining):
        model = form.model
        model(form.inputs)  # makes the variables
        _set_weights(model)
        variables = model.trainable_variables
        loss = lambda inputs, targets: form.loss(targets, model(inputs, training=True))  # noqa: E731
        inputs = (tf.constant(form.inputs), tf.constant(form.targets))
    else:
        variables = [tf.Variable(value) for value in form.variables]
        loss = functools.partial(form.loss, variables)
        inputs = tuple(map(tf.constant, form.inputs))
    optimizer = tf.keras.optimizers.Adam(form.rate)
    if hasattr(optimizer, "jit_compile"):  # Keras 2 compiles it by itself.
        optimizer.jit_compile = False
    optimizer.build(variables)
    scaler = npu_precision.GradScaler(enabled=contenders.scales_losses(contender))

    def step(*inputs):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(*inputs))
            scaled = scaler.scale(value)
        gradients = tape.gradient(scaled, variables)
        made = scaler.step(optimizer, list(zip(gradients, variables)))
        scaler.update()
        return value, made

    step_function = _function(step, compiled)
    return _steps(lambda: step_function(*inputs), form.steps)


def _steps(step, count: int) -> Outcome:
    """Makes `count` steps. Steps that loss scaling skips do not count, as float32 skips none."""
    losses, made = [], 0
    while made < count and len(losses) < 2 * count:
        value, was_made = step()
        losses.append(float(value))
        made += bool(was_made)
    # A loss that was NaN once is reported, whatever the later losses are.
    broken = [value for value in losses if not np.isfinite(value)]
    return Outcome([broken[0] if broken else losses[-1]], abs(losses[0]))


def _set_weights(model: tf.keras.Model) -> None:
    """Sets the same weights under every policy, none of them zero, so that biases matter."""
    random = np.random.default_rng(7)
    for variable in model.trainable_variables:
        shape = tuple(variable.shape)
        if len(shape) > 1:
            spread = 1 / np.sqrt(np.prod(shape[:-1]))
            variable.assign(random.normal(scale=spread, size=shape).astype(np.float32))


def _graph(form: Graph, contender: str, options: dict) -> Outcome:
    config = contenders.session_config(contender, **options)
    with form.fetch.graph.as_default(), tf1.Session(config=config) as session:
        if not form.steps:
            return Outcome(_flat(session.run(form.fetch, form.feeds)))
        optimizer = tf1.train.AdamOptimizer(form.rate)
        made = tf.constant(True)
        if contenders.scales_losses(contender):
            manager = npu_precision.ExponentialUpdateLossScaleManager(2**15, 1000)
            optimizer = npu_precision.NPULossScaleOptimizer(optimizer, manager)
        minimize = optimizer.minimize(form.fetch)
        if contenders.scales_losses(contender):
            made = form.fetch.graph.get_tensor_by_name("overflow_status_reduce_all:0")
        session.run(tf1.global_variables_initializer())

        def step():
            value, was_made, _ = session.run((form.fetch, made, minimize), form.feeds)
            return value, was_made

        return _steps(step, form.steps)

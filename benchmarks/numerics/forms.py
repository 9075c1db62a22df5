"""Forms that many programs of the corpus share: a layer before them, or a loop around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from numerics.program import Result, normal, program


def layer(function: Callable, *more: np.ndarray, rows: int = 64, outputs: int = 1) -> Result:
    """`function` of a product of 32 numbers a row, [rows, outputs], and of more inputs."""

    def whole(x, w, *rest):
        return function(tf.matmul(x, w), *rest)

    return Result(whole, [normal(0, rows, 32), normal(1, 32, outputs, scale=0.18), *more])


def of_network(name: str, outputs: int, *more: np.ndarray, tolerance: dict | None = None):
    """Decorator that adds the program of a function of a network's numbers between -1 and 1.

    Args:
        name: the name of the program.
        outputs: the network yields [64, outputs].
        more: further inputs of the function.
        tolerance: as for `program`.
    """

    def add(function):
        def build():
            return layer(lambda z, *rest: function(tf.tanh(z), *rest), *more, outputs=outputs)

        build.__module__ = function.__module__  # The room's.
        program(name, tolerance=tolerance)(build)
        return function

    return add


def loop(step: Callable, steps: int, state: np.ndarray, *rest: np.ndarray) -> Result:
    """The state after `step(state, i, *rest)` in tf.while_loop."""

    def function(state, *rest):
        body = lambda i, state: (i + 1, step(state, i, *rest))  # noqa: E731
        return tf.while_loop(lambda i, _: i < steps, body, (0, state))[1]

    return Result(function, [state, *rest])

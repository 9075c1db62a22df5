"""What was called for each optimizer since the last update(), in variables.

Not in Python's attributes: a tf.function is traced once and runs often, and one may be traced anew
at any time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

READY, UNSCALED, STEPPED = range(3)


class OptimizerRounds:
    """The round between two update()s, of all optimizers. Made in eager code.

    In no checkpoint, and not copied: what was called is no longer so after either.
    """

    def __init__(self) -> None:
        self._number = _variable(0, tf.int64, "round")
        self._has_checks = _variable(False, tf.bool, "has_checks")
        self._all_finite = _variable(True, tf.bool, "all_finite")
        self._of: dict[int, Round] = {}

    def __deepcopy__(self, memo: object) -> OptimizerRounds:
        return OptimizerRounds()

    def of(self, optimizer: Any) -> Round:
        """That of an optimizer."""
        if id(optimizer) not in self._of:
            with tf.init_scope():
                # The optimizer is kept, or another might get its id.
                self._of[id(optimizer)] = Round(self, optimizer)
        return self._of[id(optimizer)]

    def begin(self) -> None:
        """A new one, in which nothing has been called for any optimizer."""
        for one in self._of.values():
            one.forget()
        self._number.assign_add(1)
        self._has_checks.assign(False)
        self._all_finite.assign(True)

    def record(self, finite: tf.Tensor) -> None:
        """Gradients were checked."""
        self._has_checks.assign(True)
        self._all_finite.assign(tf.logical_and(self._all_finite, finite))

    def has_checks(self) -> tf.Tensor:
        """Whether any gradients were checked in this round."""
        return self._has_checks.read_value()

    def all_finite(self) -> tf.Tensor:
        """Whether all that were checked in this round are finite."""
        return self._all_finite.read_value()

    def number(self) -> tf.Tensor:
        """Counts the rounds."""
        return self._number.read_value()

    def expect_checks(self, message: str) -> Any:
        """Raises, or an op that does, if no gradients were checked."""
        return check(self.has_checks(), message)


class Round:
    """That of one optimizer."""

    def __init__(self, rounds: OptimizerRounds, optimizer: Any) -> None:
        self._rounds = rounds
        self._optimizer = optimizer
        self._number = _variable(-1, tf.int64, "optimizer_round")
        self._stage = _variable(READY, tf.int32, "stage")
        self._finite = _variable(True, tf.bool, "finite")
        self._given = GivenGradients()

    def remember(self, grads: Iterable[Any]) -> None:
        """This is what unscale_() is given, here."""
        self._given.remember(grads)

    def was_given(self, grads: Iterable[Any]) -> bool:
        """Whether unscale_() was given any of them, here."""
        return self._given.includes(grads, self.is_in(UNSCALED))

    def forget(self) -> None:
        """A new round begins."""
        self._given = GivenGradients()

    def is_in(self, stage: int) -> tf.Tensor:
        """Whether this is what was called last in this round."""
        is_now = tf.equal(self._number.read_value(), self._rounds.number())
        return tf.logical_and(is_now, tf.equal(self._stage.read_value(), stage))

    def was_finite(self) -> tf.Tensor:
        """What unscale_() found in this round; True without it."""
        return tf.logical_or(tf.logical_not(self.is_in(UNSCALED)), self._finite.read_value())

    def enter(self, stage: int, finite: tf.Tensor) -> None:
        """It is called, and has found its gradients finite or not."""
        self._number.assign(self._rounds.number())
        self._stage.assign(stage)
        self._finite.assign(finite)
        self._rounds.record(finite)

    def refuse(self, stage: int, message: str) -> Any:
        """Raises, or an op that does, if this was called last in this round."""
        message = f"{type(self._optimizer).__name__}: {message}"
        return check(tf.logical_not(self.is_in(stage)), message)


class GivenGradients:
    """Those that an unscaling was given, which are not those that it returned."""

    def __init__(self) -> None:
        self._given: tuple[Any, list[Any]] = (None, [])

    def remember(self, grads: Iterable[Any]) -> None:
        """It is given these, here."""
        self._given = (_place(), [weakref.ref(grad) for grad in grads if grad is not None])

    def includes(self, grads: Iterable[Any], is_unscaled: tf.Tensor) -> bool:
        """Whether it was given any of these, here, and `is_unscaled` still holds."""
        place, given = self._given
        # A step in a tf.function does not make it forget.
        is_over = tf.executing_eagerly() and not is_unscaled
        known = [] if is_over or place not in _places() else [reference() for reference in given]
        return any(grad is one for grad in grads if grad is not None for one in known)


def _place() -> Any:
    """What stands for the graph that is built, and keeps none."""
    return None if tf.executing_eagerly() else weakref.ref(tf.compat.v1.get_default_graph())


def _places() -> list[Any]:
    """That, and what stands for the graphs around it, where it is that of a branch or a loop."""
    places, graph = [_place()], tf.compat.v1.get_default_graph()
    while places[0] is not None and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
        places.append(weakref.ref(graph))
    return places


def check(is_right: tf.Tensor, message: str) -> Any:
    """Raises, or an op that does, with the message, unless it is right."""
    if tf.executing_eagerly():
        if not is_right:
            raise RuntimeError(message)
        return tf.no_op()
    return tf.debugging.Assert(is_right, [message])


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)

"""The stages of call_order in variables: for eager code and tf.functions, traced once, run often.

A Python attribute would hold what was traced last, not what ran last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling.call_order import Calls, Stage
from npu_precision.loss_scaling.given_gradients import GivenGradients


class Rounds:
    """The stages of all subjects, which are optimizers or losses, since the last update.

    Make it in eager code. It is in no checkpoint, and a copy begins a new round: after either, the
    calls of the round are no longer true.

    Args:
        calls: one of the tables of call_order.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._number = _variable(0, tf.int64, "round")
        self._has_checks = _variable(False, tf.bool, "has_checks")
        self._all_finite = _variable(True, tf.bool, "all_finite")
        self._of: dict[int, Round] = {}

    def __deepcopy__(self, memo: object) -> Rounds:
        return Rounds(self.calls)

    def of(self, subject: Any, name: str) -> Round:
        """The round of one subject, which errors call by this name."""
        if id(subject) not in self._of:
            with tf.init_scope():
                self._of[id(subject)] = Round(self, subject, name)
        return self._of[id(subject)]

    def begin(self) -> None:
        """Begins a new round, in which every subject is READY.

        A subject compares the number of its round, since a traced update() does not know the
        subjects that come after it.
        """
        for one in self._of.values():
            one.given = GivenGradients()
        self._number.assign_add(1)
        self._has_checks.assign(False)
        self._all_finite.assign(True)

    def record(self, finite: tf.Tensor) -> None:
        """Records whether gradients that were checked are finite."""
        self._has_checks.assign(True)
        self._all_finite.assign(tf.logical_and(self._all_finite, finite))

    def has_checks(self) -> tf.Tensor:
        """Whether any gradients were checked in this round."""
        return self._has_checks.read_value()

    def all_finite(self) -> tf.Tensor:
        """Whether all gradients that were checked in this round are finite."""
        return self._all_finite.read_value()

    def number(self) -> tf.Tensor:
        """The number of this round."""
        return self._number.read_value()

    def in_order(self, call: str) -> list[Any]:
        """As Round.in_order(), for a call that takes all subjects at once."""
        return [check(self.has_checks(), self.calls[call].refused_in[Stage.READY])]


class Round:
    """The stage of one subject.

    Attributes:
        given: the gradients that its last unscaling was given.
        scale: what its loss was multiplied by, where the scale may change before the step.
    """

    def __init__(self, rounds: Rounds, subject: Any, name: str) -> None:
        self._rounds = rounds
        self._subject = subject  # kept alive, or another object might get its id
        self._name = name
        self._number = _variable(-1, tf.int64, "round_of_stage")
        self._stage = _variable(int(Stage.READY), tf.int32, "stage")
        self._finite = _variable(True, tf.bool, "finite")
        self.scale = _variable(1.0, tf.float32, "used_scale")
        self.given = GivenGradients()

    def is_in(self, stage: Stage) -> tf.Tensor:
        """Whether it is in this stage; a scalar bool tensor."""
        has_calls = tf.equal(self._number.read_value(), self._rounds.number())
        if stage is Stage.READY:
            return tf.logical_not(has_calls)
        return tf.logical_and(has_calls, tf.equal(self._stage.read_value(), int(stage)))

    def was_finite(self) -> tf.Tensor:
        """Whether all its gradients that were checked in this round are finite."""
        return tf.logical_or(self.is_in(Stage.READY), self._finite.read_value())

    def was_given(self, grads: Iterable[Any]) -> bool:
        """Whether its unscaling in this round was given any of these, and did not return them."""
        return self.given.includes(grads, self.is_in(Stage.UNSCALED))

    def in_order(self, call: str) -> list[Any]:
        """Raises RuntimeError if the call is out of order; in a graph, the ops that raise."""
        return [
            check(tf.logical_not(self.is_in(stage)), text.format(subject=self._name))
            for stage, text in self._rounds.calls[call].refused_in.items()
        ]

    def enter(self, call: str, finite: tf.Tensor | None = None) -> tf.Tensor:
        """Records the call, and whether its gradients are finite; returns was_finite()."""
        all_finite = self.was_finite()
        if finite is not None:
            all_finite = tf.logical_and(all_finite, finite)
            self._rounds.record(finite)
        self._number.assign(self._rounds.number())
        self._stage.assign(int(self._rounds.calls[call].leads_to))
        self._finite.assign(all_finite)
        return all_finite


def check(is_right: tf.Tensor, message: str) -> Any:
    """Raises RuntimeError with the message unless is_right; in a graph, the op that raises."""
    if tf.executing_eagerly():
        if not is_right:
            raise RuntimeError(message)
        return tf.no_op()
    return tf.debugging.Assert(is_right, [message])


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)

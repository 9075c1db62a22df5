"""The stages of call_order in variables: a tf.function is traced once, and its calls run often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling import replicas
from npu_precision.loss_scaling.call_order import Stage, Table
from npu_precision.loss_scaling.given_gradients import GivenGradients


class Rounds:
    """The round between two updates, and the stages in it of all subjects: optimizers or losses.

    Make it in eager code. No checkpoint holds it, and a copy begins a new round. What changes it,
    or checks whether it may be changed, is called once for all replicas of a strategy.

    Args:
        table: a table of call_order.

    Attributes:
        number: counts the rounds. A subject compares it with the number of its stage, since an
            update() that was traced earlier cannot reset the subject.
        has_checks: whether any gradients were checked in this round.
        all_finite: whether all of them are finite.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.number = _variable(0, tf.int64, "round")
        self.has_checks = _variable(False, tf.bool, "has_checks")
        self.all_finite = _variable(True, tf.bool, "all_finite")
        self._of: dict[int, Round] = {}

    def __deepcopy__(self, memo: object) -> Rounds:
        return Rounds(self.table)

    def of(self, subject: Any, name: str) -> Round:
        """The round of one subject, which errors call by this name."""
        if id(subject) not in self._of:
            replicas.once(lambda: self._make(subject, name))
        return self._of[id(subject)]

    def _make(self, subject: Any, name: str) -> None:
        with tf.init_scope():
            self._of[id(subject)] = Round(self, subject, name)

    def begin(self) -> None:
        """Begins a new round, in which every subject is READY."""
        for one in self._of.values():
            one.given = GivenGradients()
        self.number.assign_add(1)
        self.has_checks.assign(False)
        self.all_finite.assign(True)

    def may_end(self) -> list[Any]:
        """Checks, as Round.may_enter() does, that gradients of any subject were checked."""
        return [check(self.has_checks.read_value(), self.table[Stage.READY][Stage.READY])]


class Round:
    """The stage of one subject.

    Attributes:
        given: the gradients that its last unscaling was given.
        scale: what its loss was multiplied by, for where the scale may change before the step.
    """

    def __init__(self, rounds: Rounds, subject: Any, name: str) -> None:
        self._rounds = rounds
        self._subject = subject  # kept alive, or another object might get its id
        self._name = name
        self._number = _variable(-1, tf.int64, "round_of_stage")
        self._stage = _variable(int(Stage.READY), tf.int64, "stage")
        self._finite = _variable(True, tf.bool, "finite")
        self.scale = _variable(1.0, tf.float32, "used_scale")
        self.given = GivenGradients()

    def is_in(self, stage: Stage) -> tf.Tensor:
        """Whether it is in this stage, a scalar bool tensor."""
        has_calls = tf.equal(self._number.read_value(), self._rounds.number.read_value())
        if stage is Stage.READY:
            return tf.logical_not(has_calls)
        return tf.logical_and(has_calls, tf.equal(self._stage.read_value(), int(stage)))

    def was_finite(self) -> tf.Tensor:
        """Whether all its gradients that were checked in this round are finite."""
        return tf.logical_or(self.is_in(Stage.READY), self._finite.read_value())

    def was_given(self, grads: Iterable[Any]) -> bool:
        """Whether unscaling was the last call and was given any of these."""
        return self.given.includes(grads, self.is_in(Stage.UNSCALED))

    def may_enter(self, stage: Stage) -> list[Any]:
        """Raises RuntimeError if the call is out of order; in a graph, returns ops that raise."""
        return [
            check(tf.logical_not(self.is_in(refusing)), text.format(subject=self._name))
            for refusing, text in self._rounds.table[stage].items()
        ]

    def enter(self, stage: Stage, finite: tf.Tensor | None = None) -> tf.Tensor:
        """Records a call, and whether its gradients are finite; returns was_finite()."""
        rounds, all_finite = self._rounds, self.was_finite()
        if finite is not None:
            all_finite = tf.logical_and(all_finite, finite)
            rounds.has_checks.assign(True)
            rounds.all_finite.assign(tf.logical_and(rounds.all_finite, finite))
        self._number.assign(rounds.number.read_value())
        self._stage.assign(int(stage))
        self._finite.assign(all_finite)
        return all_finite


def check(is_right: tf.Tensor, message: str) -> Any:
    """Raises RuntimeError unless is_right; in a graph, returns the op that raises."""
    if tf.executing_eagerly():
        if not is_right:
            raise RuntimeError(message)
        return tf.no_op()
    return tf.debugging.Assert(is_right, [message])


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)

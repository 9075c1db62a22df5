"""Checks the order of calls, by a table of stages and errors for each API.

Variables hold the stages: a tf.function is traced once, and its calls run often.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Dict

import tensorflow as tf

from npu_precision.loss_scaling import replicas
from npu_precision.loss_scaling.arguments import GivenGradients


class Stage(enum.IntEnum):
    """The last call for an optimizer or a loss in a round; update() begins a new round."""

    READY = 0  # update
    SCALED = 1
    UNSCALED = 2
    STEPPED = 3


# By the stage that a call leads to: the stages that refuse the call, each with its error.
Refusals = Dict[Stage, str]
Table = Dict[Stage, Refusals]

# GradScaler, per optimizer. scale() is for all optimizers, so none is ever SCALED. update() checks
# the whole round, which is READY until gradients of any optimizer are checked.
GRAD_SCALER: Table = {
    Stage.UNSCALED: {
        Stage.UNSCALED: "{subject}: unscale_() was called for it since the last update(), expected "
        "step() next: go on with the gradients that the first call returned",
        Stage.STEPPED: "{subject}: unscale_() is called after step(), expected before it: call "
        "update() to begin the next step",
    },
    Stage.STEPPED: {
        Stage.STEPPED: "{subject}: step() was called for it since the last update(), expected one "
        "step() per optimizer: call update() to begin the next step",
    },
    Stage.READY: {
        Stage.READY: "update() is called without step() since the last one, expected step() or "
        "unscale_() before it: call it once, after the steps of all optimizers",
    },
}
STEP_WITHOUT_SCALE = (
    "step() is called without scale(), expected the gradients of a scaled loss: take them of what "
    "scale(loss) returns"
)

# amp with an optimizer of Keras, per loss. apply_gradients() takes all losses that are UNSCALED,
# or the only one that is SCALED; then it begins a new round.
_NOT_SCALED = (
    "{subject}: unscale_gradients() is called without scale_loss(), expected the gradients of a "
    "loss that was scaled since: call scale_loss() once before each unscale_gradients()"
)
AMP_KERAS: Table = {
    Stage.SCALED: {},
    Stage.UNSCALED: {Stage.READY: _NOT_SCALED, Stage.UNSCALED: _NOT_SCALED},
}
AMP_KERAS_STEP = (
    "{subject}: got the gradients of no scaled loss, or of several, expected those of one that "
    "scale_loss() scaled; of several, call unscale_gradients() for each; a penalty on gradients is "
    "a loss with a loss_id of its own"
)

# amp with an optimizer of TF1, per loss and graph; each call looks at all losses.
# compute_gradients() of a plain loss scales and unscales by itself, so it has no stage.
AMP_SESSION_PLAIN_LOSS: Refusals = {
    Stage.SCALED: "loss: scale_loss() was called, and this is not what it gave: minimize that, as "
    "it is; of several, add up the gradients that compute_gradients() gives for each",
}
AMP_SESSION_STEP: Refusals = {
    Stage.SCALED: "grads_and_vars: the gradients of {subject} are still scaled: take them by "
    "compute_gradients(scaled_loss), or call amp.unscale_gradients()",
}

SCALED_AFTER_UNSCALING = (
    "grads_and_vars: got the gradients that {call}() was given; pass on those that it returned"
)


def check_losses(refusals: Refusals, stages: Mapping[int, Stage]) -> None:
    """Raises ValueError if the stage of a loss, by its loss_id, refuses a call."""
    for loss_id, stage in sorted(stages.items()):
        if stage in refusals:
            raise ValueError(refusals[stage].format(subject=f"loss {loss_id}"))


class Rounds:
    """The round between two updates, with the stages of all subjects, which are optimizers or
    losses.

    Make it in eager code. It is not in checkpoints, and a copy begins a new round. Methods that
    change it, or check whether it may change, are called once for all replicas of a strategy.

    Args:
        table: GRAD_SCALER or AMP_KERAS.

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
        """The round of one subject; errors use this name."""
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
        given: the gradients that were passed to its last unscaling.
        scale: the factor of its loss, because the scale may change before the step.
    """

    def __init__(self, rounds: Rounds, subject: Any, name: str) -> None:
        self._rounds = rounds
        self._subject = subject  # kept alive, so that no other object gets its id
        self._name = name
        self._number = _variable(-1, tf.int64, "round_of_stage")
        self._stage = _variable(int(Stage.READY), tf.int64, "stage")
        self._finite = _variable(True, tf.bool, "finite")
        self.scale = _variable(1.0, tf.float32, "used_scale")
        self.given = GivenGradients()

    def is_in(self, stage: Stage) -> tf.Tensor:
        """Whether the subject is in this stage, a scalar bool tensor."""
        has_calls = tf.equal(self._number.read_value(), self._rounds.number.read_value())
        if stage is Stage.READY:
            return tf.logical_not(has_calls)
        return tf.logical_and(has_calls, tf.equal(self._stage.read_value(), int(stage)))

    def was_finite(self) -> tf.Tensor:
        """Whether all gradients of the subject that were checked in this round are finite."""
        return tf.logical_or(self.is_in(Stage.READY), self._finite.read_value())

    def was_given(self, grads: Iterable[Any]) -> bool:
        """Whether unscaling was the last call, and got any of these gradients."""
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

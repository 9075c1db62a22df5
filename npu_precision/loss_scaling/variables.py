"""The state of a loss scale in variables, for graphs, tf.functions and eager code alike."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _errors, scope
from npu_precision.loss_scaling import strategies
from npu_precision.loss_scaling.strategies import LossScaleState

tf1 = tf.compat.v1

# Scripts fetch it by this name.
_FETCHED = "loss_scale"
_IN_A_GRAPH = "no loss was scaled in eager code: if one is in a graph, give the session that has it"
# Of a graph, which is what keeps its variables alive.
_ATTRIBUTE = "_npu_precision_loss_scales"


@dataclasses.dataclass(frozen=True)
class _Made:
    """What was made in a graph, or for eager code.

    Attributes:
        state: the variables, or constants where the strategy adjusts nothing.
        fetched: the scale as scripts fetch it; None where there are no fetches.
        lock: held while the state is adjusted, where steps may run at the same time.
    """

    state: LossScaleState
    fetched: tf.Tensor | None
    lock: Any


class LossScaleVariables(tf.Module):
    """What a strategy changes, in variables of the graph that is built; saved in checkpoints.

    Args:
        strategy: one of npu_precision.loss_scaling.strategies.
    """

    def __init__(self, strategy: Any) -> None:
        super().__init__()
        self.strategy = strategy
        self._eager: _Made | None = None

    def scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        scale = self._here().state.scale
        with scope.keep_dtype_scope():
            if self.strategy.adjusts:
                return tf.identity(scale)
            # Grappler would divide by a constant by its reciprocal, which may be zero.
            return tf1.placeholder_with_default(scale, [])

    def update(self, all_finite: tf.Tensor) -> tf.Operation | None:
        """Makes the state that of the next step; the op that does so, or None if it is done."""
        if not self.strategy.adjusts:
            return tf.group()
        made = self._here()

        def adjust() -> tf.Tensor:
            with scope.keep_dtype_scope():
                return self._adjust(made, all_finite)

        if made.lock is None or tf.distribute.has_strategy():
            return tf.group(adjust())
        # Two optimizers that share this may make their steps in one run of a session.
        return made.lock.execute(adjust).op

    def _adjust(self, made: _Made, all_finite: tf.Tensor) -> tf.Tensor:
        before = LossScaleState(*(variable.read_value() for variable in made.state))
        after = self.strategy.adjust(before, all_finite)
        # Who fetches the scale with a step gets that of the step.
        is_here = made.fetched is not None and made.fetched.graph is tf1.get_default_graph()
        with tf.control_dependencies([*before, *([made.fetched] if is_here else [])]):
            assigned = [v.assign(value) for v, value in zip(made.state, after)]
        with tf.control_dependencies([tf.group(*assigned)]):
            return tf.identity(after.scale)

    def numbers(self, session: Any = None) -> LossScaleState:
        """The state in Python's numbers: of eager code, or as a session has it.

        Raises:
            RuntimeError: nothing was scaled there.
        """
        if session is None:
            if self._eager is None:
                raise RuntimeError(_IN_A_GRAPH)
            state = self._here().state
            return LossScaleState(*(tf.convert_to_tensor(v).numpy().item() for v in state))
        return LossScaleState(*(value.item() for value in session.run(tuple(self._in(session)))))

    def is_in(self, session: Any) -> bool:
        """Whether a loss has this scale in the session's graph."""
        return self in getattr(session.graph, _ATTRIBUTE, {})

    def find(self, session: Any = None) -> None:
        """Raises RuntimeError where set() would find nothing to set."""
        if self.strategy.adjusts and session is not None:
            self._in(session)
        elif self.strategy.adjusts and self._eager is None:
            raise RuntimeError(_IN_A_GRAPH)

    def _in(self, session: Any) -> LossScaleState:
        if not self.is_in(session):
            raise RuntimeError("no loss has this scale in the session's graph")
        return getattr(session.graph, _ATTRIBUTE)[self].state

    def set_scale(self, name: str, scale: Any) -> None:
        """Sets the scale; for eager code and tf.functions.

        Raises:
            ValueError: it is fixed, or not between the least and the largest.
        """
        if not self.strategy.adjusts:
            raise ValueError(f"{name}: got {_errors.got(scale)}, and the scale is fixed")
        if not tf.is_tensor(scale) or tf.executing_eagerly():
            self._check_scale(name, scale.numpy().item() if tf.is_tensor(scale) else scale)
        scale, variable = tf.cast(scale, tf.float32), self._here().state.scale
        least, largest = self.strategy.min_scale, self.strategy.max_scale
        is_right = tf.logical_and(scale >= least, scale <= largest)  # a NaN is not
        text = f"{name}: expected a number from {least} to {largest}, got"
        with tf.control_dependencies([tf.debugging.Assert(is_right, [text, scale])]):
            # XLA drops the assertion.
            variable.assign(tf.where(is_right, scale, variable.read_value()))

    def check(self, state: LossScaleState) -> None:
        """Raises ValueError if a number is none that the strategy comes to."""
        if not self.strategy.adjusts:
            return
        self._check_scale("scale", state.scale)
        strategies.check_below("_growth_tracker", state.good_steps, self.strategy.growth_interval)
        strategies.check_below("_hysteresis_tracker", state.bad_steps, self.strategy.hysteresis)

    def set(self, state: LossScaleState, session: Any = None) -> None:
        """Sets all that is adjusted: of eager code, or of a session.

        Raises:
            ValueError: a number is none that the strategy comes to; nothing is set then.
            RuntimeError: nothing was scaled in the session's graph.
        """
        self.check(state)
        if not self.strategy.adjusts:
            return
        for variable, value in zip(
            self._here().state if session is None else self._in(session), state
        ):
            if session is None:
                variable.assign(value)
            else:
                # An assignment of another value would be an op more in the graph.
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})

    def _check_scale(self, name: str, scale: Any) -> None:
        strategies.check_scale(name, scale)
        least, largest = self.strategy.min_scale, self.strategy.max_scale
        if not np.float32(least) <= np.float32(scale) <= np.float32(largest):
            raise ValueError(f"{name}: got {scale!r}, expected a number from {least} to {largest}")

    def _here(self) -> _Made:
        # Out of name scopes, loops, branches, control dependencies and tf.functions.
        with tf.init_scope():
            if tf.executing_eagerly():
                if self._eager is None:
                    self._eager = self._make()
                return self._eager
            graph = tf1.get_default_graph()
            if not hasattr(graph, _ATTRIBUTE):
                setattr(graph, _ATTRIBUTE, weakref.WeakKeyDictionary())
            made = getattr(graph, _ATTRIBUTE)
            if self not in made:
                with tf1.name_scope(None):
                    made[self] = self._make()
            return made[self]

    def _make(self) -> _Made:
        initial = self.strategy.initial()
        if not self.strategy.adjusts:
            # A checkpoint must not bring back a fixed scale of an earlier run.
            scale = tf.constant(initial.scale, tf.float32, name=_FETCHED)
            return _Made(initial._replace(scale=scale), scale, None)
        # As attributes tf.train.Checkpoint finds them.
        self.current_loss_scale = _variable(initial.scale, tf.float32, "current_loss_scale")
        self.good_steps = _variable(initial.good_steps, tf.int32, "good_steps")
        self.bad_steps = _variable(initial.bad_steps, tf.int32, "bad_steps")
        state = LossScaleState(self.current_loss_scale, self.good_steps, self.bad_steps)
        if tf.executing_eagerly():
            return _Made(state, None, None)
        with scope.keep_dtype_scope():
            fetched = tf.identity(self.current_loss_scale, name=_FETCHED)
        return _Made(state, fetched, tf.CriticalSection(name="loss_scale_lock"))


def _variable(value: float, dtype: tf.DType, name: str) -> tf.Variable:
    return tf1.Variable(tf.constant(value, dtype), trainable=False, name=name, use_resource=True)

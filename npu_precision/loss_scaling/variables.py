"""Variables for the state and the growth of a loss scale, and a lock for a graph's steps."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _errors, _tf_compat, scope
from npu_precision.loss_scaling import strategies
from npu_precision.loss_scaling.strategies import Growth, LossScaleState

tf1 = tf.compat.v1

# Scripts fetch it by this name.
_FETCHED = "loss_scale"
_IN_A_GRAPH = "no loss was scaled in eager code: if one is in a graph, give the session that has it"
_FINALIZED = (
    "the graph is finalized, and nothing in it has this loss scale: before the session, make the "
    "training step with the manager, or call get_loss_scale()"
)
# An attribute of a graph: a map from LossScaleVariables to their variables, which it keeps alive.
_ATTRIBUTE = "_npu_precision_loss_scales"


@dataclasses.dataclass(frozen=True)
class _Made:
    """The tensors of one graph, or of eager code.

    Attributes:
        state: variables, or constants if the strategy adjusts nothing.
        fetched: the scale that scripts fetch by its name; None in eager code.
        shared: the scale for all ops that need no read of their own; None in eager code.
        lock: held while the state is adjusted, if steps may run at the same time; else None.
    """

    state: LossScaleState
    fetched: tf.Tensor | None
    shared: tf.Tensor | None
    lock: _Lock | None


class LossScaleVariables(tf.Module):
    """The state of a strategy, in variables that checkpoints save.

    Args:
        strategy: an instance of a class of npu_precision.loss_scaling.strategies.
        growth: replaces the strategy's growth(), for code that may change it.
    """

    def __init__(self, strategy: Any, growth: GrowthVariables | None = None) -> None:
        super().__init__()
        self.strategy = strategy
        self._growth = growth
        self._eager: _Made | None = None

    def scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor.

        In the graph of a session it is one tensor, since the graph may be finalized. Where ops have
        an order, as in a loop or under control dependencies, each call reads the scale anew.

        Raises:
            RuntimeError: the graph is finalized, and nothing in it has this scale.
        """
        made = self._here()
        if made.shared is not None and _tf_compat.adds_unordered_ops_to(made.shared.graph):
            return made.shared
        return self._read(made.state.scale)

    def _read(self, scale: Any) -> tf.Tensor:
        with scope.keep_dtype_scope():
            if self.strategy.adjusts:
                return tf.identity(scale)
            # Grappler would replace division by a constant with its reciprocal, which may be zero.
            return tf1.placeholder_with_default(scale, [])

    def update(self, all_finite: tf.Tensor) -> tf.Operation | None:
        """Adjusts the state after a step; returns the op that does so, or None in eager code."""
        if not self.strategy.adjusts:
            return tf.group()
        made = self._here()

        def adjust() -> tf.Tensor:
            with scope.keep_dtype_scope():
                return self._adjust(made, all_finite)

        if made.lock is None:
            return tf.group(adjust())
        # Two optimizers that share the scale may step in one run of a session.
        return made.lock.execute(adjust).op

    def _adjust(self, made: _Made, all_finite: tf.Tensor) -> tf.Tensor:
        before = LossScaleState(*(variable.read_value() for variable in made.state))
        growth = None if self._growth is None else self._growth.tensors()
        after = self.strategy.adjust(before, all_finite, growth)
        # A fetch of the scale together with a step gives the scale of the step.
        is_here = made.fetched is not None and made.fetched.graph is tf1.get_default_graph()
        with tf.control_dependencies([*before, *([made.fetched] if is_here else [])]):
            assigned = [v.assign(value) for v, value in zip(made.state, after)]
        with tf.control_dependencies([tf.group(*assigned)]):
            return tf.identity(after.scale)

    def numbers(self, session: Any = None) -> LossScaleState:
        """The state as Python numbers, of eager code or of a session.

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

    def _in(self, session: Any) -> LossScaleState:
        if not self.is_in(session):
            raise RuntimeError("no loss has this scale in the session's graph")
        return getattr(session.graph, _ATTRIBUTE)[self].state

    def set_scale(self, name: str, scale: Any) -> None:
        """Sets the scale, in eager code or a tf.function.

        Raises:
            ValueError: the scale is fixed, or not between the least and the largest.
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
            # XLA drops the assertion; then the scale is unchanged.
            variable.assign(_tf_compat.where(is_right, scale, variable.read_value()))

    def check(self, state: LossScaleState, session: Any = None) -> None:
        """Raises the errors of set(), and sets nothing."""
        if not self.strategy.adjusts:
            return
        self._check_scale("scale", state.scale)
        last_good, last_bad = self.strategy.growth_interval - 1, self.strategy.hysteresis - 1
        if self._growth is not None:  # the interval may have been longer
            last_good = strategies.LARGEST_COUNT - 1
        strategies.check_whole("_growth_tracker", state.good_steps, 0, last_good)
        strategies.check_whole("_hysteresis_tracker", state.bad_steps, 0, last_bad)
        if session is not None:
            self._in(session)
        elif self._eager is None:
            raise RuntimeError(_IN_A_GRAPH)

    def set(self, state: LossScaleState, session: Any = None) -> None:
        """Sets the whole state, of eager code or of a session; a fixed scale stays.

        Raises:
            ValueError: the strategy cannot reach a number of this state.
            RuntimeError: nothing was scaled in eager code, or in the session's graph.
        """
        self.check(state, session)
        if not self.strategy.adjusts:
            return
        for variable, value in zip(
            self._here().state if session is None else self._in(session), state
        ):
            if session is None:
                variable.assign(value)
            else:
                # Feeds the initializer, since an assignment would add an op to the graph.
                session.run(variable.initializer, {variable.initializer.inputs[1]: value})

    def _check_scale(self, name: str, scale: Any) -> None:
        strategies.check_scale(name, scale)
        least, largest = self.strategy.min_scale, self.strategy.max_scale
        if not np.float32(least) <= np.float32(scale) <= np.float32(largest):
            raise ValueError(f"{name}: got {scale!r}, expected a number from {least} to {largest}")

    def _here(self) -> _Made:
        # Leaves name scopes, loops, branches, control dependencies and tf.functions.
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
                if graph.finalized:
                    raise RuntimeError(_FINALIZED)
                with tf1.name_scope(None):
                    made[self] = self._make()
            return made[self]

    def _make(self) -> _Made:
        initial = self.strategy.initial()
        if not self.strategy.adjusts:
            # Not a variable: a checkpoint must not restore a fixed scale of an earlier run.
            scale = tf.constant(initial.scale, tf.float32, name=_FETCHED)
            shared = None if tf.executing_eagerly() else self._read(scale)
            return _Made(initial._replace(scale=scale), scale, shared, None)
        # tf.train.Checkpoint finds them as attributes.
        self.current_loss_scale = _variable(initial.scale, tf.float32, "current_loss_scale")
        self.good_steps = _variable(initial.good_steps, tf.int32, "good_steps")
        self.bad_steps = _variable(initial.bad_steps, tf.int32, "bad_steps")
        state = LossScaleState(self.current_loss_scale, self.good_steps, self.bad_steps)
        if tf.executing_eagerly():
            return _Made(state, None, None, None)
        with scope.keep_dtype_scope():
            fetched = tf.identity(self.current_loss_scale, name=_FETCHED)
        return _Made(state, fetched, fetched, _Lock("loss_scale_lock"))


def _variable(value: float, dtype: tf.DType, name: str) -> tf.Variable:
    return tf1.Variable(tf.constant(value, dtype), trainable=False, name=name, use_resource=True)


class GrowthVariables(tf.Module):
    """growth_factor, backoff_factor and growth_interval of a DynamicLossScale, which may change.

    Checkpoints save them. Make it in eager code.

    Args:
        strategy: the DynamicLossScale whose numbers they begin with.
    """

    def __init__(self, strategy: strategies.DynamicLossScale) -> None:
        super().__init__()
        initial = strategy.growth()
        # float64, since Python's floats come back as they were.
        self.growth_factor = _growth_variable(initial.growth_factor, tf.float64, "growth_factor")
        self.backoff_factor = _growth_variable(initial.backoff_factor, tf.float64, "backoff_factor")
        self.growth_interval = _growth_variable(
            initial.growth_interval, tf.int32, "growth_interval"
        )

    def tensors(self) -> Growth:
        """The numbers as scalar tensors: float32, float32 and int32."""
        return Growth(
            tf.cast(self.growth_factor.read_value(), tf.float32),
            tf.cast(self.backoff_factor.read_value(), tf.float32),
            self.growth_interval.read_value(),
        )

    def numbers(self) -> Growth:
        """The numbers as Python numbers, in eager code."""
        return Growth(*(tf.convert_to_tensor(one).numpy().item() for one in self._variables()))

    def set(self, growth: Growth) -> None:
        """Sets all numbers, in eager code.

        Raises:
            ValueError: one is out of its range; then none is set.
        """
        strategies.check_all_growth(growth)
        for variable, value in zip(self._variables(), growth):
            variable.assign(value)

    def _variables(self) -> Growth:
        return Growth(self.growth_factor, self.backoff_factor, self.growth_interval)


def _growth_variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, False, dtype=dtype, name=name)


class _Lock:
    """A lock for steps in a graph: the ops of one execute() run alone if several run at once.

    Unlike tf.CriticalSection, it supports variables with a copy per replica, and adds nothing to
    the graph that a meta graph cannot hold.
    """

    def __init__(self, name: str) -> None:
        self._mutex = tf.raw_ops.MutexV2(container="", shared_name="", name=name)

    def execute(self, build: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Builds ops that run while the lock is held; returns their result.

        Args:
            build: builds the ops; its result must depend on all of them.
        """
        held = tf.raw_ops.MutexLock(mutex=self._mutex)
        with tf.control_dependencies([held]):
            result = build()
        # Holds the lock until then.
        with tf.control_dependencies([result]):
            release = tf.raw_ops.ConsumeMutexLock(mutex_lock=held)
        with tf.control_dependencies([release]):
            return tf.identity(result)

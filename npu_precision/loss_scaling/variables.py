"""The state of a loss scale in variables, for graphs, tf.functions and eager code alike."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling.strategies import LossScaleState


class LossScaleVariables(tf.Module):
    """What a strategy changes, in variables of the graph that is built; saved in checkpoints.

    Args:
        strategy: from npu_precision.loss_scaling.strategies.
    """

    def __init__(self, strategy: Any) -> None:
        super().__init__()
        self.strategy = strategy
        self._eager = _Eager()
        self._by_graph: Any = weakref.WeakKeyDictionary()

    def read(self) -> LossScaleState:
        """The state as tensors."""
        return LossScaleState(*map(tf.convert_to_tensor, self.variables_here()))

    def scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        return tf.convert_to_tensor(self.variables_here().scale)

    def update(self, all_finite: tf.Tensor) -> tf.Operation | None:
        """Makes the state that of the next step; the op that does so, or None if it is done."""
        return self.assign(self.strategy.adjust(self.read(), all_finite))

    def assign(self, state: LossScaleState) -> tf.Operation | None:
        """Sets the state; the op that does so, or None if it is done. A fixed scale stays."""
        if not self.strategy.adjusts:
            return tf.group()
        pairs = zip(self.variables_here(), state)
        return tf.group(*[variable.assign(value) for variable, value in pairs])

    def variables_here(self) -> LossScaleState:
        """The variables of the graph that is built, or those of eager code and tf.functions."""
        # Out of name scopes, loops, branches, control dependencies and tf.functions.
        with tf.init_scope():
            is_eager = tf.executing_eagerly()
            graph = self._eager if is_eager else tf.compat.v1.get_default_graph()
            if graph not in self._by_graph:
                with tf.compat.v1.name_scope(None):
                    initial = self.strategy.initial()
                    # A checkpoint must not bring back a fixed scale of an earlier run.
                    make = _variable if self.strategy.adjusts else _constant
                    # As attributes tf.train.Checkpoint finds them.
                    self.loss_scale = make(initial.scale, tf.float32, "loss_scale")
                    self.good_steps = make(initial.good_steps, tf.int32, "good_steps")
                    self.bad_steps = make(initial.bad_steps, tf.int32, "bad_steps")
                self._by_graph[graph] = (self.loss_scale, self.good_steps, self.bad_steps)
        return LossScaleState(*self._by_graph[graph])


class _Eager:
    """Stands for the graph where there is none."""


def _constant(value: float, dtype: tf.DType, name: str) -> tf.Tensor:
    return tf.constant(value, dtype, name=name)


def _variable(value: float, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.compat.v1.Variable(
        tf.constant(value, dtype),
        trainable=False,
        name=name,
        # In a graph "loss_scale:0" is then the value, which scripts fetch, and not a handle.
        use_resource=tf.executing_eagerly(),
    )

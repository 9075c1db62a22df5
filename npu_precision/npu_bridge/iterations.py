"""npu_bridge's iterations per loop in sessions: one session.run makes several training steps."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.npu_bridge import fetching

# The steps in one run, by the op that set_iteration_per_loop() returned.
_iterations: weakref.WeakKeyDictionary[tf.Operation, int] = weakref.WeakKeyDictionary()


def set_iteration_per_loop(sess: Any, train_op: Any, iterations_per_loop: int = 1) -> tf.Operation:
    """Makes an op that trains for several steps whenever a session runs it.

    Each step takes a new batch from an iterator, and the same values of a feed_dict. Other fetches
    of the run are computed in the last step.

    Args:
        sess: a session; it is not used, and may be one of tf.train.
        train_op: the op, or tensor, that makes a step.
        iterations_per_loop: the number of steps in a run, at least 1.

    Raises:
        ValueError: train_op is none, or iterations_per_loop is less than 1.

    Source: npu_bridge's util.set_iteration_per_loop(sess, train_op, iterations_per_loop).
    """
    del sess
    iteration = IterationPerLoop()
    op = iteration.create_iteration_per_loop_var(train_op)
    iteration.load_iteration_per_loop_var(None, iterations_per_loop)
    return op


class IterationPerLoop:
    """set_iteration_per_loop() in two parts; the graph may be finalized after the first.

    Source: npu_bridge's util.IterationPerLoop().
    """

    def __init__(self) -> None:
        self._op: tf.Operation | None = None

    def create_iteration_per_loop_var(self, train_op: Any) -> tf.Operation:
        """Returns the op to run instead of train_op.

        Raises:
            ValueError: train_op is neither an op nor a tensor.
        """
        op = getattr(train_op, "op", train_op)
        if not isinstance(op, tf.Operation):
            raise ValueError(f"train_op: got {_errors.got(train_op)}, expected an operation")
        with op.graph.as_default():
            self._op = tf.group(op, name="IterationOp")
        return self._op

    def load_iteration_per_loop_var(self, sess: Any, iterations_per_loop: int = 1) -> None:
        """Sets how many steps a run of the op makes.

        Raises:
            ValueError: iterations_per_loop is less than 1.
            RuntimeError: create_iteration_per_loop_var() was not called.
        """
        del sess
        if isinstance(iterations_per_loop, bool) or not isinstance(iterations_per_loop, int):
            raise ValueError(
                f"iterations_per_loop: got {_errors.got(iterations_per_loop)}, expected an integer"
            )
        if iterations_per_loop < 1:
            raise ValueError(f"iterations_per_loop: got {iterations_per_loop}, expected at least 1")
        if self._op is None:
            raise RuntimeError("call create_iteration_per_loop_var() first")
        _begin_to_repeat()
        _iterations[self._op] = iterations_per_loop


@functools.lru_cache(maxsize=None)
def _begin_to_repeat() -> None:
    _tf_compat.wrap_session_runs(_repeated)


def _repeated(session: Any, fetches: Any, run: Callable[[Any], Any]) -> Any:
    del session
    for fetch in fetching.one_by_one(fetches):
        count = _iterations.get(fetch, 1) if isinstance(fetch, tf.Operation) else 1
        for _ in range(count - 1):
            run(fetch)
    return run(fetches)

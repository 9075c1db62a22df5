"""A lock in the graph of a session."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

_ops = tf.raw_ops


class Lock:
    """What one call to execute() builds runs alone, if several run in one graph.

    Unlike tf.CriticalSection it takes variables with a copy per replica, and leaves nothing in the
    graph that a meta graph cannot hold.
    """

    def __init__(self, name: str) -> None:
        self._mutex = _ops.MutexV2(container="", shared_name="", name=name)

    def execute(self, build: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Builds ops that run while the lock is held; returns their result.

        Args:
            build: its result must depend on all that it builds.
        """
        held = _ops.MutexLock(mutex=self._mutex)
        with tf.control_dependencies([held]):
            result = build()
        # Holds the lock until then.
        with tf.control_dependencies([result]):
            release = _ops.ConsumeMutexLock(mutex_lock=held)
        with tf.control_dependencies([release]):
            return tf.identity(result)

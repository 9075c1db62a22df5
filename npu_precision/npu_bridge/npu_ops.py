"""npu_bridge's npu_ops: the two ops that scripts run to begin and end the use of an NPU."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def initialize_system(name: str | None = None) -> tf.Operation:
    """An op that does nothing: on one host there is nothing to initialise.

    Source: npu_bridge's npu_ops.initialize_system.
    """
    return tf.compat.v1.no_op(name=name)


def shutdown_system(name: str | None = None) -> tf.Operation:
    """An op that does nothing; see initialize_system.

    Source: npu_bridge's npu_ops.shutdown_system.
    """
    return tf.compat.v1.no_op(name=name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"npu_ops.{name} is an op of the NPU, which npu_precision does not have: use TensorFlow's "
        "own in its place"
    )

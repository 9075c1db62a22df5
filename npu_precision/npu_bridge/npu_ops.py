"""npu_bridge's npu_ops: what begins and ends the use of an NPU, and dropout."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision._tf_compat import tf1


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


def dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Keeps each element with a probability, divided by that, and sets the others to zero.

    Args:
        x: a float tensor.
        keep_prob: the probability, above 0 and at most 1: a number, or a scalar tensor.
        noise_shape: a shape that broadcasts to that of x, of what is kept or not.
        seed: of the random numbers.
        name: a name for its ops.

    Returns:
        A tensor of the shape and dtype of x.

    Raises:
        ValueError: keep_prob is out of its range, or x is no float tensor.

    Source: npu_bridge's npu_ops.dropout(x, keep_prob, noise_shape, seed, name).
    """
    return tf1.nn.dropout(x, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed, name=name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"npu_ops.{name} is an op of the NPU, which npu_precision does not have: use TensorFlow's "
        "own in its place"
    )

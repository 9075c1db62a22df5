"""npu_bridge's npu_rnn: a recurrent network over an RNNCell of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision._tf_compat import tf1


def npu_dynamic_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Runs tf.nn.dynamic_rnn over inputs whose first axis is the steps.

    Args:
        cell: an RNNCell.
        inputs: [steps, batch, features].
        initial_state: as for tf.nn.dynamic_rnn.
        dtype: as for tf.nn.dynamic_rnn.
        sequence_length: as for tf.nn.dynamic_rnn.
        scope: as for tf.nn.dynamic_rnn.

    Returns:
        (outputs [steps, batch, units], the last state).

    Source: npu_bridge's npu_rnn.npu_dynamic_rnn.
    """
    return tf1.nn.dynamic_rnn(
        cell,
        inputs,
        sequence_length=sequence_length,
        initial_state=initial_state,
        dtype=dtype,
        time_major=True,
        scope=scope,
    )


def npu_unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> Any:
    """tf.unstack.

    Source: npu_bridge's npu_rnn.npu_unstack.
    """
    return tf.unstack(value, num, axis, name)


def npu_stack(values: Sequence[Any], axis: int = 0, name: str = "stack") -> Any:
    """tf.stack.

    Source: npu_bridge's npu_rnn.npu_stack.
    """
    return tf.stack(values, axis, name)

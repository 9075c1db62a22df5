"""npu_bridge's npu_unary_ops: activations that are single ops on an NPU."""

from __future__ import annotations

import math
import sys
from typing import Any

import tensorflow as tf


def gelu(x: Any, name: str | None = None) -> tf.Tensor:
    """Computes GELU: x times the normal distribution function of x, approximated by tanh, in the
    dtype of x.

    Args:
        x: a float tensor of any shape.
        name: a name for the scope of its ops.

    Returns:
        A tensor of the shape and dtype of x.

    Source: npu_bridge's npu_unary_ops.gelu(x).
    """
    with tf.name_scope(name or "gelu"):
        x = tf.convert_to_tensor(x)
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + tf.tanh(inner))


# Scripts write `from npu_bridge.estimator.npu_unary_ops import npu_unary_ops`.
npu_unary_ops = sys.modules[__name__]

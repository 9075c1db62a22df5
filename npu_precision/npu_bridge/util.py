"""npu_bridge's util: iterations per loop, and marks for ops of a graph that was imported."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from npu_precision import _errors, scope
from npu_precision.npu_bridge.iterations import IterationPerLoop, set_iteration_per_loop

__all__ = ["IterationPerLoop", "keep_tensors_dtypes", "set_iteration_per_loop"]


def keep_tensors_dtypes(graph: tf.Graph, input_tensors: Sequence[str]) -> None:
    """Makes the producers of these tensors keep their dtype, whatever the precision mode.

    Args:
        graph: the graph; no session may have run it yet.
        input_tensors: list or tuple of tensor names, such as "dense/MatMul:0".

    Raises:
        ValueError: a wrong type of argument, or a name that is not of the form "op:index".
        KeyError: the graph has no such tensor.

    Source: npu_bridge's util.keep_tensors_dtypes(graph, input_tensors).
    """
    if not isinstance(graph, tf.Graph):
        raise ValueError(f"graph: got {_errors.got(graph)}, expected tf.Graph")
    if not isinstance(input_tensors, (list, tuple)):
        raise ValueError(
            f"input_tensors: got {_errors.got(input_tensors)}, expected a list or tuple of names"
        )
    for tensor in [graph.get_tensor_by_name(name) for name in input_tensors]:
        scope.keep_dtype(tensor.op)

"""npu_bridge's util: iterations per loop, and marks for ops of an existing graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _no_effect, scope
from npu_precision.npu_bridge.iterations import IterationPerLoop, set_iteration_per_loop

__all__ = [
    "IterationPerLoop",
    "keep_tensors_dtypes",
    "set_graph_exec_config",
    "set_iteration_per_loop",
    "set_op_input_tensor_multi_dims",
]


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


def set_graph_exec_config(fetch: Any, **options: Any) -> Any:
    """Returns fetch: the options are about how an NPU compiles the fetches. The log says so.

    Source: npu_bridge's util.set_graph_exec_config(fetch, dynamic_input=False, ...).
    """
    _no_effect.name_once("util.set_graph_exec_config", options)
    return fetch


def set_op_input_tensor_multi_dims(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns the tensor: the other arguments are about how an NPU compiles its op. The log says
    so.

    Source: npu_bridge's util.set_op_input_tensor_multi_dims.
    """
    del args, kwargs
    _no_effect.name_once("util.set_op_input_tensor_multi_dims")
    return tensor

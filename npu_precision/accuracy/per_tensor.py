"""Adds the same small computation to a graph for each of many tensors."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.core.framework import graph_pb2


class PerTensor:
    """A computation for many tensors, added to the default graph at once.

    Adding it op by op would take a minute for a large model. So its ops are created once for each
    combination of dtypes, and their nodes are copied.

    Args:
        name: the scope of the ops.
        compute: the computation, of one or several tensors; it returns a tensor.
    """

    def __init__(self, name: str, compute: Callable[..., tf.Tensor]):
        self._name = name
        self._compute = compute
        self._templates: dict[tuple[tf.DType, ...], graph_pb2.GraphDef] = {}
        self._nodes = graph_pb2.GraphDef()
        self._inputs: dict[str, tf.Tensor] = {}
        self._keys: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str, *tensors: tf.Tensor) -> None:
        """Adds the computation of some tensors; `build` returns its result by key."""
        number = self._keys[key] = len(self._keys)
        for place, tensor in enumerate(tensors):
            self._inputs[f"{number}/{_input(place)}:0"] = tensor
        for node in self._template(tuple(tensor.dtype for tensor in tensors)).node:
            if node.op == "Placeholder":
                continue
            copy = self._nodes.node.add()
            copy.CopyFrom(node)
            copy.name = f"{number}/{node.name}"
            copy.input[:] = [f"{number}/{name}" for name in node.input]

    def build(self) -> dict[str, tf.Tensor]:
        """Builds the ops; returns the results by key."""
        tf.import_graph_def(self._nodes, input_map=self._inputs, name=self._name)
        graph = tf.compat.v1.get_default_graph()
        return {
            key: graph.get_tensor_by_name(f"{self._name}/{number}/result:0")
            for key, number in self._keys.items()
        }

    def _template(self, dtypes: tuple[tf.DType, ...]) -> graph_pb2.GraphDef:
        if dtypes not in self._templates:
            with tf.Graph().as_default() as graph:
                tensors = [
                    tf.compat.v1.placeholder(dtype, name=_input(place))
                    for place, dtype in enumerate(dtypes)
                ]
                tf.identity(self._compute(*tensors), name="result")
            self._templates[dtypes] = graph.as_graph_def()
            self._nodes.versions.CopyFrom(self._templates[dtypes].versions)
        return self._templates[dtypes]


def _input(place: int) -> str:
    return f"input_{place}"

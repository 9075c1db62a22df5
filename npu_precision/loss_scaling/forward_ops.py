"""Finds the op of the model that a gradient belongs to, by the names that TensorFlow gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling import gradients

# tf.gradients names its ops "gradients/OP_grad/...", a GradientTape "gradient_tape/OP/...".
_PATTERNS = (
    re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+)_grad/"),
    re.compile(r"gradient_tape/(.+)/"),
)
# A gradient is a sum if its variable is used several times, and may be reshaped or cast.
_MOST_OPS_BETWEEN = 16


def forward_op(gradient: Any) -> str | None:
    """The name of the op whose gradient it is, or None if that is not known, as in eager code.

    Args:
        gradient: dense or IndexedSlices.
    """
    op = _op(gradient)
    queue = [] if op is None else [op]
    for _ in range(_MOST_OPS_BETWEEN):
        if not queue:
            return None
        op = queue.pop(0)
        for pattern in _PATTERNS:
            match = pattern.search(op.name)
            if match:
                return _existing(op.graph, match.group(1))
        queue.extend(tensor.op for tensor in op.inputs)
    return None


def backward_order(grads: Sequence[Any]) -> list[int]:
    """The indices of the gradients in the order of the backward pass, without those of None."""
    present = [index for index, gradient in enumerate(grads) if gradient is not None]
    found = {index: _op(grads[index]) for index in present}
    ops = {index: op for index, op in found.items() if op is not None}
    if len(ops) < len(present) or len({op.graph for op in ops.values()}) != 1:
        return present[::-1]  # variables are mostly in the order of the forward pass
    graph = ops[present[0]].graph
    places = {op.name: place for place, op in enumerate(graph.get_operations())}
    return sorted(present, key=lambda index: places[ops[index].name])


def _op(gradient: Any) -> tf.Operation | None:
    values = gradients.values_of(gradient)
    # An EagerTensor raises on .op in graphs and eager code alike.
    return getattr(values, "op", None) if hasattr(values, "graph") else None


def _existing(graph: tf.Graph, name: str) -> str:
    """The longest beginning of the name that is the name of an op; else the name."""
    parts = name.split("/")
    for end in range(len(parts), 0, -1):
        part = "/".join(parts[:end])
        try:
            return graph.get_operation_by_name(part).name
        except (KeyError, ValueError):
            continue
    return name

"""Pairs the tensors of a model in float32 with those in another precision."""

from __future__ import annotations

from collections.abc import Container

import tensorflow as tf

from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline.reachable import fetchable_nodes
from npu_precision.offline.tensor_names import flat_tensor


def computed_tensors(model: FrozenModel, graph: tf.Graph, scope: str = "") -> list[str]:
    """The float32 tensors that the model computes and reads, and its float outputs, in order.

    Tensors inside of loops and branches are left out, because they cannot be fetched.

    Args:
        model: the model.
        graph: a graph that it was imported into.
        scope: the prefix of its names there.
    """
    nodes = {node.name: node for node in model.graph_def.node}
    reachable = fetchable_nodes(model.graph_def)
    read = {
        flat_tensor(tensor, nodes)[1]
        for node in model.graph_def.node
        for tensor in node.input
        if not tensor.startswith("^")
    }
    found = []
    for op in graph.get_operations():
        name = op.name[len(scope) :]
        if not op.name.startswith(scope) or name not in reachable or not _computes(op):
            continue
        for number, tensor in enumerate(op.outputs):
            is_output = name in model.outputs
            is_float32 = tensor.dtype == tf.float32
            if (is_output and tensor.dtype.is_floating) or (
                is_float32 and f"{name}:{number}" in read
            ):
                found.append(f"{name}:{number}")
    return found


def counterpart(tensor: str, rewritten: Container[str], low: tf.DType) -> str | None:
    """The tensor's name in another precision, as its consumers read it; None if it is not there.

    Args:
        tensor: its name in float32.
        rewritten: the names of the nodes in the other precision.
        low: the low type.
    """
    node, _, number = tensor.rpartition(":")
    for by in ("npu_emulated", "npu_rounded"):
        rounded = f"{node}/{by}_{number}_{low.name}"
        if rounded in rewritten:
            return f"{rounded}:0"
    return tensor if node in rewritten else None


def rounds(node: LedgerNode) -> bool:
    """Whether the node computes in the low type, or reads values that were rounded to it."""
    return node.decision == "lowered" or node.reason == "inputs_rounded"


def low_type(ledger: Ledger) -> tf.DType:
    """The type that nodes were lowered to; float16 if none was."""
    dtypes = {
        after for node in ledger.nodes for before, after in node.dtypes.values() if before != after
    }
    return tf.bfloat16 if "bfloat16" in dtypes else tf.float16


def _computes(op: tf.Operation) -> bool:
    """Whether the op computes its outputs, rather than being a source."""
    return op.type not in ("Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault")

"""Fills the variables of a SavedModel that TensorFlow 1's loader leaves empty."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from concurrent import futures
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision.offline import frozen_signatures


def fill(
    meta_graph: meta_graph_pb2.MetaGraphDef, folder: pathlib.Path, session: tf.compat.v1.Session
) -> None:
    """Gives the variables that signatures read the values that tf.saved_model.load gives them.

    Keras 3 saves each variable twice: the one that is restored, and the one that functions read.

    Args:
        meta_graph: the MetaGraph of the folder.
        folder: the folder of the SavedModel.
        session: the session into which TensorFlow 1's loader has loaded it.

    Raises:
        ValueError: there are empty variables, and eager execution, which finds values, is off.
    """
    found = {
        handle.name: (signature, place, handle)
        for signature, handles in _handles(meta_graph, session.graph).items()
        for place, handle in handles.items()
    }
    if not found:
        return
    # One run for all variables: each run of new ops extends the session's graph.
    initialized = session.run(
        {name: tf.raw_ops.VarIsInitializedOp(resource=found[name][2]) for name in found}
    )
    empty: dict[str, dict[int, tf.Tensor]] = {}
    for name, (signature, place, handle) in found.items():
        if not initialized[name]:
            empty.setdefault(signature, {})[place] = handle
    if not empty:
        return
    tags = sorted(meta_graph.meta_info_def.tags)
    # In another thread, no graph or session of the caller is the current one.
    with futures.ThreadPoolExecutor(1) as thread:
        values = thread.submit(_values, folder, tags, empty).result()
    assigns, feed = [], {}
    for signature, handles in empty.items():
        for place, handle in handles.items():
            value = tf.compat.v1.placeholder(handle.op.get_attr("dtype"))
            assigns.append(tf.raw_ops.AssignVariableOp(resource=handle, value=value))
            feed[value] = values[signature].pop(place)
    session.run(assigns, feed)


def _handles(
    meta_graph: meta_graph_pb2.MetaGraphDef, graph: tf.Graph
) -> dict[str, dict[int, tf.Tensor]]:
    """The variables that each signature's function reads, by their places among its captures."""
    objects = meta_graph.object_graph_def.concrete_functions
    found = {}
    for signature, call in frozen_signatures.calls(meta_graph).items():
        captures = len(objects[call.attr["f"].func.name].bound_inputs)
        inputs = graph.get_operation_by_name(call.name).inputs
        captured = inputs[len(inputs) - captures :]
        found[signature] = {
            place: tensor
            for place, tensor in enumerate(captured)
            if tensor.op.type == "VarHandleOp"
        }
    return found


def _values(
    folder: pathlib.Path, tags: Iterable[str], wanted: Mapping[str, Mapping[int, tf.Tensor]]
) -> dict[str, dict[int, Any]]:
    """The values of variables, by signature and by their places among its captures."""
    if not tf.executing_eagerly():
        raise ValueError(f"the variables of {str(folder)!r} need eager execution, which is off")
    signatures = tf.saved_model.load(str(folder), tags=list(tags)).signatures
    found: dict[str, dict[int, Any]] = {}
    for signature, places in wanted.items():
        captured = signatures[signature].captured_inputs
        for place, handle in places.items():
            # Some versions have the variable, others its handle.
            resource = getattr(captured[place], "handle", captured[place])
            dtype = handle.op.get_attr("dtype")
            value = tf.raw_ops.ReadVariableOp(resource=resource, dtype=dtype)
            found.setdefault(signature, {})[place] = value.numpy()
    return found

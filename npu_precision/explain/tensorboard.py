"""Writes the rewritten graph for TensorBoard, where "color by device" shows the decisions."""

from __future__ import annotations

import errno
import os
import pathlib
import time
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.util import event_pb2

from npu_precision.explain.explanation import MAIN_GRAPH, Body, Explanation
from npu_precision.offline import run_optimizer
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import called_functions

# TensorBoard reads every file whose name contains events.out.tfevents.
EVENTS = "events.out.tfevents.npu_precision"
# TensorBoard's legend shows devices that end in a kind and a number.
_DEVICE = "/device:{}:0"
_CAST, _ADDED, _NOT_FLOAT = "CAST", "ADDED", "NOT_FLOAT"


def write_graph(folder: str | os.PathLike[str], model: Model, explained: Explanation) -> None:
    """Writes the rewritten graph, with the decision about each node as its device.

    Args:
        folder: the folder for the event file; it is created if missing.
        model: the model.
        explained: the decisions about it.

    Raises:
        OSError: there is no space left.
    """
    written = pathlib.Path(folder)
    written.mkdir(parents=True, exist_ok=True)
    graph = decided_graph(model, explained).SerializeToString(deterministic=True)
    # FileWriter writes in a thread of its own, which does not report a full disk.
    try:
        with tf.io.TFRecordWriter(str(written / EVENTS)) as writer:
            for content in ({"file_version": "brain.Event:2"}, {"graph_def": graph}):
                event = event_pb2.Event(wall_time=time.time(), **content)
                writer.write(event.SerializeToString())
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(written / EVENTS)) from error


def decided_graph(model: Model, explained: Explanation) -> graph_pb2.GraphDef:
    """The rewritten graph and the functions that it calls, with decisions as devices."""
    bodies = {body.name: body for body in explained.bodies}
    before = model.meta_graph.graph_def
    graph_def = graph_pb2.GraphDef(versions=before.versions)
    graph_def.node.extend(bodies[MAIN_GRAPH].rewritten.values())
    _write_devices(graph_def.node, bodies[MAIN_GRAPH])
    library = {function.signature.name: function for function in before.library.function}
    for name in called_functions(bodies[MAIN_GRAPH].definitions.values(), library):
        function = graph_def.library.function.add()
        function.CopyFrom(library[name])
        if name not in bodies:
            continue
        body = bodies[name]
        del function.node_def[:]
        function.node_def.extend(body.rewritten.values())
        function.ret.update(body.rewritten_returns)
        _write_devices(function.node_def, body)
    return graph_def


def _write_devices(nodes: Iterable[node_def_pb2.NodeDef], body: Body) -> None:
    casts = {cast.name for cast in body.casts}
    for node in nodes:
        node.device = _DEVICE.format(_kind(node.name, body, casts))


def _kind(name: str, body: Body, casts: set[str]) -> str:
    if name in casts:
        return _CAST
    if name not in body.definitions and name.endswith(run_optimizer.RENAMED):
        name = name[: -len(run_optimizer.RENAMED)]
    if name in body.nodes:
        return body.nodes[name].decision.upper()
    return _NOT_FLOAT if name in body.definitions else _ADDED

"""Reads the tensors of a session.run, as the optimized graph has them, by TensorFlow's debugger."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.debug.lib import debug_data, debug_utils


def watch_every_tensor(options: config_pb2.RunOptions, graph: tf.Graph, folder: str) -> None:
    """Makes a run with these options write its tensors to a folder, those of Grappler's ops too."""
    options.output_partition_graphs = True
    debug_utils.watch_graph(
        options,
        graph,
        debug_urls=[f"file://{folder}"],
        # The debugger does not copy all types.
        tolerate_debug_op_creation_failures=True,
        reset_disk_byte_usage=True,
    )


@dataclasses.dataclass(frozen=True)
class WatchedTensor:
    """A tensor of a watched run.

    Attributes:
        node: the name of the node that yields it.
        output: the index of the output of that node.
        timestamp: when it was computed, in microseconds since 1970.
    """

    node: str
    output: int
    timestamp: int
    _datum: Any

    def value(self) -> np.ndarray[Any, Any] | None:
        """The numbers; None for strings, handles and missing values."""
        value = self._datum.get_tensor()
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return None
        return value


class WatchedRun:
    """The record of a run that watch_every_tensor() was called for.

    Args:
        folder: the folder of this run, and of others with the same fetches.
        metadata: the run's metadata.

    Attributes:
        nodes: the nodes of the graph that ran, without those of the debugger.
    """

    def __init__(self, folder: str, metadata: config_pb2.RunMetadata) -> None:
        self._dump = debug_data.DebugDumpDir(
            folder, partition_graphs=list(metadata.partition_graphs), validate=False
        )
        graphs = self._dump.reconstructed_non_debug_partition_graphs()
        self.nodes: list[node_def_pb2.NodeDef] = [
            node for device in sorted(graphs) for node in graphs[device].node
        ]

    def tensors(self) -> Iterator[WatchedTensor]:
        """All tensors, in the order of their timestamps."""
        for datum in self._dump.dumped_tensor_data:
            yield WatchedTensor(datum.node_name, datum.output_slot, datum.timestamp, datum)


def remove_watched(folder: str) -> None:
    """Removes the tensors of a run, so that another run can write to the folder."""
    # The debugger writes the graph once, for all runs with the same fetches.
    kept = debug_data.METADATA_FILE_PREFIX + debug_data.GRAPH_FILE_TAG
    for inside, _, files in os.walk(folder):
        for file in files:
            if not file.startswith(kept):
                os.remove(os.path.join(inside, file))

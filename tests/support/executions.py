"""Counts the nodes that a session runs, in the graphs that Grappler made."""

from __future__ import annotations

import collections
import dataclasses

import tensorflow as tf

from support.node_dtypes import any_float, dtype_name
from support.text_graph import tensor_name

tf1 = tf.compat.v1
# If the CPU has a fast kernel for a dtype, TensorFlow puts one of these prefixes before the op.
_ONEDNN = ("_MklNativeFused", "_MklFused", "_Mkl")


def _plain(op):
    """The op without oneDNN's prefix."""
    prefix = next((each for each in _ONEDNN if op.startswith(each)), "")
    return op[len(prefix) :]


@dataclasses.dataclass(frozen=True)
class Executions:
    """One step of a session.

    Attributes:
        values: the fetched values.
        nodes: the nodes of the graphs that ran, by name.
        counts: how often each of them ran.
    """

    values: object
    nodes: dict
    counts: collections.Counter

    def of(self, *ops):
        """How often nodes of these ops ran, by (op, dtype); includes oneDNN's kernels."""
        found = collections.Counter()
        for name, node in self.nodes.items():
            op = _plain(node.op)
            if op in ops and self.counts[name]:
                found[op, dtype_name(node.attr["T"].type)] += self.counts[name]
        return dict(found)

    def casts_by_op(self):
        """How often Casts of floats ran, by the op of their producer."""
        found = collections.Counter()
        for name, node in self.nodes.items():
            if node.op == "Cast" and any_float([node.attr["SrcT"].type]):
                producer = self.nodes[tensor_name(node.input[0])[0]]
                found[_plain(producer.op)] += self.counts[name]
        return {op: count for op, count in found.items() if count}


def run_counted(session, fetches, feed_dict=None):
    """The Executions of one session.run."""
    options = tf1.RunOptions(output_partition_graphs=True, trace_level=tf1.RunOptions.FULL_TRACE)
    metadata = tf1.RunMetadata()
    values = session.run(fetches, feed_dict, options=options, run_metadata=metadata)
    return Executions(
        values,
        {node.name: node for graph in metadata.partition_graphs for node in graph.node},
        collections.Counter(
            stats.node_name
            for device in metadata.step_stats.dev_stats
            for stats in device.node_stats
        ),
    )

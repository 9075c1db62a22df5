"""rewrite_and_run: rewrites a graph and runs it in this process.

Some passes do not change a graph that is converted for an unknown machine, so check_rewrite cannot
test them.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2

import npu_precision
from support.text_graph import random_values

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a graph: the values fetched, the nodes that ran, and the ledger's rewrites."""

    values: list
    nodes: dict[str, node_def_pb2.NodeDef]
    rewrites: list

    def ops(self):
        """By node name: its op without oneDNN's prefix, and the ops fused into it."""
        return {
            name: "+".join(
                [
                    node.op.replace("_MklNative", "").replace("_Mkl", ""),
                    *(fused.decode() for fused in node.attr["fused_ops"].list.s),
                ]
            )
            for name, node in self.nodes.items()
        }


def rewrite_and_run(graph_def, fetches, report_dir, *, feeds=None, **options):
    """Runs a graph in a session that rewrites it.

    Args:
        graph_def: the graph; its placeholders are fed.
        fetches: names of nodes.
        report_dir: an empty folder.
        feeds: values by the names of nodes; other placeholders are fed random values.
        **options: fields of PrecisionOptions.
    """
    given = tf1.ConfigProto(device_count={"CPU": 2, "GPU": 0})
    config = npu_precision.npu_config_proto(
        given, report_dir=str(report_dir), strict=True, **options
    )
    fed = {
        node.name + ":0": random_values(
            node.name,
            [dim.size for dim in node.attr["shape"].shape.dim],
            tf.as_dtype(node.attr["dtype"].type),
        )
        for node in graph_def.node
        if node.op == "Placeholder" and node.name not in (feeds or {})
    }
    fed.update({name + ":0": value for name, value in (feeds or {}).items()})
    run_options = tf1.RunOptions(output_partition_graphs=True)
    metadata = tf1.RunMetadata()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            values = session.run([name + ":0" for name in fetches], fed, run_options, metadata)
    nodes = {node.name: node for part in metadata.partition_graphs for node in part.node}
    rewrites = [
        entry
        for file in report_dir.glob("*.json")
        for entry in npu_precision.Ledger.from_json(file.read_text(encoding="utf-8")).rewrites
    ]
    return Run(values, nodes, rewrites)

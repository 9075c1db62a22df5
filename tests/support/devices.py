"""For which devices graphs are converted: those of this machine, or others."""

from __future__ import annotations

import contextlib

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, device_properties_pb2
from tensorflow.python.grappler import cluster, tf_optimizer

from npu_precision._tf_compat import graphs

tf1 = tf.compat.v1


@contextlib.contextmanager
def decided_for(names):
    """Context in which graphs are converted for these devices."""
    before = graphs._device_names
    graphs._device_names = lambda: names
    try:
        yield
    finally:
        graphs._device_names = before


def optimized(graph, fetches, passes):
    """The graph after these passes of TensorFlow, beside a GPU that need not be there."""
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(graph, name="")
    meta_graph = tf1.train.export_meta_graph(graph_def=graph, graph=imported)
    meta_graph.collection_def["train_op"].node_list.value.extend(fetches)
    config = config_pb2.ConfigProto()
    rewrite_options = config.graph_options.rewrite_options
    rewrite_options.min_graph_nodes = -1
    rewrite_options.meta_optimizer_iterations = 1
    if "disable_tfg_optimizer" in rewrite_options.DESCRIPTOR.fields_by_name:
        rewrite_options.disable_tfg_optimizer = True
    rewrite_options.optimizers.extend(passes)
    return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False, cluster=_a_cpu_and_a_gpu())


def _a_cpu_and_a_gpu():
    """A CPU and an H100: TensorFlow's passes ask for the compute capability."""
    devices = [device_properties_pb2.DeviceProperties(type=kind) for kind in ("CPU", "GPU")]
    devices[1].environment["architecture"] = "9.0"
    return cluster.Cluster(
        devices=[
            device_properties_pb2.NamedDevice(
                name=f"/job:localhost/replica:0/task:0/device:{each.type}:0", properties=each
            )
            for each in devices
        ]
    )

"""Sets and reads attributes of ops, and runs Grappler on a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, op_def_pb2
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
from tensorflow.python.framework import errors, op_def_registry
from tensorflow.python.grappler import cluster, tf_optimizer


@contextlib.contextmanager
def attributes_of_new_ops(
    graph: tf.Graph, attributes: Mapping[str, attr_value_pb2.AttrValue]
) -> Iterator[None]:
    """Scope in which ops created in this graph, not in graphs inside it, get these attributes."""
    with graph._attr_scope(attributes):
        yield


def call_for_new_ops(graph: tf.Graph, name: str, value: Callable[[str], Any]) -> None:
    """Sets the attribute on ops created in this graph from now on, unless value(type) is None."""
    graph._attr_scope_map[name] = lambda node: value(node.op)


def call_for_no_new_ops(graph: tf.Graph, name: str) -> None:
    """Reverses call_for_new_ops()."""
    graph._attr_scope_map.pop(name, None)


def adds_unordered_ops_to(graph: tf.Graph) -> bool:
    """Whether ops made here are in this graph, in no loop, branch, replica or control dependency.

    So a tensor from elsewhere in the graph may stand for one made here.
    """
    in_replica = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
    return (
        tf.compat.v1.get_default_graph() is graph
        and graph._get_control_flow_context() is None
        and not graph._current_control_dependencies()
        and not in_replica
    )


def attribute(op: tf.Operation, name: str) -> Any:
    """The value of an attribute, or None where the op has none of that name."""
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def set_op_attribute(op: tf.Operation, name: str, value: attr_value_pb2.AttrValue) -> None:
    """Sets an attribute of an existing op."""
    op._set_attr(name, value)


def optimize_graph(
    config: config_pb2.ConfigProto, meta_graph: meta_graph_pb2.MetaGraphDef, graph_id: str
) -> graph_pb2.GraphDef:
    """Runs Grappler on a graph. The meta graph's collection "train_op" names the fetches.

    Raises:
        Exception: whatever TensorFlow raises when an optimizer fails.
    """
    # The TFG optimizer would run although it is not listed, and drop functions that no node calls.
    # Up to 2.13 it cannot be switched off; run_optimizer undoes what it does.
    rewrite_options = config.graph_options.rewrite_options
    if hasattr(rewrite_options, "disable_tfg_optimizer"):
        rewrite_options.disable_tfg_optimizer = True
    # Without this cluster, TensorFlow would open a session, which takes the memory of every GPU.
    virtual = cluster.Cluster(
        devices=[
            device_properties_pb2.NamedDevice(
                name="/job:localhost/replica:0/task:0/device:" + name,
                properties=device_properties_pb2.DeviceProperties(type=name.partition(":")[0]),
            )
            for name in _device_names()
        ]
    )
    return tf_optimizer.OptimizeGraph(
        config, meta_graph, verbose=False, graph_id=graph_id.encode("utf-8"), cluster=virtual
    )


def function_aliases(meta_graph: meta_graph_pb2.MetaGraphDef) -> Iterable[str]:
    """The functions that a loader finds by another name. TensorFlow 1.15 writes none."""
    return getattr(meta_graph.meta_info_def, "function_aliases", ())


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    return any(name.startswith("GPU:") for name in _device_names())


def wait_for_devices() -> None:
    """Waits until GPUs have done what was asked of them; a CPU has, after a call."""
    if has_gpu() and hasattr(tf.test.experimental, "sync_devices"):
        tf.test.experimental.sync_devices()


def _device_names() -> list[str]:
    """The devices known to TensorFlow's placer, as "CPU:0"."""
    if hasattr(tf.config, "list_physical_devices"):
        devices = tf.config.list_physical_devices()
    else:  # 1.15
        devices = tf.config.experimental.list_physical_devices()
    # TensorFlow 1.15 also lists an XLA device for each device.
    return [
        device.name[len("/physical_device:") :]
        for device in devices
        if not device.device_type.startswith("XLA_")
    ]


def op_definition(op_type: str) -> op_def_pb2.OpDef | None:
    """The registered definition of an op type, or None."""
    if hasattr(op_def_registry, "get"):
        return op_def_registry.get(op_type)
    try:  # 1.15: its Python registry has only the ops that have been used.
        return _NO_NODES._get_op_def(op_type)
    except errors.NotFoundError:
        return None


_NO_NODES = tf.Graph()


def replace_in_readers(tensor: tf.Tensor, replacement: tf.Tensor) -> None:
    """Makes all consumers of a tensor read another one, except the op that yields the other."""
    for reader in tensor.consumers():
        if reader is replacement.op:
            continue
        for index, read in enumerate(reader.inputs):
            if read is tensor:
                reader._update_input(index, replacement)

"""Wraps private parts of TensorFlow, and parts that differ between its versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, op_def_pb2
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import errors, op_def_registry, ops
from tensorflow.python.grappler import cluster, tf_optimizer
from tensorflow.python.util import tf_export

# The module that TF1 scripts call tf. On TensorFlow 1.15 that is not compat.v1, which lacks
# tf.contrib.
tf1 = tf if tf.__version__.startswith("1.") else tf.compat.v1

# TF1's loss scaling moved here in 2.4.
_MIXED_PRECISION = getattr(tf1, "mixed_precision", None) or tf1.train.experimental
LossScale: Any = _MIXED_PRECISION.LossScale
MixedPrecisionLossScaleOptimizer: Any = _MIXED_PRECISION.MixedPrecisionLossScaleOptimizer

# tf.einsum of TensorFlow 1.15 builds matrix products instead of an Einsum.
OPS_OF_EINSUM = () if tf1 is tf else ("Einsum",)

_NO_ESTIMATOR = (
    f"TensorFlow {tf.__version__} has no tf.estimator (2.15 is the last that does): use "
    "npu_precision.enable() with Keras or tf.function, or npu_config_proto() with a session"
)


class NoEstimator:
    """Replaces a base class of tf.estimator in TensorFlow versions without it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoEstimator:
        raise RuntimeError(_NO_ESTIMATOR)


def estimator_class(name: str) -> Any:
    """A class of tf.compat.v1.estimator, or one that raises an error when it is instantiated."""
    try:
        return getattr(tf.compat.v1.estimator, name)
    except (AttributeError, ImportError):
        return NoEstimator


def map_function_configs(transform: Callable[[bytes], bytes]) -> None:
    """Applies transform to the serialized ConfigProto of every later call of a tf.function.

    Every call reads this property. Setting context()._config instead would miss threads that have
    already called a function, because each thread caches its FunctionCallOptions. Changes to that
    cache are lost when any experimental option is set, which clears it.
    """
    options_class = context.FunctionCallOptions
    original = options_class.config_proto_serialized

    def config_proto_serialized(self: Any) -> bytes:
        return transform(original.fget(self))

    options_class.config_proto_serialized = property(config_proto_serialized, original.fset)


@contextlib.contextmanager
def attributes_of_new_ops(
    graph: tf.Graph, attributes: Mapping[str, attr_value_pb2.AttrValue]
) -> Iterator[None]:
    """Scope in which ops created in this graph, not in graphs inside it, get these attributes."""
    with graph._attr_scope(attributes):
        yield


def functions_run_eagerly() -> bool:
    """Whether a tf.function called here runs, or is only added to a graph for a session."""
    return ops.executing_eagerly_outside_functions()


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


def set_keras_session(session: tf.compat.v1.Session) -> None:
    """Sets the session that Keras uses in graph mode.

    Raises:
        RuntimeError: this is Keras 3, which uses no sessions.
    """
    backend = tf.compat.v1.keras.backend
    if not hasattr(backend, "set_session"):
        raise RuntimeError(
            f"Keras of TensorFlow {tf.__version__} runs no sessions: use npu_precision.enable() "
            "with eager execution, or give your own session npu_precision.npu_config_proto()"
        )
    backend.set_session(session)


def build_optimizer(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates an optimizer's variables; from 2.11 on, Keras cannot do that in a branch."""
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        with tf.init_scope():
            optimizer.build(variables)


def scales_loss(optimizer: Any) -> bool:
    """Whether an optimizer scales the loss: TF1's or Keras' wrapper, or a subclass."""
    keras = getattr(getattr(tf.keras, "mixed_precision", None), "LossScaleOptimizer", ())
    return isinstance(optimizer, (MixedPrecisionLossScaleOptimizer, keras))


def api_name(function: Any) -> str | None:
    """The name of a function in TensorFlow's API without "tf."; None for other functions."""
    try:
        return tf_export.get_canonical_name_for_symbol(function, add_prefix_to_v1_names=False)
    except AttributeError:  # Objects that cannot have such a name.
        return None


def keras_computes_in_float16() -> bool:
    """Whether Keras scales losses by itself under its global policy."""
    policy = getattr(getattr(tf.keras, "mixed_precision", None), "global_policy", None)
    return policy is not None and policy().compute_dtype == "float16"

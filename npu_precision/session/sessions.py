"""Sessions that run the precision optimizer: their ConfigProto, and npu_bridge's helpers."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2

from npu_precision import _errors, _library, _tf_compat
from npu_precision.options import PrecisionOptions, parameters
from npu_precision.session import functions, rewriter_config

_LOGGER = logging.getLogger("npu_precision")


@atexit.register
def _warn_of_idle_modes() -> None:
    """Warns of modes that have lowered nothing; until the end, a later graph may be lowered."""
    for line in _library.idle_modes():
        _LOGGER.warning("npu_precision: %s", line)


def npu_config_proto(
    config_proto: config_pb2.ConfigProto | None = None,
    options: PrecisionOptions | None = None,
    **fields: Any,
) -> config_pb2.ConfigProto:
    """A ConfigProto that makes sessions run the precision optimizer.

    If config_proto has an NpuOptimizer entry, it is kept and completed with the options. Unless the
    config lists optimizers itself or switches them off, TensorFlow's layout optimizer and remapper
    run after NpuOptimizer, so that they work on the lowered graph. npu_bridge switches the
    remapper and the memory optimizer off, because an NPU cannot run the ops they create. So where
    the remapper is off, a mode that lowers fuses ops itself, unless `rewrites` has "-fuse_ops".

    Args:
        config_proto: the config to start from; it is not changed.
        options: the precision options.
        **fields: fields of PrecisionOptions, on top of options.

    Returns:
        A new ConfigProto, with allow_soft_placement set.

    Raises:
        ValueError: a wrong option, or one that the config's NpuOptimizer entry contradicts.
        TypeError: a wrong type of argument, or an unknown name.

    Source: npu_bridge's npu_config_proto(config_proto=None).
    """
    return config_with_parameters(config_proto, parameters(options, fields))


def config_with_parameters(
    config_proto: config_pb2.ConfigProto | None,
    parameter_map: Mapping[str, attr_value_pb2.AttrValue],
) -> config_pb2.ConfigProto:
    """Like npu_config_proto, for parameters that need not be fields of PrecisionOptions."""
    config = _copy(config_proto, config_pb2.ConfigProto, "config_proto")
    config.allow_soft_placement = True
    rewriter_config.configure(config.graph_options.rewrite_options, parameter_map)
    return config


def npu_graph_options(
    graph_options: config_pb2.GraphOptions | None = None,
    options: PrecisionOptions | None = None,
    **fields: Any,
) -> config_pb2.GraphOptions:
    """The same as npu_config_proto, for the GraphOptions of a ConfigProto.

    Returns:
        A new GraphOptions.

    Raises:
        ValueError: as npu_config_proto.
        TypeError: as npu_config_proto.

    Source: npu_bridge's npu_graph_options(graph_options=None).
    """
    result = _copy(graph_options, config_pb2.GraphOptions, "graph_options")
    rewriter_config.configure(result.rewrite_options, parameters(options, fields))
    return result


def set_keras_session_npu_config(
    config: config_pb2.ConfigProto | None = None,
    options: PrecisionOptions | None = None,
    **fields: Any,
) -> tf.compat.v1.Session:
    """Makes Keras run under the precision optimizer from now on.

    In graph mode, as in TF1 scripts, the session becomes Keras' session. With eager execution
    Keras runs tf.functions and uses no session: then this calls npu_precision.enable() with the
    same options.

    Returns:
        A session with npu_config_proto(config, options, ...); close_session() closes it.

    Raises:
        ValueError: as npu_config_proto.
        TypeError: as npu_config_proto.
        RuntimeError: in graph mode with Keras 3 (TensorFlow 2.16 and later), which has no session.

    Source: npu_bridge's set_keras_session_npu_config(config=None).
    """
    session_config = npu_config_proto(config, options, **fields)
    if tf.executing_eagerly():
        entry = rewriter_config.npu_optimizer_entry(session_config.graph_options.rewrite_options)
        functions.enable(PrecisionOptions.from_parameter_map(entry.parameter_map))
        return tf.compat.v1.Session(graph=tf.Graph(), config=session_config)
    session = tf.compat.v1.Session(config=session_config)
    _tf_compat.set_keras_session(session)
    return session


def init_resource(
    config: config_pb2.ConfigProto | None = None,
) -> tuple[tf.compat.v1.Session, tf.Operation]:
    """A session, and the op that shutdown_resource() runs in it.

    An NPU has to be initialised before other sessions use it. Here the session and the op only
    keep such scripts working unchanged.

    Args:
        config: as for npu_config_proto.

    Returns:
        (session, shutdown op), in a graph of their own.

    Raises:
        ValueError: as npu_config_proto.
        TypeError: as npu_config_proto.

    Source: npu_bridge's init_resource(config=None).
    """
    session_config = npu_config_proto(config)
    with tf.Graph().as_default() as graph:
        shutdown = tf.no_op(name="shutdown")
        return tf.compat.v1.Session(graph=graph, config=session_config), shutdown


def shutdown_resource(session: tf.compat.v1.Session, shutdown_op: tf.Operation) -> None:
    """Runs the op that init_resource() returned.

    Raises:
        RuntimeError: the session is closed.

    Source: npu_bridge's shutdown_resource.
    """
    session.run(shutdown_op)


def close_session(session: tf.compat.v1.Session) -> None:
    """Closes a session of init_resource() or set_keras_session_npu_config().

    Source: npu_bridge's close_session.
    """
    session.close()


def _copy(proto: Any, expected: type, name: str) -> Any:
    if proto is not None and not isinstance(proto, expected):
        raise TypeError(f"{name}: got {_errors.got(proto)}, expected {expected.__name__}")
    result = expected()
    if proto is not None:
        result.CopyFrom(proto)
    return result

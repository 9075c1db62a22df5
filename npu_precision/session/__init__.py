"""Adds the optimizer to what TensorFlow runs: in sessions, tf.functions and Keras.

`npu_precision.session` is also the public path of the functions in sessions.py.
"""

from npu_precision.session.sessions import (
    close_session,
    init_resource,
    npu_config_proto,
    npu_graph_options,
    set_keras_session_npu_config,
    shutdown_resource,
)

__all__ = [
    "close_session",
    "init_resource",
    "npu_config_proto",
    "npu_graph_options",
    "set_keras_session_npu_config",
    "shutdown_resource",
]

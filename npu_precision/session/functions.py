"""The precision optimizer for tf.function and Keras: for the whole process, or for a scope."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from types import TracebackType
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from npu_precision import _tf_compat
from npu_precision.options import PrecisionOptions, resolve
from npu_precision.session import rewriter_config

# The options of the whole process; None when disabled.
_enabled: PrecisionOptions | None = None
# The options of the enclosing scopes, innermost last; None is a scope that switches the optimizer
# off. A new thread starts with no scopes.
_scopes: contextvars.ContextVar[tuple[PrecisionOptions | None, ...]] = contextvars.ContextVar(
    "npu_precision_scopes", default=()
)
_hook_lock = threading.Lock()
_hooked = False


def enable(options: PrecisionOptions | None = None, **fields: Any) -> None:
    """Puts the options in force for every tf.function called from now on, in all threads.

    That includes Keras' fit, evaluate and predict, and functions already traced or loaded from a
    SavedModel. A second call replaces the options of the first. It has no effect on ops that run
    eagerly, functions compiled by XLA (jit_compile=True), functions given to tf.data, and sessions
    (see npu_config_proto). A tf.function called by a tf.function uses the options in force around
    the outer call. If TensorFlow does not inline it, it uses the options that were in force when
    the outer function was traced.

    Args:
        options: the precision options.
        **fields: fields of PrecisionOptions, on top of options.

    Raises:
        ValueError: a wrong option. An error that depends on the graph is raised by the call of the
            function, as tf.errors.InvalidArgumentError.
        TypeError: a wrong type of argument, or an unknown name.
        RuntimeError: eager execution is disabled, so that Keras runs sessions, not functions.
    """
    global _enabled
    if not _tf_compat.functions_run_eagerly():
        raise RuntimeError(
            "npu_precision.enable() has no effect without eager execution, where Keras runs "
            "sessions: use npu_precision.set_keras_session_npu_config(), or give the session "
            "npu_precision.npu_config_proto() (TensorFlow 1.15 executes eagerly after "
            "tf.enable_v2_behavior())"
        )
    resolved = resolve(options, fields)
    _install_hook()
    _enabled = resolved


def disable() -> None:
    """Reverses enable(); scopes of autocast() are not affected."""
    global _enabled
    _enabled = None


def active_options() -> PrecisionOptions | None:
    """The options a tf.function would run with if it were called here, or None."""
    scopes = _scopes.get()
    return scopes[-1] if scopes else _enabled


class autocast(contextlib.ContextDecorator):
    """Scope in which tf.functions run with the options: a context manager, and a decorator.

    The scope holds for this thread only: threads started inside do not inherit it. The innermost
    scope wins, and any scope wins over enable(). Leaving it, also by an exception, restores the
    options from before. It applies to the same functions as enable().

        with npu_precision.autocast(precision_mode="allow_mix_precision_bf16"):
            model.predict(x)

        @npu_precision.autocast(precision_mode="allow_mix_precision_bf16")
        def evaluate(batches):
            return [step(batch) for batch in batches]  # step is a tf.function

    Args:
        options: the precision options.
        enabled: False switches the optimizer off inside the scope.
        **fields: fields of PrecisionOptions, on top of options.

    Raises:
        ValueError: a wrong option.
        TypeError: a wrong type of argument, or an unknown name.
        RuntimeError: on entering while a graph is being built, as in the body of a tf.function.
            The precision of a function is decided where it is called, so there the scope would
            have no effect.
    """

    def __init__(
        self, options: PrecisionOptions | None = None, *, enabled: bool = True, **fields: Any
    ) -> None:
        resolved = resolve(options, fields)
        self._scope = resolved if enabled else None

    def __enter__(self) -> autocast:
        if not tf.executing_eagerly():
            raise RuntimeError(
                "npu_precision.autocast() was entered while a graph is being built, where it has "
                "no effect: put it around the call of the tf.function. For a session use "
                "npu_precision.npu_config_proto(); to keep some ops in their dtype use "
                "npu_precision.keep_dtype_scope() (TensorFlow 1.15 builds graphs until "
                "tf.enable_v2_behavior() is called)"
            )
        _install_hook()
        _scopes.set((*_scopes.get(), self._scope))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _scopes.set(_scopes.get()[:-1])


def _install_hook() -> None:
    global _hooked
    with _hook_lock:
        if not _hooked:
            _tf_compat.map_function_configs(_with_active_options)
            _hooked = True


def _with_active_options(config: bytes) -> bytes:
    options = active_options()
    return config if options is None else _configured(config, options)


@functools.lru_cache(maxsize=256)
def _configured(serialized: bytes, options: PrecisionOptions) -> bytes:
    config = config_pb2.ConfigProto.FromString(serialized)
    rewriter_config.configure(config.graph_options.rewrite_options, options.to_parameter_map())
    return config.SerializeToString(deterministic=True)

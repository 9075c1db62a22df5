"""Runs the precision optimizer in tf.function and Keras, for the whole process or for a scope."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import dataclasses
import functools
import logging
import shlex
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2

from npu_precision import _library, _mark_scopes, _marks, _tf_compat, tensorflow_lists
from npu_precision.distribute import agreement, servers
from npu_precision.options import PrecisionOptions
from npu_precision.session import compiler_ir, low_types, rewriter_config

_LOGGER = logging.getLogger("npu_precision")

# The options of the whole process; None when disabled.
_enabled: PrecisionOptions | None = None
# Whether a tf.function was called since the last enable(), and since the hooks were installed.
_reached = False
_was_ever_reached = False
# Is told of functions that cannot run with the options; None if they are a script's own.
_note_unreached: Callable[[str], None] | None = None
# Whether a tf.function failed, perhaps while it was traced, and so before it could be reached.
_has_failed = False


@dataclasses.dataclass(eq=False)
class Scope:
    """A scope of autocast() around calls.

    Attributes:
        options: the options in force in it; None switches the optimizer off.
        reached: whether a tf.function was called in it.
    """

    options: PrecisionOptions | None
    reached: bool = False


# The enclosing scopes, innermost last. A new thread starts with none.
_scopes: contextvars.ContextVar[tuple[Scope, ...]] = contextvars.ContextVar(
    "npu_precision_scopes", default=()
)
# The XLA-compiled function that is being called, or None.
_compiled: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "npu_precision_compiled", default=None
)
_hook_lock = threading.Lock()
_hooked = False
# Whether functions may have marks of autocast().
_looks_for_marks = False
# A number in the configs of functions. A new number makes TensorFlow prepare a function again.
_ready = (0, False)
_MOST_NUMBERS = 8
# The number of changes of files that the options in force name.
_changes = 0
_OF_MARKS = PrecisionOptions(autocast_only=True)
# Compiled functions that a warning has named; None if it named one that becomes slower.
_warned: set[str | None] = set()


def enable(
    options: PrecisionOptions | None = None, *, lists_from_environment: bool = False, **fields: Any
) -> None:
    """Puts the options in force for every tf.function called from now on, in all threads.

    This includes Keras' fit, evaluate and predict, functions that XLA compiles (jit_compile=True),
    and functions already traced or loaded from a SavedModel. A second call replaces the options of
    the first. It has no effect on ops that run eagerly, functions given to tf.data, and sessions
    (see npu_config_proto). A tf.function called by a tf.function uses the options in force around
    the outer call. If TensorFlow does not inline it, it uses the options that were in force when
    the outer function was traced.

    Args:
        options: the precision options. Without a mode: allow_mix_precision_bf16 on a CPU,
            allow_mix_precision on a GPU or for the target of one that is emulated; and on a CPU,
            what XLA compiles is not lowered.
        lists_from_environment: whether to take the lists that TensorFlow's auto_mixed_precision
            reads, TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_ALLOWLIST_ADD and similar ones, as
            mixlist_edits. Needs a mixed mode.
        **fields: fields of PrecisionOptions, on top of options.

    Raises:
        ValueError: a wrong option, or a wrong list. An error that depends on the graph is raised by
            the call of the function, as tf.errors.InvalidArgumentError.
        TypeError: a wrong type of argument, or an unknown name.
        RuntimeError: eager execution is disabled, so that Keras runs sessions, not functions.
    """
    global _enabled, _reached, _note_unreached
    if not _tf_compat.functions_run_eagerly():
        raise RuntimeError(
            "npu_precision.enable() has no effect without eager execution, where Keras runs "
            "sessions: use npu_precision.set_keras_session_npu_config(), or give the session "
            "npu_precision.npu_config_proto() (TensorFlow 1.15 executes eagerly after "
            "tf.enable_v2_behavior())"
        )
    if lists_from_environment:
        given = tensorflow_lists.options_from()
        twice = [name for name in given if fields.get(name) or getattr(options, name, None)]
        if twice:
            raise ValueError(f"got {twice[0]} and lists_from_environment, expected one of the two")
        fields = {**fields, **given}
    resolved = low_types.resolve("enable()", options, fields)
    _install_hooks()
    _enabled, _reached, _note_unreached = resolved, False, None


def put_in_force(options: PrecisionOptions, note_unreached: Callable[[str], None]) -> None:
    """Like enable(), for a program that knows nothing of it, and may be one of sessions.

    Args:
        options: the options, with a mode.
        note_unreached: is told of functions that cannot run with them.
    """
    global _enabled, _reached, _note_unreached
    _install_hooks()
    _enabled, _reached, _note_unreached = options, False, note_unreached


def disable() -> None:
    """Reverses enable(); scopes of autocast() are not affected."""
    global _enabled, _note_unreached
    _warn_if_idle()
    _enabled = _note_unreached = None


def has_reached_functions() -> bool:
    """Whether a tf.function was called since the last enable()."""
    return _reached


def enabled_options() -> PrecisionOptions | None:
    """The options that enable() put in force, or None."""
    return _enabled


def active_options() -> PrecisionOptions | None:
    """The options a tf.function would run with if it were called here, or None."""
    scopes = _scopes.get()
    return scopes[-1].options if scopes else _enabled


@contextlib.contextmanager
def entered(options: PrecisionOptions | None) -> Iterator[Scope]:
    """Scope in which the tf.functions that this thread calls run with the options."""
    _install_hooks()
    before, scope = _scopes.get(), Scope(options)
    _scopes.set((*before, scope))
    try:
        yield scope
    finally:
        _scopes.set(before)


def look_for_marks(place: str) -> None:
    """Lets the optimizer look for marks of autocast() in functions, from their next call on.

    Args:
        place: the place of the scope that marks ops, for a warning.
    """
    global _looks_for_marks
    _looks_for_marks = True
    _install_hooks()


def make_ready_anew(number: int, without_remapper: bool = False) -> None:
    """Makes TensorFlow run all its passes again on each tf.function, at its next call.

    TensorFlow reuses a function that ran before with the same number and options.

    Args:
        number: 0, the initial number, or another one below 8.
        without_remapper: whether TensorFlow's remapper, which fuses ops, is off.
    """
    global _ready
    _ready = (number, without_remapper)
    _install_hooks()


def read_files_anew() -> None:
    """Makes TensorFlow prepare all tf.functions again: a file in their options has changed."""
    global _changes
    _changes += 1
    _install_hooks()


def leaves_compiled(options: PrecisionOptions, what: str) -> bool:
    """Whether a scope with these options, in the function that is traced, has no effect there.

    Warns if so; what is the scope, with its place.
    """
    name = _compiled.get()
    if name is None or options.lower_compiled is not False:
        return False
    _warn_of_compiled(name, what)
    return True


def is_compiled() -> bool:
    """Whether the caller is within a tf.function that XLA compiles."""
    return _compiled.get() is not None


def _install_hooks() -> None:
    global _hooked
    with _hook_lock:
        if _hooked:
            return
        _tf_compat.map_function_configs(
            lambda config: _numbered(_with_active_options(config), *_ready, _changes)
        )
        _tf_compat.enter_for_compiled_functions(_in_compiled)
        _tf_compat.call_compiled_from_function(_lowers_compiled, _marks.CALLER)
        _tf_compat.show_compiled_as(_shown_compiled)
        _tf_compat.hand_to_replica_threads(_take, _give)
        _tf_compat.hand_to_closures(_take_scheduled, _exchange)
        _tf_compat.call_when_functions_fail(_note_failed)
        atexit.register(_warn_if_idle)
        _hooked = True


def _warn_if_idle() -> None:
    """Warns if enable() has had no effect; called by disable(), and at the end of the process."""
    if _enabled is None or _note_unreached is not None or low_types.of_mode(_enabled) is None:
        return
    float_nodes, lowered = _library.lowered_so_far()
    if not _was_ever_reached:
        if _has_failed:
            return
        cause = (
            "no tf.function was called. Ops that run eagerly keep their dtype: decorate the step "
            "with @tf.function. A session takes npu_precision.npu_config_proto()"
        )
    elif lowered == 0 and float_nodes > 0:
        cause = (
            f"none of the {float_nodes} float nodes in the functions was lowered. "
            + _where_it_says_why(_enabled)
        )
    else:
        return
    _LOGGER.warning("npu_precision lowered nothing: %s", cause)


def _where_it_says_why(options: PrecisionOptions) -> str:
    if options.report_dir:
        return f"`npu-precision explain {shlex.quote(options.report_dir)}` says why"
    return "enable(report_dir=...) writes why, for `npu-precision explain`"


def _note_reached() -> None:
    """Records that a tf.function is called, or is scheduled."""
    global _reached, _was_ever_reached
    _reached = _was_ever_reached = True
    for scope in _scopes.get():
        scope.reached = True


def _note_failed() -> None:
    global _has_failed
    _has_failed = True


def _with_active_options(config: bytes) -> bytes:
    _note_reached()
    options = active_options()
    if options is None and not _looks_for_marks:
        return config
    if _note_unreached is not None and _runs_no_optimizer(config):
        _note_unreached("tf.functions under the optimizer option disable_meta_optimizer")
        return config
    is_called_here = not servers.is_called_elsewhere(options or _OF_MARKS)
    if options is None:
        return _with_marks(config)
    if is_called_here:
        agreement.ask(options)
    return _configured(config, options)


@functools.lru_cache(maxsize=256)
def _runs_no_optimizer(serialized: bytes) -> bool:
    config = config_pb2.ConfigProto.FromString(serialized)
    return bool(config.graph_options.rewrite_options.disable_meta_optimizer)


def _lowers_compiled() -> bool:
    """Whether a function that XLA compiles would be lowered if it were called here."""
    options = active_options()
    return _looks_for_marks if options is None else options.lower_compiled is not False


def _shown_compiled(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The graph as it would be optimized if it were called here."""
    _note_reached()
    options = active_options() or _OF_MARKS
    if not _lowers_compiled():
        return graph_def
    return compiler_ir.optimized(graph_def, options)


@contextlib.contextmanager
def _in_compiled(name: str) -> Iterator[None]:
    """Context of a call of a function that XLA compiles."""
    options = active_options()
    if options is not None and low_types.of_mode(options) is not None and not options.emulate:
        _warn_about_compiled(name, options)
    before = _compiled.get()
    _compiled.set(name)
    try:
        yield
    finally:
        _compiled.set(before)


def _warn_about_compiled(name: str, options: PrecisionOptions) -> None:
    """Warns where a compiled function is not lowered, or becomes slower."""
    if options.lower_compiled is False:
        _warn_of_compiled(name, "autocast()" if _scopes.get() else "enable()")
    elif not _tf_compat.has_gpu() and None not in _warned:
        _warned.add(None)
        _LOGGER.warning(
            "XLA compiles the tf.function %r, and is slower in a low type than in float32 on a "
            "CPU: compile it without XLA (for a Keras model, compile(jit_compile=False))",
            name,
        )


def _warn_of_compiled(name: str, what: str) -> None:
    if name not in _warned:
        _warned.add(name)
        _LOGGER.warning(
            "%s does not lower the tf.function %r, which XLA compiles (jit_compile=True), with "
            "what it calls: on a CPU, XLA is slower in bfloat16. Compile it without XLA (for a "
            "Keras model, compile(jit_compile=False)), or pass lower_compiled=True",
            what,
            name,
        )


def _take() -> tuple[Any, ...]:
    return _scopes.get(), _compiled.get(), _mark_scopes.active()


def _take_scheduled() -> tuple[Any, ...]:
    """The state for a function scheduled here: other options may be in force when it runs."""
    _note_reached()
    scopes, *rest = _take()
    return (scopes or (Scope(_enabled),), *rest)


def _exchange(taken: tuple[Any, ...]) -> tuple[Any, ...]:
    before = _take()
    _give(taken)
    return before


def _give(taken: tuple[Any, ...]) -> None:
    scopes, compiled, marks = taken
    _scopes.set(scopes)
    _compiled.set(compiled)
    _mark_scopes.set_active(marks)


@functools.lru_cache(maxsize=256)
def _numbered(serialized: bytes, number: int, without_remapper: bool, changes: int) -> bytes:
    if number == changes == 0:
        return serialized
    config = config_pb2.ConfigProto.FromString(serialized)
    # No code of TensorFlow reads this field.
    config.graph_options.timeline_step = number + _MOST_NUMBERS * changes
    if without_remapper:
        rewrite = config.graph_options.rewrite_options
        rewriter_config.leave_out_remapper(rewrite)
    return config.SerializeToString(deterministic=True)


@functools.lru_cache(maxsize=256)
def _with_marks(serialized: bytes) -> bytes:
    """The config with an optimizer that obeys marks, as one that a script put there does too."""
    rewrite = config_pb2.ConfigProto.FromString(serialized).graph_options.rewrite_options
    if rewriter_config.names_npu_optimizer(rewrite) or rewrite.disable_meta_optimizer:
        return serialized
    return _configured(serialized, _OF_MARKS)


@functools.lru_cache(maxsize=256)
def _configured(serialized: bytes, options: PrecisionOptions) -> bytes:
    config = config_pb2.ConfigProto.FromString(serialized)
    rewriter_config.configure(config.graph_options.rewrite_options, options.to_parameter_map())
    return config.SerializeToString(deterministic=True)

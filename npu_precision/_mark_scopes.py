"""Scopes that mark the ops created in them, in a graph and in the functions built there."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _marks, _tf_compat

# The marks that functions, branches and loop bodies inherit, and that gradients take from their
# forward op.
_INHERITED = (_marks.KEEP_DTYPE, _marks.AUTOCAST, _marks.LIST)

# The marks of ops in a scope. IS_MERGED_SUM keeps Grappler from merging a sum with others, which
# would lose its marks.
_OF_OPS = (*_INHERITED, _tf_compat.IS_MERGED_SUM)

if TYPE_CHECKING:  # Python 3.8 cannot evaluate it.
    Marks = Mapping[str, attr_value_pb2.AttrValue]
# Per thread: several threads may build one graph in turns, as those of replicas do.
_active: contextvars.ContextVar[Marks] = contextvars.ContextVar(
    "npu_precision_marks", default=types.MappingProxyType({})
)
_lock = threading.Lock()
_hooked = False
# The number of open scopes by graph; a scope that a function inherits stays open.
_open: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def mark_new_ops(marks: Marks) -> Iterator[None]:
    """Scope in which new ops of this thread in the current graph are marked; eager ops are not.

    Functions, branches and loop bodies built within inherit the marks, and the gradients of marked
    ops follow them. A tf.function called within is traced for them.
    """
    if tf.executing_eagerly():
        yield
        return
    _install_hooks()
    graph = tf.compat.v1.get_default_graph()
    before = _active.get()
    _active.set({**before, **marks})
    _enter(graph)
    try:
        yield
    finally:
        _leave(graph)
        _active.set(before)


def active() -> Marks:
    """The marks of the scopes that this thread is in."""
    return _active.get()


def set_active(marks: Marks) -> None:
    """Sets the marks of this thread, when another thread has started it and passed them."""
    _active.set(marks)


def _enter(graph: tf.Graph) -> None:
    with _lock:
        _open[graph] = _open.get(graph, 0) + 1
        if _open[graph] == 1:
            _mark_all_of(graph)


def _leave(graph: tf.Graph) -> None:
    with _lock:
        _open[graph] -= 1
        if _open[graph] == 0:
            for name in _OF_OPS:
                _tf_compat.call_for_no_new_ops(graph, name)


def _mark_all_of(graph: tf.Graph) -> None:
    for name in _OF_OPS:
        _tf_compat.call_for_new_ops(graph, name, functools.partial(_active_mark, name))


def _active_mark(name: str, op_type: str) -> attr_value_pb2.AttrValue | None:
    if name != _tf_compat.IS_MERGED_SUM:
        return _active.get().get(name)
    is_marked = op_type in _tf_compat.SUMS and bool(_active.get())
    return attr_value_pb2.AttrValue(b=True) if is_marked else None


def _install_hooks() -> None:
    global _hooked
    with _lock:
        if _hooked:
            return
        _tf_compat.call_for_new_functions(_inherit)
        _tf_compat.trace_anew_for(_key)
        _tf_compat.build_gradients_in(_scope_of_gradient, _key, _scope_of_key)
        _hooked = True


def _inherit(graph: tf.Graph) -> None:
    if _active.get():
        _enter(graph)


def _key() -> tuple[tuple[str, bytes], ...] | None:
    marks = _active.get()
    return tuple(sorted((name, mark.SerializeToString()) for name, mark in marks.items())) or None


def _scope_of_key(
    key: tuple[tuple[str, bytes], ...],
) -> contextlib.AbstractContextManager[None]:
    return mark_new_ops({name: attr_value_pb2.AttrValue.FromString(mark) for name, mark in key})


def _scope_of_gradient(op: tf.Operation) -> contextlib.AbstractContextManager[None]:
    """The scope for the gradient of an op that tf.gradients builds: with the marks of the op."""
    marks: dict[str, attr_value_pb2.AttrValue] = {}
    if _tf_compat.attribute(op, _marks.KEEP_DTYPE):
        marks[_marks.KEEP_DTYPE] = attr_value_pb2.AttrValue(i=1)
    autocast = _tf_compat.attribute(op, _marks.AUTOCAST)
    if autocast is not None:
        dtype = tf.as_dtype(autocast).as_datatype_enum
        marks[_marks.AUTOCAST] = attr_value_pb2.AttrValue(type=dtype)
    color = _tf_compat.attribute(op, _marks.LIST)
    if color is not None:
        marks[_marks.LIST] = attr_value_pb2.AttrValue(s=color)
    return mark_new_ops(marks) if marks else contextlib.nullcontext()

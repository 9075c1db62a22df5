"""keep_dtype_scope: marks ops that keep their dtype, whatever the precision mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _mark_scopes, _marks, _tf_compat


@contextlib.contextmanager
def keep_dtype_scope() -> Iterator[None]:
    """Scope in which new ops keep their dtype: the optimizer neither lowers nor raises them.

    For code that builds a graph: a TF1 graph, or the body of a tf.function (ops that run eagerly
    keep their dtype anyway). Branches and loop bodies that are built in the scope, and functions
    that are called in it, inherit it; so do the gradients of its ops.

    TensorFlow's remapper fuses ops and drops the mark. npu_config_proto(), NPURunConfig, enable()
    and autocast() run the optimizer before it. In a config made by hand, set remapping OFF, as
    npu_bridge's scripts do. The log warns if the optimizer finds fused ops.

    Source: npu_bridge's npu_scope.keep_dtype_scope.
    """
    with _mark_scopes.mark_new_ops({_marks.KEEP_DTYPE: _mark()}):
        yield


@contextlib.contextmanager
def loss_scale_scope() -> Iterator[None]:
    """The same as keep_dtype_scope(), for a scaled loss, which may exceed float16's 65504."""
    attributes = {_marks.KEEP_DTYPE: _mark(), _marks.LOSS_SCALE: _mark()}
    if tf.executing_eagerly():
        yield
        return
    with _tf_compat.attributes_of_new_ops(tf.compat.v1.get_default_graph(), attributes):
        yield


def keep_dtype(op: tf.Operation) -> None:
    """Marks an existing op as keep_dtype_scope() marks new ones."""
    _tf_compat.set_op_attribute(op, _marks.KEEP_DTYPE, _mark())


def overflow_check(op: tf.Operation) -> None:
    """Marks the op that yields whether all gradients are finite."""
    _tf_compat.set_op_attribute(op, _marks.OVERFLOW_CHECK, _mark())


def _mark() -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(i=1)

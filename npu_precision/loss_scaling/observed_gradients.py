"""Gradients that somebody looks at while a step runs, in graphs, tf.functions and eager code."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from npu_precision import scope
from npu_precision.loss_scaling import gradients
from npu_precision.loss_scaling.forward_ops import backward_order, forward_op

# Who looks, of steps that are built now.
observers: list[Any] = []
_sources: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class Counts(NamedTuple):
    """Per gradient, as arrays.

    Attributes:
        kinds: 0 where it is finite, 1 with an infinity, 2 with a NaN.
        zeros: how many of its elements are zero.
        sizes: how many elements it has.
    """

    kinds: np.ndarray
    zeros: np.ndarray
    sizes: np.ndarray


class Site:
    """The gradients of one place in a program, in the order of the backward pass.

    Attributes:
        source: whose step they are for.
        names: of each, that of its variable, or of the op it belongs to.
        forward_ops: of each, the op of the model it belongs to, or None.
    """

    def __init__(self, source: str, grads: Sequence[Any], variables: Sequence[Any] | None) -> None:
        order = backward_order(grads)
        self.source = source
        self.grads = [grads[index] for index in order]
        self.forward_ops = [forward_op(gradient) for gradient in self.grads]
        self.names = [
            (variables is not None and _name(variables[index]))
            or self.forward_ops[place]
            or f"gradient {index}"
            for place, index in enumerate(order)
        ]


def observed(
    grads: Sequence[Any],
    scale: tf.Tensor,
    optimizer: Any,
    loss_id: int | None = None,
    variables: Sequence[Any] | None = None,
    unless: tf.Tensor | None = None,
) -> list[Any]:
    """The gradients, such that whoever uses them has the observers look at them.

    Args:
        grads: as the backward pass yields them, scaled.
        scale: a scalar float32 tensor.
        optimizer: whose step they are for.
        loss_id: of which loss, where there are several.
        variables: whose gradients they are, where that is known.
        unless: a scalar bool tensor: True leaves this step out.
    """
    grads = list(grads)
    if not observers or all(gradient is None for gradient in grads):
        return grads
    suffix = "" if loss_id is None else f"/loss{loss_id}"
    site = Site(_source_of(optimizer) + suffix, grads, variables)
    told = [_tell(observer, site, scale, unless) for observer in list(observers)]
    if tf.executing_eagerly():
        return grads
    with tf.control_dependencies(told):
        return [gradients.map_values(gradient, tf.identity) for gradient in grads]


def _source_of(optimizer: Any) -> str:
    """The name of its class, with a number where several have it."""
    if optimizer not in _sources:
        name = type(optimizer).__name__
        count = sum(other.partition("_")[0] == name for other in _sources.values())
        _sources[optimizer] = name if count == 0 else f"{name}_{count + 1}"
    return _sources[optimizer]


def _tell(observer: Any, site: Site, scale: tf.Tensor, unless: tf.Tensor | None) -> tf.Tensor:
    with scope.keep_dtype_scope():
        finite = gradients.all_finite(site.grads)

    def is_due(all_finite: np.ndarray) -> tuple[np.int64, np.bool_]:
        step, due = observer.is_due(site, bool(all_finite))
        return np.int64(step), np.bool_(due)

    def add(step: Any, scale: Any, *counts: Any) -> np.bool_:
        observer.add(site, int(step), float(scale), Counts(*map(np.asarray, counts)))
        return np.bool_(True)

    def look() -> tf.Tensor:
        step, due = tf.numpy_function(is_due, [finite], [tf.int64, tf.bool])
        step.set_shape([])
        due.set_shape([])
        return tf.cond(due, lambda: count_and_add(step), lambda: tf.constant(False))

    def count_and_add(step: tf.Tensor) -> tf.Tensor:
        with scope.keep_dtype_scope():
            arguments = [step, scale, *_counts(site.grads)]
        done = tf.numpy_function(add, arguments, tf.bool)
        done.set_shape([])
        return done

    return look() if unless is None else tf.cond(unless, lambda: tf.constant(False), look)


def _counts(grads: Sequence[Any]) -> Counts:
    values = [gradients.values_of(gradient) for gradient in grads]
    return Counts(
        tf.stack([_kind(each) for each in values]),
        tf.stack([tf.math.count_nonzero(tf.equal(each, 0), dtype=tf.int64) for each in values]),
        tf.stack([tf.size(each, out_type=tf.int64) for each in values]),
    )


def _kind(values: tf.Tensor) -> tf.Tensor:
    is_infinite = tf.reduce_any(tf.math.is_inf(values))
    return tf.where(
        tf.reduce_any(tf.math.is_nan(values)),
        tf.constant(2),
        tf.where(is_infinite, tf.constant(1), tf.constant(0)),
    )


def _name(variable: Any) -> str | None:
    # Keras 3 calls every kernel "kernel"; its path says whose.
    return getattr(variable, "path", None) or getattr(variable, "name", None)

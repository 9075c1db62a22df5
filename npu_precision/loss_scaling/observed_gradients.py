"""Gradients that somebody looks at while a step runs, in graphs, tf.functions and eager code."""

from __future__ import annotations

import collections
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
_named: collections.Counter[str] = collections.Counter()


class Counts(NamedTuple):
    """Per gradient, tensors or arrays.

    Attributes:
        kinds: 0 where it is finite, 1 with an infinity, 2 with a NaN.
        zeros: how many of its elements are zero.
        sizes: how many elements it has.
    """

    kinds: Any
    zeros: Any
    sizes: Any


class Site(NamedTuple):
    """The gradients of one place in a program, in the order of the backward pass.

    Attributes:
        source: whose step they are for.
        names: of each, that of its variable, or of the op it belongs to.
        forward_ops: of each, the op of the model it belongs to, or None.
    """

    source: str
    names: list[str]
    forward_ops: list[str | None]


def add_observer(observer: Any) -> None:
    """It looks, at steps that are built from now on."""
    observers.append(observer)


def remove_observer(observer: Any) -> None:
    """It looks at no more; names of sources begin anew when nobody does."""
    observers.remove(observer)
    if not observers:
        _sources.clear()
        _named.clear()


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
    source = _source_of(optimizer) + ("" if loss_id is None else f"/loss{loss_id}")
    order = backward_order(grads)
    ops = [forward_op(grads[index]) for index in order]
    names = [
        (variables is not None and _name(variables[index])) or op or f"gradient {index}"
        for index, op in zip(order, ops)
    ]
    site = Site(source, names, ops)
    with scope.keep_dtype_scope():
        counts = _counts([gradients.values_of(grads[index]) for index in order])
        numbers = [tf.constant(False) if unless is None else unless, scale, *counts]
        told = [_tell(observer, site, numbers) for observer in list(observers)]
        if tf.executing_eagerly():
            return grads
        with tf.control_dependencies(told):
            return [gradients.map_values(gradient, tf.identity) for gradient in grads]


def _source_of(optimizer: Any) -> str:
    """The name of its class, with a number where several had it."""
    if optimizer not in _sources:
        name = type(optimizer).__name__
        _named[name] += 1
        _sources[optimizer] = name if _named[name] == 1 else f"{name}_{_named[name]}"
    return _sources[optimizer]


def _tell(observer: Any, site: Site, numbers: Sequence[tf.Tensor]) -> tf.Tensor:
    # It outlives the graph, and so must not hold its tensors.
    def tell(is_left_out: Any, scale: Any, *counts: Any) -> np.bool_:
        if not is_left_out:
            observer.see(site, float(scale), Counts(*map(np.asarray, counts)))
        return np.bool_(True)

    return tf.numpy_function(tell, numbers, tf.bool)


def _counts(values: Sequence[tf.Tensor]) -> Counts:
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

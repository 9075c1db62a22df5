"""Passes the gradients of each step that runs to observers, such as a flight recorder."""

from __future__ import annotations

import collections
import re
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from npu_precision import _tf_compat, scope
from npu_precision.loss_scaling import gradients, replicas

# The observers that steps built from now on get.
observers: list[Any] = []
_sources: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_named: collections.Counter[str] = collections.Counter()

# tf.gradients names its ops "gradients/OP_grad/...", a GradientTape "gradient_tape/OP/...".
_PATTERNS = (
    re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+)_grad/"),
    re.compile(r"gradient_tape/(.+)/"),
)
# A gradient is a sum if its variable is used several times, and may be reshaped or cast.
_MOST_OPS_BETWEEN = 16


class Counts(NamedTuple):
    """One number per gradient, in tensors or arrays.

    Attributes:
        kinds: 0 if it is finite, 1 if it has an infinity, 2 if it has a NaN.
        zeros: how many of its elements are zero.
        sizes: how many elements it has.
    """

    kinds: Any
    zeros: Any
    sizes: Any


class Site(NamedTuple):
    """The gradients of one step in a program, in the order of the backward pass.

    Attributes:
        source: the name of the optimizer, and the loss if there are several.
        names: for each gradient, the name of its variable, or of the op it belongs to.
        forward_ops: for each gradient, the op of the model it belongs to, or None.
    """

    source: str
    names: list[str]
    forward_ops: list[str | None]


def add_observer(observer: Any) -> None:
    """Adds an observer of the steps that are built from now on."""
    observers.append(observer)


def remove_observer(observer: Any) -> None:
    """Removes an observer. After the last observer, the numbering of sources starts again."""
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
    """Returns the gradients with a control dependency on the calls of all observers.

    An observer is called once for all replicas of this process, with the counts over all.

    Args:
        grads: the scaled gradients, as the backward pass yields them.
        scale: a scalar float32 tensor.
        optimizer: the optimizer of the step.
        loss_id: the loss, if there are several.
        variables: the variables of the gradients, if known.
        unless: a scalar bool tensor; if True, observers are not called for this step.
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
        calls = replicas.once_for_all(lambda each: _call_all(site, each), numbers)
        if tf.executing_eagerly():
            return grads
        with tf.control_dependencies(calls):
            return [gradients.map_values(gradient, tf.identity) for gradient in grads]


def _source_of(optimizer: Any) -> str:
    """The name of the optimizer's class; the second and later ones of a name get a number."""
    if optimizer not in _sources:
        name = type(optimizer).__name__
        _named[name] += 1
        _sources[optimizer] = name if _named[name] == 1 else f"{name}_{_named[name]}"
    return _sources[optimizer]


def _call_all(site: Site, of_replicas: list[list[tf.Tensor]]) -> list[tf.Tensor]:
    """Calls all observers with the numbers of all replicas."""
    is_left_out, scale, *counts = of_replicas[0]
    if len(of_replicas) > 1:
        with scope.keep_dtype_scope():
            kinds, zeros, sizes = (
                tf.stack([numbers[index] for numbers in of_replicas]) for index in (2, 3, 4)
            )
            counts = [tf.reduce_max(kinds, 0), tf.reduce_sum(zeros, 0), tf.reduce_sum(sizes, 0)]
    return [_call(observer, site, [is_left_out, scale, *counts]) for observer in list(observers)]


def _call(observer: Any, site: Site, numbers: Sequence[tf.Tensor]) -> tf.Tensor:
    # This function outlives the graph, so it must not hold the graph's tensors.
    def see(is_left_out: Any, scale: Any, *counts: Any) -> np.bool_:
        if not is_left_out:
            observer.see(site, float(scale), Counts(*map(np.asarray, counts)))
        return np.bool_(True)

    return tf.numpy_function(see, numbers, tf.bool)


def _counts(values: Sequence[tf.Tensor]) -> Counts:
    return Counts(
        tf.stack([_kind(each) for each in values]),
        tf.stack([tf.math.count_nonzero(tf.equal(each, 0), dtype=tf.int64) for each in values]),
        tf.stack([tf.size(each, out_type=tf.int64) for each in values]),
    )


def _kind(values: tf.Tensor) -> tf.Tensor:
    is_infinite = tf.reduce_any(tf.math.is_inf(values))
    return _tf_compat.where(
        tf.reduce_any(tf.math.is_nan(values)),
        tf.constant(2),
        _tf_compat.where(is_infinite, tf.constant(1), tf.constant(0)),
    )


def _name(variable: Any) -> str | None:
    # Keras 3 calls every kernel "kernel"; its path has the layer too.
    return getattr(variable, "path", None) or getattr(variable, "name", None)


def forward_op(gradient: Any) -> str | None:
    """The name of the op whose gradient it is, or None if that is not known, as in eager code.

    Args:
        gradient: dense or IndexedSlices.
    """
    op = _op(gradient)
    queue = [] if op is None else [op]
    for _ in range(_MOST_OPS_BETWEEN):
        if not queue:
            return None
        op = queue.pop(0)
        for pattern in _PATTERNS:
            match = pattern.search(op.name)
            if match:
                return _existing(op.graph, match.group(1))
        queue.extend(tensor.op for tensor in op.inputs)
    return None


def backward_order(grads: Sequence[Any]) -> list[int]:
    """The indices of the gradients in the order of the backward pass, without those of None."""
    present = [index for index, gradient in enumerate(grads) if gradient is not None]
    found = {index: _op(grads[index]) for index in present}
    ops = {index: op for index, op in found.items() if op is not None}
    if len(ops) < len(present) or len({op.graph for op in ops.values()}) != 1:
        return present[::-1]  # variables are mostly in the order of the forward pass
    graph = ops[present[0]].graph
    places = {op.name: place for place, op in enumerate(graph.get_operations())}
    return sorted(present, key=lambda index: places[ops[index].name])


def _op(gradient: Any) -> tf.Operation | None:
    values = gradients.values_of(gradient)
    # An EagerTensor raises on .op in graphs and eager code alike.
    return getattr(values, "op", None) if hasattr(values, "graph") else None


def _existing(graph: tf.Graph, name: str) -> str:
    """The longest beginning of the name that is the name of an op; else the name."""
    parts = name.split("/")
    for end in range(len(parts), 0, -1):
        part = "/".join(parts[:end])
        try:
            return graph.get_operation_by_name(part).name
        except (KeyError, ValueError):
            continue
    return name

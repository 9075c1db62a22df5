"""Decorators of amp: a function on a list, and the two parts of a custom gradient."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _errors, _mark_scopes, _marks, _tf_compat
from npu_precision.session import low_types
from npu_precision.session.autocast import autocast, check_function


def half_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: puts the function's ops on the white list.

    Takes effect in the mixed modes, and so at O1 and O2, within a tf.function or a graph. The
    function may be composite and call others; gradients follow. A `node:` entry of a mixlist
    overrides the decorator.

    Raises:
        TypeError: it is no function.

    Source: apex.amp.half_function.
    """
    return on_list("white", function)


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: puts the function's ops on the black list, so that they stay float32.

    The rest is as for half_function.
    """
    return on_list("black", function)


def promote_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: puts the function's ops on the gray list, so that they follow their inputs.

    The rest is as for half_function.
    """
    return on_list("gray", function)


def on_list(color: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that its ops are marked for a list: "white", "black" or "gray"."""
    return _marked(function, {_marks.LIST: attr_value_pb2.AttrValue(s=color.encode())})


def custom_fwd(
    function: Callable[..., Any] | None = None,
    *,
    cast_inputs: Any = None,
    device_type: str | None = None,
) -> Callable[..., Any]:
    """Decorator of the forward part of a tf.custom_gradient.

        @tf.custom_gradient
        @amp.custom_fwd(cast_inputs=tf.float32)
        def f(x):
            @amp.custom_bwd
            def gradient(dy):
                ...
            return y, gradient

    Args:
        function: the forward part, if the decorator is given no arguments.
        cast_inputs: a float dtype that float inputs are cast to, wherever it is called; autocast is
            off within then. Gradients are cast to the dtypes of the inputs.
        device_type: accepted for scripts of PyTorch.

    Raises:
        ValueError: cast_inputs is no float dtype.

    Source: torch.amp.custom_fwd.
    """
    dtype = None if cast_inputs is None else _float_dtype(cast_inputs)
    if function is None:
        return functools.partial(custom_fwd, cast_inputs=cast_inputs, device_type=device_type)
    if dtype is None:
        return function

    def cast(arguments: Any) -> Any:
        return tf.nest.map_structure(
            lambda value: tf.cast(value, dtype) if _is_float(value) else value, arguments
        )

    def scope() -> Any:
        return contextlib.nullcontext() if tf.executing_eagerly() else autocast(enabled=False)

    def finish(result: Any, given: Any) -> Any:
        return _with_gradients_as_given(result, given, scope)

    return _tf_compat.called_in(scope, function, cast, finish)


def custom_bwd(
    function: Callable[..., Any] | None = None, *, device_type: str | None = None
) -> Callable[..., Any]:
    """Decorator of the backward part of a tf.custom_gradient: the scopes of the forward part.

    Decorate the gradient function where it is defined, in the forward part.

    Args:
        function: the backward part, if the decorator is given no arguments.
        device_type: accepted for scripts of PyTorch.

    Source: torch.amp.custom_bwd.
    """
    if function is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return _marked(function, _mark_scopes.active())


def _with_gradients_as_given(result: Any, given: Any, scope: Callable[[], Any]) -> Any:
    """The result of a forward part, its gradients built in the scope and of the inputs' dtypes."""
    if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
        return result
    inputs = tf.nest.flatten(given[0])  # Keyword arguments get no gradients.

    def cast(grads: Any, call: Any) -> Any:
        if call[1].get("variables"):
            of_inputs, of_variables = grads
            return cast(of_inputs, ((), {})), of_variables
        flat = tf.nest.flatten(grads)
        if len(flat) != len(inputs):
            return grads  # TensorFlow raises the error.
        return tf.nest.pack_sequence_as(grads, list(map(_cast_as, flat, inputs)))

    value, gradient = result
    return value, _tf_compat.called_in(scope, gradient, finish=cast)


def _cast_as(grad: Any, value: Any) -> Any:
    return tf.cast(grad, value.dtype) if _is_float(grad) and _is_float(value) else grad


def _marked(
    function: Callable[..., Any], marks: Mapping[str, attr_value_pb2.AttrValue]
) -> Callable[..., Any]:
    check_function("function", function)
    return _tf_compat.called_in(lambda: _mark_scopes.mark_new_ops(marks), function)


def _float_dtype(dtype: Any) -> tf.DType:
    parsed = low_types.dtype_or_none(dtype)
    if parsed is None or not parsed.is_floating:
        raise ValueError(f"cast_inputs: got {_errors.got(dtype)}, expected a float dtype")
    return parsed


def _is_float(value: Any) -> bool:
    return tf.is_tensor(value) and value.dtype.is_floating

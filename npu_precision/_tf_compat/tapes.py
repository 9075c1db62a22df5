"""Hooks into the building of gradients."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import backprop, execute
from tensorflow.python.ops import gradients_util


def build_gradients_in(
    scope_of: Callable[[tf.Operation], Any],
    remember: Callable[[], Any],
    recall: Callable[[Any], Any],
) -> None:
    """Builds the gradient of each op in a scope.

    Args:
        scope_of: makes the scope for the gradient of an op by tf.gradients.
        remember: returns what a tape notes with an op that is made now: hashable, or None.
        recall: makes the scope for a gradient by a tape from what was noted.
    """
    _build_graph_gradients_in(scope_of)
    _build_tape_gradients_in(remember, recall)
    _build_custom_gradients_in(remember, recall)


def _build_graph_gradients_in(scope_of: Callable[[tf.Operation], Any]) -> None:
    original = gradients_util._MaybeCompile

    def _MaybeCompile(scope: Any, op: Any, func: Any, grad_fn: Any) -> Any:
        with scope_of(op):
            return original(scope, op, func, grad_fn)

    gradients_util._MaybeCompile = _MaybeCompile


# The tape keeps this name and the note after the attributes of an op.
_NOTED = "_npu_precision_noted"


def _build_tape_gradients_in(remember: Callable[[], Any], recall: Callable[[Any], Any]) -> None:
    record, build = execute.record_gradient, backprop._gradient_function

    def record_gradient(op_type: str, inputs: Any, attrs: Any, *rest: Any) -> Any:
        noted = remember()
        if noted is not None:
            attrs = (*(attrs or ()), _NOTED, noted)
        return record(op_type, inputs, attrs, *rest)

    def gradient_function(op_type: str, attrs: Any, *rest: Any) -> Any:
        if not attrs or attrs[-2] != _NOTED:
            return build(op_type, attrs, *rest)
        with recall(attrs[-1]):
            return build(op_type, attrs[:-2], *rest)

    execute.record_gradient = record_gradient
    wrapped = getattr(backprop, "pywrap_tfe", None) or backprop.pywrap_tensorflow
    wrapped.TFE_Py_RegisterGradientFunction(gradient_function)


def _build_custom_gradients_in(remember: Callable[[], Any], recall: Callable[[Any], Any]) -> None:
    """Covers tf.custom_gradient, and so tf.recompute_grad, under a tape."""
    try:
        tape: Any = importlib.import_module("tensorflow.python.eager.record")
    except ImportError:
        tape = importlib.import_module("tensorflow.python.eager.tape")
    record = tape.record_operation

    def record_operation(
        op_type: Any,
        output_tensors: Any,
        input_tensors: Any,
        backward_function: Callable[..., Any],
        *rest: Any,
        **named: Any,
    ) -> Any:
        noted, backward = remember(), backward_function

        def backward_in_scope(*grads: Any) -> Any:
            with recall(noted):
                return backward(*grads)

        # The gradients of a function that is called follow its ops.
        if noted is not None and not any(map(_is_of_call, tf.nest.flatten(output_tensors))):
            backward_function = backward_in_scope
        return record(op_type, output_tensors, input_tensors, backward_function, *rest, **named)

    tape.record_operation = record_operation


def _is_of_call(output: Any) -> bool:
    op = None if tf.executing_eagerly() else getattr(output, "op", None)
    return op is not None and op.type.endswith("PartitionedCall")


def call_for_tape_gradients(callback: Callable[[Any, Any], None]) -> None:
    """Calls back with the target and the gradients of each call of GradientTape.gradient().

    Calls with output_gradients are left out: their gradients are not those of the target alone.
    """
    original = tf.GradientTape.gradient

    @functools.wraps(original)
    def gradient(
        self: Any, target: Any, sources: Any, output_gradients: Any = None, *rest: Any, **named: Any
    ) -> Any:
        grads = original(self, target, sources, output_gradients, *rest, **named)
        if output_gradients is None:
            callback(target, grads)
        return grads

    tf.GradientTape.gradient = gradient

"""Keeps AutoGraph to the user's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx, config, converter
from tensorflow.python.autograph.impl import api
from tensorflow.python.util import tf_decorator


def convert_no_function_of(package: str) -> None:
    """Makes AutoGraph call the functions of a package as they are, like TensorFlow's own."""
    config.CONVERSION_RULES = (config.DoNotConvert(package), *config.CONVERSION_RULES)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the user's, to call in traced code: converted if the code around it is."""
    context = ag_ctx.control_status_ctx()
    if context.status != ag_ctx.Status.ENABLED:
        return function
    return api.tf_convert(function, context)


def traced(function: Callable[..., Any], jit_compile: bool = False) -> Any:
    """A tf.function of one of ours, which calls the user's by converted().

    Args:
        function: the function.
        jit_compile: whether XLA compiles it.
    """
    options = converter.ConversionOptions(recursive=True)

    def in_context(*args: Any) -> Any:
        with ag_ctx.ControlStatusCtx(ag_ctx.Status.ENABLED, options):
            return function(*args)

    # With the function's own name and arguments, which name the graph and its inputs.
    decorated = tf_decorator.make_decorator(function, in_context)
    compiled = {"jit_compile": True} if jit_compile else {}  # 1.15 has no such argument.
    return tf.function(decorated, autograph=False, **compiled)

"""Hooks into how tf.functions are traced and called."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.util import tf_decorator


def map_function_configs(transform: Callable[[bytes], bytes]) -> None:
    """Applies transform to the serialized ConfigProto of every later call of a tf.function.

    Every call reads this property. Setting context()._config instead would miss threads that have
    already called a function, because each thread caches its FunctionCallOptions. Changes to that
    cache are lost when any experimental option is set, which clears it.
    """
    options_class = context.FunctionCallOptions
    original = options_class.config_proto_serialized

    def config_proto_serialized(self: Any) -> bytes:
        return transform(original.fget(self))

    options_class.config_proto_serialized = property(config_proto_serialized, original.fset)


def call_for_new_functions(callback: Callable[[tf.Graph], None]) -> None:
    """Calls back with the graph of each function, branch and loop body built from now on."""
    original = func_graph.FuncGraph.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        callback(self)

    func_graph.FuncGraph.__init__ = __init__


class _PartOfKey:
    """Takes the place of an XLA context in the key of a trace, and stands for a part() of the key.

    TensorFlow traces a function again for each XLA context whose method returns True.
    """

    def RequiresUniqueFunctionRetracing(self) -> bool:
        return True


# The modules that may compute the cache key of a tf.function's trace, in different versions.
_KEY_MODULES = (
    "eager.polymorphic_function.function_context",
    "eager.function_context",
    "eager.function_cache",
    "eager.function",
)


def trace_anew_for(part: Callable[[], Any]) -> None:
    """Makes part(), of a few hashable values, a part of the key of a tf.function's traces.

    part() is called where a function calls a function; None adds nothing to the key.
    """
    parts: dict[Any, _PartOfKey] = {}
    module: Any
    for name in _KEY_MODULES:
        try:
            module = importlib.import_module(f"tensorflow.python.{name}")
        except ImportError:
            continue
        if hasattr(module, "_enclosing_xla_context"):
            break
    else:  # 1.15
        _trace_anew_in_tf1(importlib.import_module("tensorflow.python.eager.function"), part)
        return
    original = module._enclosing_xla_context

    def _enclosing_xla_context() -> Any:
        found, value = original(), part()
        return found if value is None else parts.setdefault((id(found), value), _PartOfKey())

    module._enclosing_xla_context = _enclosing_xla_context


def _trace_anew_in_tf1(module: Any, part: Callable[[], Any]) -> None:
    original = module.Function._cache_key

    def _cache_key(self: Any, *args: Any, **kwargs: Any) -> Any:
        key, value = original(self, *args, **kwargs), part()
        return (
            key if value is None else key._replace(colocation_stack=(*key.colocation_stack, value))
        )

    module.Function._cache_key = _cache_key


def enter_for_compiled_functions(scope_of: Callable[[str], Any]) -> None:
    """Calls each tf.function that XLA compiles in the scope that scope_of(name) returns."""
    function = _function_class()
    original = function.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "_jit_compile", False) or getattr(self, "_experimental_compile", False):
            with scope_of(getattr(self, "__name__", "?")):
                return original(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    function.__call__ = __call__


def call_when_functions_fail(callback: Callable[[], Any]) -> None:
    """Calls back when the call of a tf.function, or its tracing, raises an error."""
    function = _function_class()

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except BaseException:
                callback()
                raise

        return run

    function.__call__ = watched(function.__call__)
    function.get_concrete_function = watched(function.get_concrete_function)


def wrap_function_calls(wrap: Callable[[Any, Callable[[], Any]], Any]) -> None:
    """Replaces each call of a tf.function by wrap(function, call)."""
    function = _function_class()
    original = function.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrap(self, lambda: original(self, *args, **kwargs))

    function.__call__ = __call__


def is_tf_function(function: Any) -> bool:
    """Whether it is an object that @tf.function makes."""
    return isinstance(function, _function_class())


@functools.lru_cache(maxsize=None)
def _function_class() -> Any:
    return type(tf.function(lambda: None))


def called_in(
    scope: Callable[[], Any],
    function: Callable[..., Any],
    cast: Callable[[Any], Any] = lambda given: given,
    finish: Callable[[Any, Any], Any] = lambda result, given: result,
) -> Callable[..., Any]:
    """Wraps a function so that it is called in a scope; AutoGraph still converts it.

    Args:
        scope: makes the context manager for a call.
        function: the function to call.
        cast: changes the pair of args and kwargs first.
        finish: changes the result; its second argument is the pair of args and kwargs.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        args_of_function, kwargs_of_function = cast((args, kwargs))
        with scope():
            result = run.__wrapped__(  # type: ignore[attr-defined]
                *args_of_function, **kwargs_of_function
            )
        return finish(result, (args, kwargs))

    return tf_decorator.make_decorator(function, run)  # AutoGraph replaces __wrapped__.


def functions_run_eagerly() -> bool:
    """Whether a tf.function called here runs, or is only added to a graph for a session."""
    return ops.executing_eagerly_outside_functions()


def captured_variables(function: Any) -> list[tuple[tf.Tensor, tf.DType]]:
    """The handles of the variables that a concrete function reads or writes, with their dtypes.

    Lookup tables, iterators and the like have no dtype, and are left out.
    """
    util = importlib.import_module("tensorflow.python.ops.handle_data_util")
    found = []
    captured = function.captured_inputs
    # The placeholders for captured tensors come after the function's arguments.
    for each, inside in zip(captured, function.inputs[len(function.inputs) - len(captured) :]):
        # Some versions have the variable, others its handle.
        handle = getattr(each, "handle", each)
        if handle.dtype == tf.resource:
            data = util.get_resource_handle_data(inside)
            if data.is_set and len(data.shape_and_type) == 1:
                found.append((handle, tf.as_dtype(data.shape_and_type[0].dtype)))
    return found

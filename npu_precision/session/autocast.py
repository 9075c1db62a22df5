"""autocast(): runs the precision optimizer for a part of a program."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _device_types, _errors, _mark_scopes, _marks, _tf_compat
from npu_precision.options import ACCEPTED_NAMES, PrecisionOptions
from npu_precision.session import functions, low_types

_LOGGER = logging.getLogger("npu_precision")
# Warnings that were logged, with their places.
_warned: set[str] = set()
_OF_A_GRAPH = (*low_types.MODE_FIELDS, "lower_compiled")
_OWN_ARGUMENTS = ("dtype", "enabled", "cache_enabled", "device_type")


class autocast:
    """Scope in which TensorFlow computes in a low type: a context manager, and a decorator.

    Within a tf.function, the `call` of a Keras layer, a `train_step` or a TF1 graph, the scope
    applies to the ops that are made in it, and to those of functions, branches and loop bodies that
    are built or called there; gradients follow their ops. The lists decide which of these ops are
    lowered. Such a function needs no enable(). In a TF1 graph, give its session npu_config_proto().

        @tf.function
        def step(images):
            with npu_precision.autocast(dtype="bfloat16"):
                logits = model(images)
            return loss_of(logits)

    Around calls, the scope applies to the tf.functions that are called there, as enable() does,
    including those that MirroredStrategy calls in its own threads. Other threads do not inherit the
    scope.

        with npu_precision.autocast(precision_mode="allow_mix_precision_bf16"):
            model.predict(x)

        @npu_precision.autocast(dtype="bfloat16")
        def evaluate(batches):
            return [step(batch) for batch in batches]  # step is a tf.function

    The innermost scope wins, and any scope wins over enable(). Leaving it, also by an exception,
    restores what was before. Functions that XLA compiles are not reached; a warning names them.

    Args:
        options: the precision options; or a device type, as in torch.autocast.
        dtype: the low type, "bfloat16" or "float16", as a name, a tf.DType or a numpy dtype.
            Without it, and without a mode: bfloat16 on a CPU, float16 on a GPU.
        enabled: False switches the optimizer off inside the scope.
        device_type: "cpu", "gpu", "cuda" or "npu": decides the dtype if none is given.
        cache_enabled: accepted for scripts of PyTorch; TensorFlow shares Casts anyway.
        **fields: fields of PrecisionOptions, on top of options. Within a function, a mixed mode.

    Raises:
        ValueError: a wrong option; or, on entering, options that a scope within a function cannot
            have.
        TypeError: a wrong type of argument, or an unknown name.

    Source: torch.autocast(device_type, dtype, enabled, cache_enabled).
    """

    def __init__(
        self,
        options: PrecisionOptions | str | None = None,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        *,
        device_type: str | None = None,
        **fields: Any,
    ) -> None:
        if isinstance(options, str) and device_type is None and options in _device_types.NAMES:
            device_type, options = options, None
        if isinstance(options, (str, tf.DType, np.dtype, type)):
            raise TypeError(
                f"options: got {options!r}, expected PrecisionOptions, or a device type "
                f"({', '.join(_device_types.NAMES)}); name a mode with precision_mode=..., "
                "a dtype with dtype=..."
            )
        for name in fields:
            if name not in ACCEPTED_NAMES:
                raise TypeError(
                    f"autocast: got the unknown argument {name!r}"
                    f"{_errors.did_you_mean(name, (*_OWN_ARGUMENTS, *ACCEPTED_NAMES))}; it takes "
                    f"{', '.join(_OWN_ARGUMENTS)}, and the fields of PrecisionOptions"
                )
        if callable(options):
            raise TypeError("autocast is written as a decorator with parentheses: @autocast()")
        if not isinstance(enabled, (bool, np.bool_)):
            raise TypeError(f"enabled: got {_errors.got(enabled)}, expected a bool")
        low_type = None if dtype is None else low_types.parse(dtype)
        for_device = None if device_type is None else low_types.for_device(device_type)
        resolved = low_types.resolve("autocast()", options, fields, low_type or for_device)
        mode = resolved.precision_mode or resolved.precision_mode_v2
        if low_type is not None and low_types.of_mode(resolved) != low_type:
            raise ValueError(
                f"got both dtype ({low_type.name}) and a precision mode ({mode}), expected one"
            )
        self._options = resolved
        self._enabled = bool(enabled)
        self._entered = threading.local()

    def __enter__(self) -> autocast:
        scope = self._at(_place_of(sys._getframe(1)))
        scope.__enter__()
        if not hasattr(self._entered, "scopes"):
            self._entered.scopes = []
        self._entered.scopes.append(scope)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.scopes.pop().__exit__(exc_type, exc, traceback)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function so that it runs in the scope."""
        check_function("autocast()", function)
        if _tf_compat.is_tf_function(function):
            return _Scoped(self, function)

        place = f"the decorated {getattr(function, '__name__', function)}"
        return _tf_compat.called_in(lambda: self._at(place), function)

    def _at(self, place: str) -> contextlib.AbstractContextManager[None]:
        """The scope, with the place that messages name."""
        return self._around_calls(place) if tf.executing_eagerly() else self._in_graph(place)

    @contextlib.contextmanager
    def _around_calls(self, place: str) -> Iterator[None]:
        with functions.entered(self._options if self._enabled else None) as scope:
            yield
        if self._enabled and not scope.reached:
            _warn_once(
                f"autocast() at {place}: all in it ran eagerly, in its own dtype, because no "
                "tf.function was called there: decorate the step with @tf.function"
            )

    @contextlib.contextmanager
    def _in_graph(self, place: str) -> Iterator[None]:
        low_type = low_types.of_mode(self._options) if self._enabled else tf.float32
        for name, value in self._options.to_dict().items():
            if self._enabled and (low_type is None or name not in _OF_A_GRAPH):
                raise ValueError(
                    f"autocast() at {place}: got {name}={value!r} while a graph is built, where it "
                    f"takes dtype and enabled, or a mixed mode; {_remedy(name, value, low_type)}"
                )
        if not _tf_compat.functions_run_eagerly():
            _warn_once(
                f"autocast() at {place} marks the ops of a graph, which a session runs: it has an "
                "effect in those with npu_precision.npu_config_proto()"
            )
        assert low_type is not None
        if self._enabled and functions.leaves_compiled(self._options, f"autocast() at {place}"):
            yield
            return
        mark = attr_value_pb2.AttrValue(type=low_type.as_datatype_enum)
        functions.look_for_marks(place)
        with _mark_scopes.mark_new_ops({_marks.AUTOCAST: mark}):
            yield


class _Scoped:
    """A tf.function that is called in a scope; bound to an instance, where it is a method.

    Its other attributes are those of the tf.function.
    """

    def __init__(self, scope: autocast, function: Any) -> None:
        self._scope = scope
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._scope._at(f"the decorated {getattr(self, '__name__', self._function)}"):
            return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> _Scoped:
        return _Scoped(self._scope, self._function.__get__(instance, owner))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def check_function(name: str, function: Any) -> None:
    """Raises TypeError unless it is a function that may be decorated: no class, layer or model."""
    is_function = callable(function) and not isinstance(function, type)
    if not is_function or hasattr(type(function), "trainable_variables"):
        raise TypeError(
            f"{name}: got {_errors.got(function)}, expected a function to decorate; for a layer "
            "or a model, decorate its `call`, or put a scope around what calls it"
        )
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{name}: got {_errors.got(function)}, whose body runs after the call; decorate what "
            "it calls, or write `with npu_precision.autocast():` in its body"
        )


def _place_of(frame: Any) -> str:
    """The place of a scope: file and line, or the function that AutoGraph has converted."""
    code = frame.f_code
    if "__autograph_generated_file" in code.co_filename:
        return f"the function {code.co_name.replace('tf__', '', 1)}"
    return f"{code.co_filename}:{frame.f_lineno}"


def _remedy(name: str, value: object, low_type: tf.DType | None) -> str:
    """What to write instead of an option that a scope in a graph does not take."""
    around = "put the scope around the call of the tf.function"
    if low_type is None or name in low_types.MODE_FIELDS:
        return f"{around}, or give the session npu_config_proto()"
    option = f"{name}={value!r}"
    return (
        f"write npu_precision.enable(autocast_only=True, {option}) before the call, and leave "
        f"{name} out here; or {around}; or give the session "
        f"npu_config_proto(autocast_only=True, {option})"
    )


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _LOGGER.warning("%s", text)

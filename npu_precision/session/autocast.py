"""autocast(): the precision optimizer for a part of a program."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from npu_precision import _errors, _mark_scopes, _marks, _tf_compat
from npu_precision.options import PrecisionOptions
from npu_precision.session import functions, low_types

_LOGGER = logging.getLogger("npu_precision")
# Warnings that were given, and where.
_warned: set[str] = set()


class autocast:
    """Scope in which TensorFlow computes in a low type: a context manager, and a decorator.

    Within a tf.function, the `call` of a Keras layer, a `train_step` or a TF1 graph, it is about
    the ops that are made in it, and those of functions, branches and loop bodies that are built or
    called there; their gradients follow them. Which of the ops are lowered, the lists decide. Such
    a function needs no enable(). In a TF1 graph, give its session npu_config_proto().

        @tf.function
        def step(images):
            with npu_precision.autocast(dtype="bfloat16"):
                logits = model(images)
            return loss_of(logits)

    Around calls, it is about the tf.functions that are called there, as enable() is; those that
    MirroredStrategy calls in threads of its own included. Other threads do not inherit the scope.

        with npu_precision.autocast(precision_mode="allow_mix_precision_bf16"):
            model.predict(x)

        @npu_precision.autocast(dtype="bfloat16")
        def evaluate(batches):
            return [step(batch) for batch in batches]  # step is a tf.function

    The innermost scope wins, and any scope wins over enable(). Leaving it, also by an exception,
    restores what was before. Functions that XLA compiles are not reached; a warning names them.

    Args:
        options: the precision options; or a device type, as torch.autocast has it there.
        dtype: the low type, "bfloat16" or "float16", as a name, a tf.DType or a numpy dtype.
            Without it, and without a mode: bfloat16 on a CPU, float16 on a GPU.
        enabled: False switches the optimizer off inside the scope.
        device_type: "cpu", "gpu", "cuda" or "npu": decides the dtype where there is none.
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
        *,
        dtype: Any = None,
        enabled: bool = True,
        device_type: str | None = None,
        cache_enabled: bool | None = None,
        **fields: Any,
    ) -> None:
        if isinstance(options, str):
            if device_type is not None or options not in low_types.DEVICE_TYPES:
                raise TypeError(
                    f"options: got {options!r}, expected PrecisionOptions, or a device type "
                    f"({', '.join(low_types.DEVICE_TYPES)}); name a mode with precision_mode=..., "
                    "a dtype with dtype=..."
                )
            device_type, options = options, None
        for name, value in (("enabled", enabled), ("cache_enabled", cache_enabled)):
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"{name}: got {_errors.got(value)}, expected a bool")
        low_type = None if dtype is None else low_types.parse(dtype)
        for_device = None if device_type is None else low_types.for_device(device_type)
        resolved = low_types.resolve("autocast()", options, fields, low_type or for_device)
        mode = resolved.precision_mode or resolved.precision_mode_v2
        if low_type is not None and low_types.of_mode(resolved) != low_type:
            raise ValueError(
                f"got both dtype ({low_type.name}) and a precision mode ({mode}), expected one"
            )
        self._options = resolved
        self._enabled = enabled
        self._entered = threading.local()

    def __enter__(self) -> autocast:
        caller = sys._getframe(1)
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        self._enter(place)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.scopes.pop().__exit__(exc_type, exc, traceback)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which runs in the scope."""
        if not callable(function):
            raise TypeError(f"autocast() decorates a function: got {_errors.got(function)}")

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._enter(f"the decorated {getattr(function, '__name__', function)}")
            try:
                return run.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
            finally:
                self.__exit__(*sys.exc_info())

        return _tf_compat.decorated(function, run)

    def _enter(self, place: str) -> None:
        scope = self._around_calls(place) if tf.executing_eagerly() else self._in_graph(place)
        scope.__enter__()
        if not hasattr(self._entered, "scopes"):
            self._entered.scopes = []
        self._entered.scopes.append(scope)

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
            if self._enabled and (low_type is None or name not in low_types.MODE_FIELDS):
                raise ValueError(
                    f"autocast() at {place}: got {name}={value!r} while a graph is built, where it "
                    "takes dtype and enabled, or a mixed mode; put the scope around the call of "
                    "the tf.function, or give the session npu_config_proto()"
                )
        if not _tf_compat.functions_run_eagerly():
            _warn_once(
                f"autocast() at {place} marks the ops of a graph, which a session runs: it has an "
                "effect in those with npu_precision.npu_config_proto()"
            )
        assert low_type is not None
        mark = attr_value_pb2.AttrValue(type=low_type.as_datatype_enum)
        functions.look_for_marks(place)
        with _mark_scopes.mark_new_ops({_marks.AUTOCAST: mark}):
            yield


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _LOGGER.warning("%s", text)

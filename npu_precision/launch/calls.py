"""Tells of each call of a tf.function, and each run of a session, that is not part of another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _tf_compat


class Call(NamedTuple):
    """A call that ended.

    Attributes:
        key: of calls of one tf.function, or of runs with the same fetches, the same.
        name: the name of the function, or "session.run".
        seconds: how long it took, until the devices were done.
        names: the names of the fetches, if it is a run.
        result: what it returned.
    """

    key: object
    name: str
    seconds: float
    names: tuple[str, ...]
    result: Any


def leaves(structure: Any) -> list[Any]:
    """What is in lists, tuples and mappings, in their order; keys need no order of their own."""
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if not isinstance(structure, (list, tuple)):
        return [structure]
    return [leaf for each in structure for leaf in leaves(each)]


def watch(callback: Callable[[Call], None]) -> None:
    """Calls back after each call from now on."""
    inside = threading.local()

    def timed(key: object, name: str, names: tuple[str, ...], call: Callable[[], Any]) -> Any:
        inside.is_so = True
        start = time.perf_counter()
        try:
            result = call()
            _tf_compat.wait_for_devices()
        finally:
            inside.is_so = False
        callback(Call(key, name, time.perf_counter() - start, names, result))
        return result

    def of_function(function: Any, call: Callable[[], Any]) -> Any:
        if getattr(inside, "is_so", False) or not tf.executing_eagerly():
            return call()
        return timed(id(function), getattr(function, "__name__", "a function"), (), call)

    def of_session(session: Any, fetches: Any, run: Callable[..., Any]) -> Any:
        if getattr(inside, "is_so", False):
            return run(fetches)
        names = tuple(getattr(each, "name", str(each)) for each in leaves(fetches))
        return timed(names, "session.run", names, lambda: run(fetches))

    _tf_compat.wrap_function_calls(of_function)
    _tf_compat.wrap_session_runs(of_session)

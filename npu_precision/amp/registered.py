"""The functions that a script registers for a precision, as entries of a mixlist."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _errors, _library, _tf_compat
from npu_precision.amp.op_types import computes_with_own_ops, op_types
from npu_precision.amp.own_functions import on_list
from npu_precision.session.autocast import check_function

_LOGGER = logging.getLogger("npu_precision")
_REGISTERS = {
    "white": "register_half_function",
    "black": "register_float_function",
    "gray": "register_promote_function",
}


class _Replaced(NamedTuple):
    """A function that was replaced by a marked one.

    Attributes:
        color: the color of its list.
        module: the module that had it.
        function: the function itself.
    """

    color: str
    module: Any
    function: Any


_color_of: dict[str, str] = {}
_replaced: dict[tuple[int, str], _Replaced] = {}
_is_used = False
# Puts later registrations in force; returns whether it could. None before initialize().
_take_up: Callable[[], bool] | None = None


def register_half_function(function: Any, name: str | None = None) -> None:
    """Lowers a function: puts its op types on the white list.

    Call it before or after initialize(); sessions see only what was registered before it.

    Args:
        function: a function of TensorFlow's API, such as tf.nn.softmax or tf.raw_ops.Softmax; or
            the name of an op type, such as "Softmax"; or, as in Apex, the function's module.
        name: the name of the function, if a module is given. Such a function may be composite, or
            of your own: half_function(function) takes its place in the module.

    Raises:
        ValueError: it is not such a function, or is registered for another list.

    Source: apex.amp.register_half_function(module, name).
    """
    _register("white", function, name)


def register_float_function(function: Any, name: str | None = None) -> None:
    """Keeps a function in float32: puts its op types on the black list.

    The rest is as for register_half_function.
    """
    _register("black", function, name)


def register_promote_function(function: Any, name: str | None = None) -> None:
    """Makes a function compute in its inputs' widest dtype: puts its op types on the gray list.

    The rest is as for register_half_function.
    """
    _register("gray", function, name)


def registered() -> dict[str, list[str]]:
    """The registered op types, by list: "white", "black" or "gray"."""
    global _is_used
    _is_used = True
    return {
        color: sorted(op for op, its in _color_of.items() if its == color)
        for color in sorted(set(_color_of.values()))
    }


def on_change(take_up: Callable[[], bool] | None) -> None:
    """Calls take_up for each later registration; take_up returns whether it put that in force."""
    global _take_up
    _take_up = take_up


def forget_all() -> None:
    """Removes all registrations."""
    global _is_used
    _color_of.clear()
    for (_, name), one in _replaced.items():
        setattr(one.module, name, one.function)
    _replaced.clear()
    _is_used = False
    on_change(None)


def as_mixlist(added: dict[str, list[str]]) -> str:
    """The JSON of a mixlist that adds these op types."""
    return json.dumps({f"{color}-list": {"to-add": ops} for color, ops in added.items()})


def _known(op_type: str) -> str:
    ascend_ops = _library.describe()["ascend_ops"]
    if _tf_compat.op_definition(op_type) is None and op_type not in ascend_ops:
        known = [*dir(tf.raw_ops), *ascend_ops]
        raise ValueError(
            f"function: got {op_type!r}, which is no op type of TensorFlow or Ascend"
            + _errors.did_you_mean(op_type, known)
        )
    return op_type


def _register(color: str, function: Any, name: str | None) -> None:
    module = None
    if name is not None:
        if not isinstance(name, str) or not hasattr(function, name):
            raise ValueError(
                f"name: got {_errors.got(name)}, which {_errors.got(function)} does not have"
                + _errors.did_you_mean(name, dir(function))
            )
        module, function = function, getattr(function, name)
    if module is not None and callable(function) and not computes_with_own_ops(function):
        _replace(color, module, str(name), function)
        return
    ops = [_known(function)] if isinstance(function, str) and function else op_types(function)
    for op in ops:
        other = _color_of.get(op, color)
        if other != color:
            raise ValueError(f"function: {op} is registered with {_REGISTERS[other]} already")
    _color_of.update(dict.fromkeys(ops, color))
    if _is_used and not (_take_up is not None and _take_up()):
        _LOGGER.warning(
            "%s: %s: initialize() was called already, and its config is made; only the next one "
            "sees this",
            _REGISTERS[color],
            ", ".join(ops),
        )


def _replace(color: str, module: Any, name: str, function: Any) -> None:
    """Replaces a composite function, or one of the user's own, by a marked one."""
    check_function("name", function)
    other = _replaced.get((id(module), name))
    if other is not None:
        if other.color != color:
            raise ValueError(f"name: {name} is registered with {_REGISTERS[other.color]} already")
        return
    _replaced[id(module), name] = _Replaced(color, module, function)
    setattr(module, name, on_list(color, function))

"""The functions that a script registers for a precision, as entries of a mixlist."""

from __future__ import annotations

import json
import logging
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _library, _tf_compat
from npu_precision.amp.op_types import op_types

_LOGGER = logging.getLogger("npu_precision")
_REGISTERS = {
    "white": "register_half_function",
    "black": "register_float_function",
    "gray": "register_promote_function",
}
_color_of: dict[str, str] = {}
_is_used = False


def register_half_function(function: Any, name: str | None = None) -> None:
    """Lowers what the function computes: its op types go on the white list.

    Call it before initialize().

    Args:
        function: a function of TensorFlow's API, such as tf.nn.softmax or tf.raw_ops.Softmax; or
            the name of an op type, such as "Softmax"; or, as in Apex, the function's module.
        name: the name of the function, if a module is given.

    Raises:
        ValueError: it is not such a function, or is registered for another list.

    Source: apex.amp.register_half_function(module, name).
    """
    _register("white", function, name)


def register_float_function(function: Any, name: str | None = None) -> None:
    """Keeps what the function computes in float32: its op types go on the black list.

    The rest is as for register_half_function.
    """
    _register("black", function, name)


def register_promote_function(function: Any, name: str | None = None) -> None:
    """Computes in the widest dtype of the inputs: its op types go on the gray list.

    The rest is as for register_half_function.
    """
    _register("gray", function, name)


def registered() -> dict[str, list[str]]:
    """The op types of each list: "white", "black" or "gray"."""
    global _is_used
    _is_used = True
    return {
        color: sorted(op for op, its in _color_of.items() if its == color)
        for color in sorted(set(_color_of.values()))
    }


def forget_all() -> None:
    """Removes all registrations."""
    global _is_used
    _color_of.clear()
    _is_used = False


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
    if name is not None:
        if not hasattr(function, name):
            raise ValueError(
                f"name: got {_errors.got(name)}, which {_errors.got(function)} does not have"
                + _errors.did_you_mean(name, dir(function))
            )
        function = getattr(function, name)
    ops = [_known(function)] if isinstance(function, str) and function else op_types(function)
    for op in ops:
        other = _color_of.get(op, color)
        if other != color:
            raise ValueError(f"function: {op} is registered with {_REGISTERS[other]} already")
    _color_of.update(dict.fromkeys(ops, color))
    if _is_used:
        _LOGGER.warning(
            "%s: %s: initialize() was called already; only the next one sees this",
            _REGISTERS[color],
            ", ".join(ops),
        )

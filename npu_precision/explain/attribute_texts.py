"""A node's attributes besides dtypes, as short texts: strides, padding, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import message

# Of a list, the elements that are shown; of a text, the characters.
_MOST_ELEMENTS, _MOST_CHARACTERS = 12, 80
# TensorFlow records shapes under this name, if asked to.
_SHAPES = "_output_shapes"


def attribute_texts(definition: message.Message) -> tuple[tuple[str, str], ...]:
    """The attributes of a node, by name: ("strides", "1, 2, 2, 1").

    Dtypes are left out, as are the marks of TensorFlow and of the optimizer.

    Args:
        definition: the NodeDef.
    """
    found = []
    for name in sorted(definition.attr):
        if name.startswith("_"):
            continue
        text = _shortened(_text(definition.attr[name]))
        if text:
            found.append((name, text))
    return tuple(found)


def recorded_shapes(definition: message.Message) -> str:
    """The shapes of a node's outputs that TensorFlow recorded in it, as "[?, 8], []"; mostly "".

    Args:
        definition: the NodeDef.
    """
    return _shortened(_text(definition.attr[_SHAPES])) if _SHAPES in definition.attr else ""


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    if kind == "s":
        return value.s.decode("utf-8", "replace")
    if kind == "shape":
        return _shape(value.shape)
    if kind == "tensor":
        return f"a tensor of shape {_shape(value.tensor.tensor_shape)}"
    if kind == "func":
        return value.func.name
    if kind == "list":
        return _list(value.list)
    if kind in ("i", "f", "b"):
        return f"{getattr(value, kind):g}" if kind == "f" else str(getattr(value, kind))
    return ""  # A dtype, or nothing.


def _list(values: Any) -> str:
    texts = [
        *(each.decode("utf-8", "replace") for each in values.s),
        *map(str, values.i),
        *(f"{each:g}" for each in values.f),
        *map(str, values.b),
        *map(_shape, values.shape),
        *(each.name for each in values.func),
    ]
    more = ["..."] if len(texts) > _MOST_ELEMENTS else []
    return ", ".join([*texts[:_MOST_ELEMENTS], *more])


def shape_text(sizes: Sequence[int | None] | None) -> str:
    """A shape as "[?, 8]": None is an unknown size, or a shape of unknown rank ("unknown")."""
    if sizes is None:
        return "unknown"
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def _shape(shape: Any) -> str:
    sizes = [dimension.size if dimension.size >= 0 else None for dimension in shape.dim]
    return shape_text(None if shape.unknown_rank else sizes)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."

"""npu_bridge's helpers for hooks and callbacks, which have nothing to add on one host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def npu_hooks_append(hooks_list: Iterable[Any] | None = None) -> list[Any]:
    """A list of the same session hooks.

    npu_bridge appends hooks that broadcast variables among NPUs and set up their loops; with stock
    TensorFlow there is nothing to append.

    Source: npu_bridge's npu_hooks_append(hooks_list=None).
    """
    return list(hooks_list or ())


def npu_callbacks_append(callbacks_list: Iterable[Any] | None = None) -> list[Any]:
    """A list of the same Keras callbacks; see npu_hooks_append.

    Source: npu_bridge's npu_callbacks_append(callbacks_list=None).
    """
    return list(callbacks_list or ())

"""npu_bridge's helpers for hooks and callbacks, which add what several ranks need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_precision.hccl import ranks, training


def npu_hooks_append(hooks_list: Iterable[Any] | None = None) -> list[Any]:
    """A list of the same session hooks; of several ranks, with one that lets variables begin alike.

    Source: npu_bridge's npu_hooks_append(hooks_list=None).
    """
    hooks = list(hooks_list or ())
    if ranks.current().size > 1:
        hooks.append(training.NPUBroadcastGlobalVariablesHook())
    return hooks


def npu_callbacks_append(callbacks_list: Iterable[Any] | None = None) -> list[Any]:
    """A list of the same Keras callbacks; see npu_hooks_append.

    Source: npu_bridge's npu_callbacks_append(callbacks_list=None).
    """
    callbacks = list(callbacks_list or ())
    if ranks.current().size > 1:
        from npu_precision.hccl.callbacks import NPUBroadcastGlobalVariablesCallback

        callbacks.append(NPUBroadcastGlobalVariablesCallback())
    return callbacks

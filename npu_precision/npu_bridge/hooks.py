"""npu_bridge's helpers for hooks and callbacks, which add a broadcast of variables over ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npu_precision.hccl import ranks, training


def npu_hooks_append(hooks_list: Iterable[Any] | None = None) -> list[Any]:
    """Returns the session hooks as a list; with several ranks, adds one that broadcasts variables.

    Source: npu_bridge's npu_hooks_append(hooks_list=None).
    """
    hooks = list(hooks_list or ())
    if ranks.current().size > 1:
        hooks.append(training.NPUBroadcastGlobalVariablesHook())
    return hooks


def npu_callbacks_append(callbacks_list: Iterable[Any] | None = None) -> list[Any]:
    """Returns the Keras callbacks as a list; see npu_hooks_append.

    Source: npu_bridge's npu_callbacks_append(callbacks_list=None).
    """
    callbacks = list(callbacks_list or ())
    if ranks.current().size > 1:
        from npu_precision.hccl.callbacks import NPUBroadcastGlobalVariablesCallback

        callbacks.append(NPUBroadcastGlobalVariablesCallback())
    return callbacks

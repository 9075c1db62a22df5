"""Adds a PrecisionGuard to each training of a program that was not written for one."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import tensorflow as tf

import npu_precision_startup
from npu_precision import _tf_compat
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.options import PrecisionOptions, mixlist_file

tf1 = tf.compat.v1


class Guards:
    """Guards each fit of a Keras model, and each MonitoredSession that trains, from now on.

    A training that has a guard of its own keeps it.

    Args:
        path: the mixlist that the guards write.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0
        self._unreached: set[str] = set()
        HealedMixlist(path)  # Writes the file, which sessions read.
        _tf_compat.map_hooks_of_sessions(self._with_hook)
        self._is_patched = False
        if not _tf_compat.imports_keras_later():
            self._patch_fit()
        for name in npu_precision_startup.KERAS:
            npu_precision_startup.after_import(name, self._patch_fit)

    def _patch_fit(self) -> None:
        if not self._is_patched:
            self._is_patched = True
            _tf_compat.map_callbacks_of_fit(self._with_callback)

    def _with_callback(self, given: Any) -> Any:
        if given is None or isinstance(given, (list, tuple)):
            return self._with_guard(list(given or ()))
        if isinstance(given, tf.keras.callbacks.CallbackList):
            self._unreached.add("a fit() with a CallbackList")
            return given
        return self._with_guard([given])

    def _with_hook(self, given: Any) -> list[Any]:
        hooks = list(given or ())
        if not tf1.get_collection(tf1.GraphKeys.TRAIN_OP):  # It evaluates.
            return hooks
        if not tf1.get_collection(tf1.GraphKeys.LOSSES):
            self._unreached.add("a session whose graph has no losses in their collection")
            return hooks
        return self._with_guard(hooks)

    def _with_guard(self, given: list[Any]) -> list[Any]:
        # It imports Keras.
        from npu_precision.guard.guard import PrecisionGuard

        self._count += 1
        if any(isinstance(each, PrecisionGuard) for each in given):
            return given
        return [*given, PrecisionGuard(self._path)]

    def summary(self) -> str:
        """What was guarded and healed, in a sentence or two."""
        lines = [f"Not guarded: {each}" for each in sorted(self._unreached)]
        if self._count == 0:
            lines.append("No training was guarded: no fit() ran, and no MonitoredSession trained")
        elif HealedMixlist(self._path).is_empty:
            lines.append("Nothing was healed")
        else:
            lines.append(f"{self._path} keeps what was healed")
        return ". ".join(lines)


def with_healed(options: PrecisionOptions, path: str) -> PrecisionOptions:
    """The options with the mixlist that guards write, and their own one on top of it.

    Raises:
        ValueError: there is no room for their own one.
        OSError: it cannot be read.
    """
    changes: dict[str, Any] = {"modify_mixlist": path}
    given = mixlist_file(options)
    own = options.modify_mixlist if given is None else pathlib.Path(given).read_text("utf-8")
    if own is not None:
        if options.mixlist_edits is not None:
            raise ValueError(
                "got --mixlist and --mixlist-edits, expected one of the two beside --healed"
            )
        changes["mixlist_edits"] = str(own)
    return dataclasses.replace(options, **changes)

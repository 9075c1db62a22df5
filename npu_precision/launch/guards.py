"""Adds a PrecisionGuard to each training of a program that was not written for one."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.guard.guard import PrecisionGuard
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.options import PrecisionOptions, mixlist_file

tf1 = tf.compat.v1


def add_guards(path: str) -> None:
    """Adds a guard to each fit of a Keras model, and to each MonitoredSession that trains.

    A training that has a guard of its own keeps it.
    """

    def with_guard(given: Any) -> list[Any]:
        callbacks = list(given or ())
        if not any(isinstance(each, PrecisionGuard) for each in callbacks):
            callbacks.append(PrecisionGuard(path))
        return callbacks

    _tf_compat.map_callbacks_of_fit(with_guard)
    _tf_compat.map_hooks_of_sessions(
        lambda hooks: with_guard(hooks) if _trains() else list(hooks or ())
    )


def _trains() -> bool:
    """Whether the default graph has an op that an optimizer made to train."""
    return bool(tf1.get_collection(tf1.GraphKeys.TRAIN_OP))


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
                "got --healed with --mixlist and --mixlist-edits, expected one of both"
            )
        changes["mixlist_edits"] = str(own)
    return dataclasses.replace(options, **changes)


def summary(path: str) -> str:
    """What was healed, in a sentence."""
    mixlist = HealedMixlist(path)
    return "Nothing was healed" if mixlist.is_empty else f"{path} keeps what was healed"

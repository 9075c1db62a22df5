"""Tells the open recorders what a PrecisionGuard does: what it tries, and what it heals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

# Each has see_trials(begin) and see_heal(event).
_recorders: list[Any] = []
# Trials are made inside of trials.
_depth = 0


def add_recorder(recorder: Any) -> None:
    """Tells a recorder from now on."""
    _recorders.append(recorder)


def remove_recorder(recorder: Any) -> None:
    """Does not tell it any more."""
    if recorder in _recorders:
        _recorders.remove(recorder)


@contextlib.contextmanager
def trials() -> Iterator[None]:
    """Inside, steps are trials of a guard, and no part of the training."""
    global _depth
    _depth += 1
    if _depth == 1:
        for each in list(_recorders):
            each.see_trials(True)
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            for each in list(_recorders):
                each.see_trials(False)


def healed(where: str, begins: str, entries: Mapping[str, str], mixlist: str, text: str) -> None:
    """Tells that a step goes well now.

    Args:
        where: the step, and what was wrong.
        begins: how the fault begins.
        entries: the entries that were added to the mixlist, with their reasons.
        mixlist: the path of the mixlist.
        text: its content, or "" if it could not be written.
    """
    event = {
        "event": "heal",
        "where": where,
        "begins": begins,
        "entries": dict(entries),
        "mixlist": mixlist,
        "text": text,
    }
    for each in list(_recorders):
        each.see_heal(event)

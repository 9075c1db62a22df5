"""Shared parts of error messages."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The text " (did you mean 'x'?)" for the nearest of the known names, or ""."""
    near = nearest(name, known)
    return f" (did you mean {near!r}?)" if near else ""


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name that the fewest edits make of the given one, or that begins with it.

    The library compares names in the same way, in graph_passes/lists/did_you_mean.cc; a test holds
    the two together. The command `compat` runs without TensorFlow, and so without the library.

    Args:
        given: the wrong name.
        names: the known ones; of those that are as near, the first is taken.

    Returns:
        None if more than a third of the given name would change.
    """
    wanted = given.lower()
    known = list(names)
    limit = max(1, min(len(wanted) // 3, 6))
    found = None
    for name in known:
        distance = _edits(wanted, name.lower(), limit)
        if distance <= limit:
            found, limit = name, distance - 1
        if limit < 0:
            return found
    if found is not None or len(wanted) < 4:
        return found
    return next((name for name in known if name.lower().startswith(wanted)), None)


def got(value: object) -> str:
    """A value and its type, for "got X, expected Y"."""
    return f"{value!r} ({type(value).__name__})"


def _edits(a: str, b: str, limit: int) -> int:
    """The letters to add, drop, replace, or swap with the next; or a number above the limit."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    last: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, last, row = last, row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(last[j - 1] + (letter != other), last[j] + 1, row[j - 1] + 1))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                row[j] = min(row[j], before[j - 2] + 1)
        if min(row) > limit and min(last) >= limit:
            return limit + 1
    return row[-1]

"""Finds the known name that is nearest to a wrong one.

The command `compat` runs without TensorFlow, and so without the library, which compares names in
graph_passes/lists/did_you_mean.cc. This is the same comparison; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name that the fewest edits make of the given one, or that begins with it.

    Args:
        given: the wrong name.
        names: the known names; the first of equally near ones is taken.

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


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """The text "did you mean 'x'?", or ""."""
    near = nearest(given, names)
    return f"did you mean {near!r}?" if near else ""


def _edits(a: str, b: str, limit: int) -> int:
    """The Levenshtein distance, or a number above the limit."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            substituted = diagonal + (letter != other)
            diagonal = row[j]
            row[j] = min(substituted, row[j] + 1, row[j - 1] + 1)
        if min(row) > limit:
            return limit + 1
    return row[-1]

"""Shared parts of error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The text " (did you mean 'x'?)" for the nearest of the known names, or ""."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def got(value: object) -> str:
    """A value and its type, for "got X, expected Y"."""
    return f"{value!r} ({type(value).__name__})"

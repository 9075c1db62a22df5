"""Logs, once each, the names in a script that have no effect on stock TensorFlow."""

from __future__ import annotations

import logging
from collections.abc import Iterable

_LOGGER = logging.getLogger("npu_precision")
_named: set[tuple[str, str]] = set()


def name_once(what: str, names: Iterable[str] = ()) -> None:
    """Warns once that `what`, or each of these parts of it, has no effect.

    Args:
        what: a function, class or option, as scripts write it.
        names: the arguments or fields of it that were given; empty for `what` as a whole.
    """
    names = list(names)
    new = [name for name in names or [""] if (what, name) not in _named]
    _named.update((what, name) for name in new)
    if new and names:
        verb = "has" if len(new) == 1 else "have"
        _LOGGER.warning("%s: %s %s no effect on stock TensorFlow", what, ", ".join(new), verb)
    elif new:
        _LOGGER.warning("%s has no effect on stock TensorFlow", what)

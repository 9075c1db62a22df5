"""The log line about options of Ascend that have no effect on stock TensorFlow."""

from __future__ import annotations

import logging

_LOGGER = logging.getLogger("npu_precision")
_named: set[tuple[str, str]] = set()


def name_once(caller: str, *names: str) -> None:
    """Logs in one line that these names have no effect here, each name once in a process.

    Args:
        caller: the owner of the names, for the beginning of the line; "" if they stand alone.
        *names: functions, arguments or options, as a user writes them.
    """
    new = [name for name in dict.fromkeys(names) if (caller, name) not in _named]
    if not new:
        return
    _named.update((caller, name) for name in new)
    begin = f"{caller}: " if caller else ""
    verb = "has" if len(new) == 1 else "have"
    _LOGGER.warning("%s%s %s no effect on stock TensorFlow", begin, ", ".join(new), verb)

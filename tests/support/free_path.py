"""The name of a file that is not there yet."""

from __future__ import annotations

import pathlib


def free_path(path: pathlib.Path) -> pathlib.Path:
    """The path, or the first of NAME-2.xml, NAME-3.xml, ... that is not there yet."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free

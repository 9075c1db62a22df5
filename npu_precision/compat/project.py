"""Examines the scripts and lists of names at the paths that a user gives."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator

from npu_precision.compat import coverage, script
from npu_precision.compat.coverage import Counted
from npu_precision.compat.script import Found
from npu_precision.compat.table import Table

_LISTS = (".txt", ".csv")


@dataclasses.dataclass(frozen=True)
class Examined:
    """The findings in scripts and lists.

    Attributes:
        scripts: the uses by path, in the order of the paths; empty for a script that uses no name.
        lists: the names of each list, by path.
    """

    scripts: dict[str, list[Found]]
    lists: dict[str, list[Counted]]


def examine(paths: Iterable[str], names: Table) -> Examined:
    """Reads scripts, the scripts in folders, and lists of names (.txt, .csv).

    Args:
        paths: files and folders.
        names: the table of names.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ValueError: a folder without a script, or what coverage.read() refuses.
    """
    examined = Examined({}, {})
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"no file or folder {path!r}; expected a Python script, a folder of scripts, or a "
                "list of names (.txt, .csv)"
            )
        if os.path.isfile(path) and path.endswith(_LISTS):
            text = pathlib.Path(path).read_text(encoding="utf-8")
            examined.lists[path] = coverage.read(text, path, names)
            continue
        files = list(_scripts(path)) if os.path.isdir(path) else [path]
        if not files:
            raise ValueError(f"{path}: has no Python script in it")
        for file in files:
            examined.scripts[file] = script.scan(pathlib.Path(file).read_bytes(), names)
    return examined


def _scripts(folder: str) -> Iterator[str]:
    """The scripts below a folder, without hidden files and folders, such as .venv."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(files):
            path = os.path.join(parent, name)
            if name.endswith(".py") and os.path.isfile(path):
                yield path

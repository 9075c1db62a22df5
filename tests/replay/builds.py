"""Builds the libraries of two sides: a commit, checked out separately, and the working tree."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sys
from collections.abc import Iterator

from replay.commits import git
from replay.processes import ReplayError, end_of, run


@contextlib.contextmanager
def checked_out(commit: str, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Context with the commit's files in a new folder, which is deleted at the end."""
    try:
        git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        yield folder
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)
        git("worktree", "prune")


def build(sources: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Builds a library with its setup.py, into a folder; objects stay with the sources.

    Raises:
        ReplayError: setup.py failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    environment = {
        "NPU_PRECISION_BUILD": "build",
        # Without the reports' page: setup.py builds the library even if there is no Node.js.
        "NPU_PRECISION_NODE": str(folder / "no_node"),
    }
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(folder)]
    if run(command, log, sources, environment) != 0:
        raise ReplayError(f"{sources} does not build:\n{end_of(log)}")
    return library_in(folder)


def library_in(folder: pathlib.Path) -> pathlib.Path:
    """The library that setup.py put somewhere in a folder."""
    return next(folder.glob("**/npu_optimizer.tf-*.so"))


def build_commit(commit: str, folder: pathlib.Path) -> pathlib.Path:
    """Builds the library of a commit into a folder."""
    with checked_out(commit, folder / "sources") as sources:
        return build(sources, folder)

"""Builds the libraries of two sides: a commit, checked out separately, and the working tree."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import tensorflow as tf

from replay.processes import ReplayError, end_of, run

ROOT = pathlib.Path(__file__).resolve().parents[2]


def git(*arguments: str) -> str:
    """Runs git on the repository; returns what it prints.

    Raises:
        ReplayError: git failed.
    """
    process = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise ReplayError(f"git {' '.join(arguments)}: {process.stderr.strip()}")
    return process.stdout.strip()


def commit_of(reference: str) -> str:
    """The full name of a commit.

    Raises:
        ReplayError: there is no such commit.
    """
    return git("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")


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
    return next(folder.glob(f"**/npu_optimizer.tf-{tf.__version__}.so"))


def build_commit(commit: str, folder: pathlib.Path) -> pathlib.Path:
    """Builds the library of a commit into a folder."""
    with checked_out(commit, folder / "sources") as sources:
        return build(sources, folder)

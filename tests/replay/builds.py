"""The libraries of two sides: a commit in a work tree of its own, and the files as they are."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]


class BuildError(Exception):
    """Why there is no library."""


def git(*arguments: str) -> str:
    """Runs git on the repository; returns what it prints.

    Raises:
        BuildError: it failed.
    """
    process = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise BuildError(f"git {' '.join(arguments)}: {process.stderr.strip()}")
    return process.stdout.strip()


def commit_of(reference: str) -> str:
    """The full name of a commit.

    Raises:
        BuildError: there is no such commit.
    """
    return git("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")


@contextlib.contextmanager
def checked_out(commit: str, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The commit's files, in a new folder that is gone at the end."""
    git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder))


def build(sources: pathlib.Path, output: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """Builds the library by its own setup.py, with objects in its own build/; returns a copy of it.

    Raises:
        BuildError: setup.py failed; the message ends with what it printed last.
    """
    environment = {
        **os.environ,
        "NPU_PRECISION_BUILD": "build",
        # No page of reports: where there is no Node.js, setup.py builds the library all the same.
        "NPU_PRECISION_NODE": str(output / "no_node"),
    }
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(output)]
    with log.open("w") as file:
        process = subprocess.run(
            command, cwd=str(sources), env=environment, stdout=file, stderr=file, check=False
        )
    libraries = sorted(output.glob("**/npu_optimizer.tf-*.so"))
    if process.returncode != 0 or not libraries:
        raise BuildError(f"{sources} does not build:\n{log.read_text(errors='replace')[-4000:]}")
    return libraries[0]


def build_commit(commit: str, folder: pathlib.Path, keep: pathlib.Path | None) -> pathlib.Path:
    """The library of a commit, built in a folder; or the one of an earlier run, if one is kept."""
    kept = keep / f"{commit}-tf-{_tensorflow_version()}.so" if keep else None
    if kept and kept.exists():
        return kept
    with checked_out(commit, folder / "sources") as sources:
        library = build(sources, folder / "built", folder / "log")
    if not kept:
        return library
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(library), f"{kept}.partial")
    os.replace(f"{kept}.partial", str(kept))
    return kept


def _tensorflow_version() -> str:
    import tensorflow as tf

    return tf.__version__

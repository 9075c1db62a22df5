"""The git commands that `make replay` runs."""

from __future__ import annotations

import pathlib
import subprocess

from replay.processes import ReplayError

ROOT = pathlib.Path(__file__).resolve().parents[2]


def git(*arguments: str) -> str:
    """Runs git on the repository; returns its output.

    Raises:
        ReplayError: git failed.
    """
    process = _finished(*arguments)
    if process.returncode != 0:
        raise ReplayError(f"git {' '.join(arguments)}: {process.stderr.strip()}")
    return process.stdout.strip()


def commit_of(reference: str) -> str:
    """The full name of a commit.

    Raises:
        ReplayError: there is no such commit.
    """
    process = _finished("rev-parse", "--verify", "--quiet", f"{reference}^{{commit}}")
    if process.returncode != 0:
        # The output is empty if only the name is wrong.
        why = process.stderr.strip()
        raise ReplayError(
            f"REF: {reference!r} is no commit of this repository; give a branch, a tag or a hash, "
            f"as in REF=main{why and f' ({why})'}"
        )
    return process.stdout.strip()


def _finished(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )

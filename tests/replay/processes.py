"""Processes that leave nothing running behind: each is the head of a group that ends with it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence


class ReplayError(Exception):
    """Why the sides cannot be compared."""


@contextlib.contextmanager
def started(
    command: Sequence[str], log: pathlib.Path, folder: pathlib.Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process that writes into a file, killed with those that it started if it still runs."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=str(folder),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(
    command: Sequence[str], log: pathlib.Path, folder: pathlib.Path, environment: Mapping[str, str]
) -> int:
    """Waits for a process; returns its status."""
    with started(command, log, folder, environment) as process:
        return process.wait()


def end_of(log: pathlib.Path) -> str:
    """What a process wrote last."""
    return log.read_text(errors="replace")[-4000:]

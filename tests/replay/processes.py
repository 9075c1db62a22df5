"""Starts processes in groups of their own, so that none of their children keeps running."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence


class ReplayError(Exception):
    """The sides cannot be compared, for the reason in the message."""


@contextlib.contextmanager
def started(
    command: Sequence[str], log: pathlib.Path, folder: pathlib.Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Context of a process that writes to a file; at the end it is killed with its children."""
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
    """The last lines that a process wrote."""
    return log.read_text(errors="replace")[-4000:]

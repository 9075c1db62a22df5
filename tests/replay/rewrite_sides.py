"""Rewrites the corpus with each side's library, in separate processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import Any

from replay.processes import ReplayError, end_of, started

TESTS = pathlib.Path(__file__).resolve().parents[1]
MOST_CRASHES = 20


@dataclasses.dataclass(frozen=True)
class Side:
    """One of the two sides.

    Attributes:
        name: its name in messages.
        library: its build.
        folder: the folder for its results.
        options: further options to set in every case.
    """

    name: str
    library: pathlib.Path
    folder: pathlib.Path
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def results(self, share: int) -> pathlib.Path:
        """The file with a line for each case of a share."""
        return self.folder / f"{share}.jsonl"


def shares() -> int:
    """The number of shares that each side's cases are split into: one for each core."""
    return os.cpu_count() or 1


def rewrite_sides(corpus_folder: pathlib.Path, sides: list[Side]) -> None:
    """Writes the results of each side, with one process per core at a time.

    Raises:
        ReplayError: a process fails as a whole, rather than at some cases.
    """
    pending = [(side, share) for share in range(shares()) for side in sides]
    running: list[_Share] = []
    with contextlib.ExitStack() as stack:
        while pending or running:
            while pending and len(running) < shares():
                share = _Share(corpus_folder, *pending.pop(0))
                running.append(stack.enter_context(contextlib.closing(share)))
            running = [share for share in running if not share.is_done()]
            time.sleep(0.1)


class _Share:
    """A share of the cases on one side.

    If a process dies, that is the result of its current case, and another process continues.
    """

    def __init__(self, corpus_folder: pathlib.Path, side: Side, share: int) -> None:
        self._corpus_folder = corpus_folder
        self._side = side
        self._share = share
        self._log = side.folder / f"{share}.log"
        self._crashes = 0
        self._stack = contextlib.ExitStack()
        side.folder.mkdir(parents=True, exist_ok=True)
        side.results(share).write_text("")
        self._start()

    def _start(self) -> None:
        results = self._side.results(self._share)
        done = len(results.read_text().splitlines())
        numbers = [self._share + done * shares(), shares()]
        command = [sys.executable, "-m", "replay.rewrite_corpus", str(self._side.library)]
        command += [str(self._corpus_folder), str(results), *map(str, numbers)]
        command.append(json.dumps(self._side.options))
        # Hides the machine's own GPU, because the case lists the devices.
        environment = {"PYTHONPATH": str(TESTS), "CUDA_VISIBLE_DEVICES": "-1"}
        self._process = self._stack.enter_context(
            started(command, self._log, self._side.folder, environment)
        )

    def is_done(self) -> bool:
        status = self._process.poll()
        if status is None or status == 0:
            return status == 0
        self._crashes += 1
        if status > 0 or self._crashes > MOST_CRASHES:
            raise ReplayError(f"{self._side.name} cannot rewrite:\n{end_of(self._log)}")
        result = {"error": f"the process died of signal {-status}"}
        with self._side.results(self._share).open("a") as file:
            file.write(json.dumps({**result, "ledgers": {}, "left_out": [], "added": []}) + "\n")
        self._start()
        return False

    def close(self) -> None:
        self._stack.close()

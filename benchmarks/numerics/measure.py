"""Runs programs in worker processes, and judges how far from float32 they ended."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
# The time for a worker to import TensorFlow on a busy machine.
_START_SECONDS = 120
GOOD = ("ok", "does not apply")
# Compiling takes longer than a program.
_COMPILING = 5


class Workers:
    """A worker per contender, started at its first use, and again after it died or did not end.

    Args:
        compiled: whether XLA compiles the programs.
    """

    def __init__(self, compiled: bool = False) -> None:
        self._compiled = compiled
        self._running: dict[str, subprocess.Popen] = {}

    def run(self, contender: str, program: str, seconds: float, edits: dict | None = None) -> dict:
        """The worker's reply, or {"died": status}, or {"endless": seconds}."""
        if contender not in self._running:
            worker = self._running[contender] = _start(contender)
            if "ready" not in (_reply(worker, _START_SECONDS) or {}):
                raise RuntimeError(f"the worker of {contender} does not start; run it by itself")
        worker = self._running[contender]
        assert worker.stdin is not None
        request = json.dumps({"program": program, "edits": edits, "compiled": self._compiled})
        worker.stdin.write((request + "\n").encode())
        worker.stdin.flush()
        reply = _reply(worker, seconds * (_COMPILING if self._compiled else 1))
        if reply is None or "died" in reply:
            self._stop(contender)
        return {"endless": seconds} if reply is None else reply

    def close(self) -> None:
        """Ends all workers."""
        for contender in list(self._running):
            self._stop(contender)

    def _stop(self, contender: str) -> None:
        worker = self._running.pop(contender)
        worker.kill()
        worker.wait()


def _start(contender: str) -> subprocess.Popen:
    # The packages may be on this process's path alone.
    given = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([str(FOLDER.parent), str(FOLDER.parent.parent), *given])
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        [sys.executable, "-m", "numerics.worker", contender],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("NUMERICS_LOG") else subprocess.DEVNULL,
        env=environment,
    )


def _reply(worker: subprocess.Popen, seconds: float) -> dict | None:
    """The next line of a worker; None if none comes in time."""
    assert worker.stdout is not None
    ready, _, _ = select.select([worker.stdout], [], [], seconds)
    if not ready:
        return None
    line = worker.stdout.readline()
    return json.loads(line) if line else {"died": worker.wait()}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a program under a contender.

    Attributes:
        status: "ok", "far", "not finite", "does not end", "crashes", "error" or "does not apply".
        value: the last loss, or the mean size of the result; None if there is none.
        distance: the distance from float32, as a share of the size of float32's values; None if
            there is none.
        lowered: the names of the lowered nodes, by op type.
        error: the text of an error.
    """

    status: str
    value: float | None = None
    distance: float | None = None
    lowered: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return self.status in GOOD


def judge(reply: dict, reference: dict, tolerance: float) -> Verdict:
    """Compares a reply with float32's reply."""
    if "endless" in reply:
        return Verdict("does not end")
    if "died" in reply:
        return Verdict("crashes")
    if "error" in reply:
        return Verdict("error", error=reply["error"])
    if "does_not_apply" in reply:
        return Verdict("does not apply")
    found = np.array(reply["values"])
    expected = np.array(reference.get("values", found))
    value = _size(found)
    if found.shape != expected.shape:
        return Verdict("far", value, None, reply["lowered"])
    # Any value is right where float32 has an infinity or NaN.
    known = np.isfinite(expected)
    if not np.isfinite(found[known]).all():
        return Verdict("not finite", value, None, reply["lowered"])
    scale = max(np.abs(expected[known]).max(initial=0.0), reference.get("start", 0.0))
    distance = float(np.abs(found[known] - expected[known]).max(initial=0.0) / (scale or 1.0))
    status = "ok" if distance <= tolerance else "far"
    return Verdict(status, value, distance, reply["lowered"])


def _size(values: np.ndarray) -> float:
    """The value of a loss; for several values, the mean of their magnitudes."""
    return float(values[0]) if values.size == 1 else float(np.abs(values).mean())

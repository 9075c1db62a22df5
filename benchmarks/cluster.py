"""Runs the workers of a cluster as processes on this machine, which take a step on request.

So several clusters can take turns, each with settings of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from support import workers

_HERE = pathlib.Path(__file__).parent
_ATTEMPTS = 3
_TAIL = 2000


class PortTaken(RuntimeError):
    """Another process got a port between its choice and its use."""


class Cluster:
    """Workers that each read a line, take a step or run a training, and answer with the loss."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]], folder: pathlib.Path):
        self._processes = processes
        self._folder = folder
        # Each line with the number of its worker. An empty line means that the worker ended.
        self._lines: queue.Queue[tuple[int, str]] = queue.Queue()
        for index, process in enumerate(processes):
            threading.Thread(target=self._read, args=(index, process), daemon=True).start()

    def step(self, seconds: float) -> list[float]:
        """Has each worker take a step; returns their answers after the last one.

        Raises:
            RuntimeError: a worker ended, or the workers took longer than `seconds`. The message
                shows the end of each worker's stderr.
        """
        for process in self._processes:
            assert process.stdin is not None
            # If a worker has ended, the thread that reads its output reports it.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
        return self.answers(seconds)

    def answers(self, seconds: float) -> list[float]:
        """The next answer of each worker; raises the same errors as step()."""
        found: dict[int, float] = {}
        deadline = time.monotonic() + seconds
        while len(found) < len(self._processes):
            try:
                index, line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                late = [i for i in range(len(self._processes)) if i not in found]
                raise self._failure(f"workers {late} took more than {seconds} s") from None
            if not line:
                raise self._failure(f"worker {index} ended")
            found[index] = float(line)
        return [found[index] for index in range(len(self._processes))]

    def _read(self, index: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put((index, line))
        self._lines.put((index, ""))

    def _failure(self, problem: str) -> RuntimeError:
        errors = [
            (self._folder / f"stderr{index}").read_text() for index in range(len(self._processes))
        ]
        is_taken = any(workers.TAKEN in text for text in errors)
        tails = [f"worker {index}:\n{text[-_TAIL:]}" for index, text in enumerate(errors)]
        return (PortTaken if is_taken else RuntimeError)("\n".join([problem, *tails]))


def same(name: str, losses: Sequence[float]) -> float:
    """The loss that all workers answered, which may be infinity or NaN.

    Raises:
        RuntimeError: the losses differ; the message has the contender's name.
    """
    if len({repr(loss) for loss in losses}) > 1:
        raise RuntimeError(f"{name}: the workers differ in the loss: {[*losses]}")
    return losses[0]


def counts(text: str) -> list[int]:
    """Reads a flag: the numbers of workers, separated by commas."""
    for count in text.split(","):
        if not count.isdigit() or int(count) < 2:
            raise argparse.ArgumentTypeError(f"got {count!r}, expected numbers of at least 2")
    return [int(count) for count in text.split(",")]


def bytes_to_reduce(ledgers: pathlib.Path) -> tuple[int, int]:
    """Bytes of the all-reduces of a training step: in float32, and lowered."""
    (path,) = ledgers.glob("*train*.json")
    totals = json.loads(path.read_text())["totals"]
    return totals["collective_bytes_before"], totals["collective_bytes_after"]


@contextlib.contextmanager
def started(
    script: str, folder: pathlib.Path, count: int, arguments: Sequence[str], seconds: float
) -> Iterator[Cluster]:
    """Context of a cluster that is ready for its first step; its processes end with the context.

    Args:
        script: the script of the workers, a file beside this one.
        folder: an empty folder, for the workers' stderr and temporary files.
        count: the number of workers.
        arguments: the arguments of the script.
        seconds: how long the workers may take to be ready.

    Raises:
        RuntimeError: as in Cluster.step.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        with contextlib.ExitStack() as stack:
            processes = []
            for index, place in enumerate(workers.places({"worker": count})):
                errors = stack.enter_context((folder / f"stderr{index}").open("w"))
                process = workers.worker(
                    [sys.executable, str(_HERE / script), *arguments],
                    place,
                    # AutoGraph's files would outlive workers that are killed.
                    env={"TMPDIR": str(folder)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
                processes.append(stack.enter_context(process))
            cluster = Cluster(processes, folder)
            try:
                cluster.answers(seconds)
            except PortTaken:
                if attempt == _ATTEMPTS:
                    raise
                continue
            yield cluster
            return

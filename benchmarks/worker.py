"""Worker: a Runner in a process of its own, which answers questions of one line each.

It lets contenders whose settings hold for a whole process take turns with the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

import numpy as np
from runner import Ran, Runner

_TAIL = 2000


class WorkerFailed(RuntimeError):
    """The process ended; the message has the end of its stderr.

    Attributes:
        contender: the contender of the process.
    """

    def __init__(self, contender: str, errors: str):
        super().__init__(f"{contender}: {errors[-_TAIL:]}")
        self.contender = contender


class Worker:
    """The Runner of another process."""

    def __init__(
        self,
        contender: str,
        process: subprocess.Popen[str],
        errors: TextIO,
        result: pathlib.Path,
    ):
        self._contender = contender
        self._process = process
        self._errors = errors
        self._result = result

    def first(self) -> np.ndarray:
        """As Runner; like the other methods, raises WorkerFailed."""
        self._ask("first")
        return np.load(self._result)

    def step(self) -> None:
        """As Runner."""
        self._ask("step")

    def what_ran(self) -> Ran:
        """As Runner."""
        return json.loads(self._ask("trace"))

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._errors.seek(0)
            raise WorkerFailed(self._contender, self._errors.read())
        return answer


@contextlib.contextmanager
def started(
    contender: str,
    python: str,
    script: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> Iterator[Worker]:
    """Context of a worker, which ends with the context.

    Args:
        contender: the worker's contender.
        python: the interpreter that runs the script.
        script: a file that calls answer() with its last argument.
        arguments: the script's arguments; the path of results is added as the last one.
        environment: all variables of the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.npy"
        with open(pathlib.Path(folder) / "log", "w+") as errors, subprocess.Popen(
            [python, script, *arguments, str(result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, "TMPDIR": folder},
        ) as process:
            try:
                yield Worker(contender, process, errors, result)
            finally:
                process.kill()
                with contextlib.suppress(BrokenPipeError):  # unsent data can be dropped
                    process.stdin.close()


def answer(runner: Runner, result: str) -> None:
    """The worker's side: answers the questions on stdin, and saves the first step's result."""
    # Other output must not look like an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        found = None
        if line.strip() == "trace":
            found = runner.what_ran()
        elif line.strip() == "first":
            np.save(result, runner.first())
        else:
            runner.step()
        print(json.dumps(found), file=answers, flush=True)

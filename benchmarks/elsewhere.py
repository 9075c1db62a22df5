"""A contender in an environment of its own, because Intel's extension changes every session.

Its process waits for a line, runs a step and answers, so that it can take turns with the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TextIO

import numpy as np
import tensorflow as tf

_ROOT = pathlib.Path(__file__).resolve().parent.parent
ITEX = "itex amp"
_PYTHON = _ROOT / ".nox" / "itex" / "bin" / "python"
_ENVIRONMENT = {
    "ITEX_AUTO_MIXED_PRECISION": "1",
    "ITEX_AUTO_MIXED_PRECISION_DATA_TYPE": "BFLOAT16",
    # Keeps its threads from spinning while others run.
    "KMP_BLOCKTIME": "0",
    "OMP_WAIT_POLICY": "passive",
}


def has_itex() -> bool:
    """Whether `nox -s itex` has made the environment, and for this TensorFlow."""
    return _PYTHON.exists() and tf.__version__.startswith("2.15.")


class Worker:
    """ITEX's mixed precision on a task, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], errors: TextIO, result: pathlib.Path):
        self._process = process
        self._errors = errors
        self._result = result

    def first(self) -> np.ndarray:
        """Runs the first step, and returns its result."""
        self._ask("first")
        return np.load(self._result)

    def step(self) -> None:
        """Runs a step."""
        self._ask("step")

    def what_ran(self) -> list:
        """The same as measure.what_ran, in that process."""
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
            raise RuntimeError(f"{ITEX}: {self._errors.read()[-2000:]}")
        return answer


@contextlib.contextmanager
def worker(name: str, graphs_folder: pathlib.Path) -> Iterator[Worker]:
    """A worker on one of run.py's tasks, which ends with the `with` block."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.npy"
        # Our package is not installed there, and must not be found.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with open(pathlib.Path(folder) / "log", "w+") as errors, subprocess.Popen(
            [str(_PYTHON), __file__, name, str(graphs_folder), str(result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, **_ENVIRONMENT},
        ) as process:
            try:
                yield Worker(process, errors, result)
            finally:
                process.kill()
                with contextlib.suppress(BrokenPipeError):  # unsent data can be dropped
                    process.stdin.close()


def _answer(name: str, graphs_folder: pathlib.Path, result: pathlib.Path) -> None:
    import contenders
    import measure
    from task import task

    running = task(name, graphs_folder)
    with running.session(contenders.config(contenders.BASELINE)) as session:
        for line in sys.stdin:
            answer: object = None
            if line.strip() == "trace":
                answer = measure.what_ran(session, running.fetches, running.feeds)
            elif line.strip() == "first":
                np.save(result, running.step(session))
            else:
                running.step(session)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT / "tests"))
    _answer(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))

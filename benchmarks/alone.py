"""Measures peak memory and rewrite time of a contender in its own process. Linux only."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

import contenders

_STEPS = 3


@dataclasses.dataclass(frozen=True)
class Alone:
    """The cost of a contender: of a process that ran three steps.

    Attributes:
        peak_bytes: the peak of resident memory.
        rewrite_seconds: the time of the contender's Grappler pass, over all graphs and iterations;
            None for a contender without a pass.
    """

    peak_bytes: int
    rewrite_seconds: float | None


def measured(name: str, graphs_folder: pathlib.Path, names: Sequence[str]) -> dict[str, Alone]:
    """The measurements of the row of this name, by contender. Not for rows of Keras' fit."""
    found = {}
    for contender in names:
        command = [sys.executable, __file__, name, str(graphs_folder), contender]
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, env=logging_passes()
        )
        if process.returncode != 0:
            raise RuntimeError(f"{contender} on {name}: {process.stderr[-2000:]}")
        times = pass_seconds(process.stderr, contenders.grappler_name(contender))
        found[contender] = Alone(int(process.stdout.split()[-1]), sum(times) if times else None)
    return found


def logging_passes() -> dict[str, str]:
    """An environment in which TensorFlow logs the time of each Grappler pass."""
    return dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0", TF_CPP_VMODULE="meta_optimizer=1")


def pass_seconds(log: str, grappler_name: str | None) -> list[float]:
    """Seconds of each run of a pass in TensorFlow's log, without the summary that repeats them."""
    # A pass that did nothing is only in the summary, which sessions do not write.
    pattern = rf"(?:\] |^  ){grappler_name}: .*time = ([0-9.]+)ms"
    return [float(found) / 1e3 for found in re.findall(pattern, log, re.MULTILINE)]


def peak() -> int:
    """The peak of this process's resident memory, in bytes."""
    # Not ru_maxrss, which starts at the parent's value in a child process.
    status = pathlib.Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _run_once(name: str, graphs_folder: pathlib.Path, contender: str) -> None:
    import rows
    import task

    with task.task(rows.row(name), graphs_folder).runner(contender) as runner:
        for _ in range(_STEPS):
            runner.step()
    print(peak())


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
    _run_once(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])

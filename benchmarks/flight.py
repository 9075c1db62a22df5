"""Measures what a flight recorder costs a training step.

    python benchmarks/flight.py

Two sessions take the same steps in turn. One is watched by a recorder that records every second
step; the other is not watched. The figures are medians over rounds of the ratio of adjacent
measurements, for steps that are watched but not recorded, and for steps that are recorded. The cost
at the default, where one step in a hundred is recorded, follows from both.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measure
import measurements
import report
import tensorflow as tf
import training_graphs

import npu_precision

tf1 = tf.compat.v1
_N = 100
_COLUMNS: report.Columns = {
    **dict.fromkeys(("model", "mode"), "left"),
    **dict.fromkeys(("tensors", "ms", "watched", "recorded", f"N = {_N}"), "right"),
}


def costs(model: str, mode: str, seconds: float) -> tuple[int, float, float, float]:
    """(watched tensors, milliseconds per step, and the ratios of both kinds of steps to it)."""
    training = training_graphs.training_graph(model)
    config = npu_precision.npu_config_proto(precision_mode_v2=mode)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def started() -> Callable[[], object]:
            session = stack.enter_context(tf1.Session(graph=training.graph, config=config))
            session.run(training.init)
            step = functools.partial(session.run, [training.loss, training.step], training.feeds)
            step()
            return step

        plain = started()
        with npu_precision.FlightRecorder(folder, every_n_steps=2):
            watched = started()
            watched()  # Each round begins with a step that is recorded.
            steps = {"plain": plain, "recorded": watched, "again": plain, "idle": watched}
            times = measure.in_rounds(steps, seconds)
        lines = (pathlib.Path(folder) / "flight.jsonl").read_text().splitlines()
    (tensors,) = (line["tensors"] for line in map(json.loads, lines) if "tensors" in line)
    recorded = measure.paired_ratio(times["recorded"], times["plain"])
    idle = measure.paired_ratio(times["idle"], times["again"])
    return len(tensors), 1e3 * sum(times["plain"]) / len(times["plain"]), idle, recorded


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default=",".join(training_graphs.NAMES))
    parser.add_argument("--modes", default="mixed_bfloat16,mixed_float16")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="per model and mode (default %(default)s)"
    )
    measurements.add_flag(parser)
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models.split(","):
        for mode in arguments.modes.split(","):
            tensors, milliseconds, idle, recorded = costs(model, mode, arguments.seconds)
            mean = ((_N - 1) * idle + recorded) / _N
            ratios = [f"{ratio:.3f}" for ratio in (idle, recorded, mean)]
            rows.append([model, mode, str(tensors), f"{milliseconds:.1f}", *ratios])
    report.show(report.grid(_COLUMNS, rows))
    if arguments.write:
        command = measurements.command("bench SUITE=flight", "BENCH_FLAGS")
        print(measurements.write("flight", command, _COLUMNS, rows, keys=2))


if __name__ == "__main__":
    main()

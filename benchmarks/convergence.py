"""Compares ends of training on several workers with float32's: `make bench SUITE=convergence`.

    python benchmarks/convergence.py --workers 2

A small network of convolutions learns scikit-learn's digits, from several seeds. A row shows the
median, the minimum and the maximum over the seeds. Loss and accuracy are computed in float32, from
the weights at the end. `distance` is how far these weights are from float32's with the same seed,
as a fraction of how far training moved float32's weights.

For comparison, float32 also trains with the same batches dealt to the workers in another way, and
with other batches. The workers are processes on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The benchmark starts workers as the tests do.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import cluster  # noqa: E402
import convergence_worker as worker  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
import rich.progress  # noqa: E402

_COLUMNS: report.Columns = {
    **dict.fromkeys(("workers", "contender"), "left"),
    **dict.fromkeys(("bytes", "loss", "accuracy", "distance"), "right"),
}
_QUICK_STEPS = 5

Figures = dict[str, list[float]]


def measured(
    workers: int, options: argparse.Namespace, progress: rich.progress.Progress
) -> dict[str, Figures]:
    """Trains every contender; returns its figures, a value per seed.

    Contenders that lower collectives also have "bytes": the bytes that they reduce, as a share of
    float32's.
    """
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        arguments = [temporary, str(options.steps), str(options.seeds)]
        script = f"{worker.__name__}.py"
        bar = progress.add_task("", total=len(worker.CONTENDERS))
        with cluster.started(script, folder, workers, arguments, options.timeout) as started:
            for name, contender in worker.CONTENDERS.items():
                progress.update(bar, description=f"{workers} workers, {name}")
                cluster.same(name, started.step(options.timeout))
                found[name] = json.loads((folder / f"{name}.json").read_text())
                if "lower_collectives" in contender:
                    before, after = cluster.bytes_to_reduce(folder / name)
                    found[name]["bytes"] = [after / before]
                progress.advance(bar)
        progress.remove_task(bar)
    return found


def rows(found: Mapping[int, Mapping[str, Figures]]) -> list[list[str]]:
    """One row per number of workers and contender."""
    result = []
    for workers, by_contender in found.items():
        for name, figures in by_contender.items():
            is_first = name == worker.FLOAT32
            result.append(
                [
                    str(workers) if is_first else "",
                    name,
                    f"{figures['bytes'][0]:.2f}" if "bytes" in figures else "",
                    _over_seeds("{:.4f}", figures["loss"]),
                    _over_seeds("{:.3f}", figures["accuracy"]),
                    "" if is_first else _over_seeds("{:.3f}", figures["distance"]),
                ]
            )
    return result


def _over_seeds(form: str, values: Sequence[float]) -> str:
    middle, low, high = map(form.format, (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low}-{high})"


def arguments() -> argparse.Namespace:
    """The flags of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--workers",
        type=cluster.counts,
        default="2,4",
        help="numbers of workers, each at least 2 (default %(default)s)",
    )
    parser.add_argument("--steps", type=int, default=200, help="of a training (default 200)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (default 5)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"one seed and {_QUICK_STEPS} steps: shows that it works, and no more",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        help="seconds that workers may take to start, or a contender to train (default 600)",
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    measurements.add_flag(parser)
    options = parser.parse_args()
    for name, count in ("--steps", options.steps), ("--seeds", options.seeds):
        if count < 1:
            parser.error(f"{name}: got {count}, expected at least 1")
    for workers in options.workers:
        if worker.BATCH % workers:
            parser.error(f"--workers: got {workers}, expected divisors of {worker.BATCH}")
    if options.quick:
        options.steps, options.seeds = _QUICK_STEPS, 1
    return options


def main() -> None:
    """Prints a table, and writes the figures."""
    options = arguments()
    # So that contexts are left, and the workers end, even if this process is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with rich.progress.Progress(transient=True) as progress:
        found = {workers: measured(workers, options, progress) for workers in options.workers}
    lines = rows(found)
    report.show(report.grid(_COLUMNS, lines))
    options.out.mkdir(parents=True, exist_ok=True)
    name = "convergence"
    figures = options.out / f"{name}.json"
    figures.write_text(json.dumps(found, indent=1) + "\n")
    print(figures)
    if options.write:
        command = measurements.command("bench SUITE=convergence", "BENCH_FLAGS")
        print(measurements.write(name, command, _COLUMNS, lines, keys=2))


if __name__ == "__main__":
    main()

"""Times training on several workers, counts the bytes they send: `make bench SUITE=distributed`.

    python benchmarks/distributed.py --only mlp --workers 2

The workers are processes on this machine, connected by the loopback address. Each contender has
workers of its own. They take turns: in a round each contender takes one step. A speed-up is the
median over rounds of the ratio within a round, with the quartiles behind it.

The bytes that a worker sends in a step are counted in two ways. "graph": the bytes of its
all-reduces, as the ledger of lower_collectives has them, times 2(N-1)/N, the share that each of N
workers in a ring sends. "sockets": the bytes that the loopback interface transmitted during the
step, over N; the median over steps. The interface also counts gathered slices, headers, control
messages and the traffic of other programs, so no other program should use it. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The benchmark starts workers as the tests do.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import cluster  # noqa: E402
import contenders  # noqa: E402
import distributed_worker  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
import rich.progress  # noqa: E402

_SENT = pathlib.Path("/sys/class/net/lo/statistics/tx_bytes")
_QUICK_STEPS = 5
_WORKER = "distributed_worker.py"
_LEDGERS = "ledgers"
_COLUMNS: report.Columns = {
    **dict.fromkeys(("model", "workers", "contender"), "left"),
    **dict.fromkeys(
        ("ms", "speed-up", "over tf amp", "MB, graph", "sockets", "of float32"), "right"
    ),
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """One contender on one model, next to the others.

    Attributes:
        milliseconds: the median step time.
        faster: float32's step time over this one's: the quartiles over rounds, with the median
            between them.
        faster_than_tensorflow: the same for the step time of TensorFlow's own pass.
        graph_bytes: the bytes that a worker sends in a step for the all-reduces of the graph.
        socket_bytes: the bytes that a worker sends in each step, as the interface counts them.
        losses: the loss of each step.
    """

    milliseconds: float
    faster: tuple[float, float, float]
    faster_than_tensorflow: tuple[float, float, float]
    graph_bytes: float
    socket_bytes: list[float]
    losses: list[float]


@dataclasses.dataclass
class Steps:
    """The steps of one contender, a value per round: seconds, bytes of all workers, the loss."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    sent: list[int] = dataclasses.field(default_factory=list)
    losses: list[float] = dataclasses.field(default_factory=list)


def in_rounds(
    clusters: Mapping[str, cluster.Cluster], rounds: int, timeout: float
) -> dict[str, Steps]:
    """Takes the steps of each contender, one of each in turn."""
    found = {name: Steps() for name in clusters}
    for _ in range(rounds):
        for name, workers in clusters.items():
            sent, start = int(_SENT.read_text()), time.perf_counter()
            losses = workers.step(timeout)
            found[name].seconds.append(time.perf_counter() - start)
            found[name].sent.append(int(_SENT.read_text()) - sent)
            found[name].losses.append(cluster.same(name, losses))
    return found


def measured(
    model: str, comparison: str, workers: int, size: str, rounds: int, timeout: float
) -> dict[str, Measured]:
    """Measures every contender of a comparison on a model."""
    compared = distributed_worker.COMPARISONS[comparison]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters = {}
        for name in compared:
            here = folder / name
            here.mkdir()
            arguments = [model, comparison, name, size, str(here / _LEDGERS)]
            clusters[name] = stack.enter_context(
                cluster.started(_WORKER, here, workers, arguments, timeout)
            )
        found = in_rounds(clusters, rounds, timeout)
        (name,) = (name for name, contender in compared.items() if contender.lowers)
        in_float32, lowered = cluster.bytes_to_reduce(folder / name / _LEDGERS / "0")
    return {
        name: Measured(
            milliseconds=1e3 * statistics.median(steps.seconds),
            faster=quartiles(found[contenders.BASELINE].seconds, steps.seconds),
            faster_than_tensorflow=quartiles(found[contenders.TENSORFLOW].seconds, steps.seconds),
            # No other contender changes an all-reduce; if one did, "sockets" would show it.
            graph_bytes=_in_ring(lowered if compared[name].lowers else in_float32, workers),
            socket_bytes=[sent / workers for sent in steps.sent],
            losses=steps.losses,
        )
        for name, steps in found.items()
    }


def _in_ring(size: int, workers: int) -> float:
    """The bytes that each worker sends to all-reduce a tensor of this size in a ring."""
    return size * 2 * (workers - 1) / workers


def quartiles(baseline: Sequence[float], contender: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles of the ratios within a round."""
    ratios = [b / c for b, c in zip(baseline, contender)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low, middle, high


def rows(found: Mapping[str, Mapping[int, Mapping[str, Measured]]]) -> list[list[str]]:
    """One row per model, number of workers and contender; shows the megabytes a worker sends."""
    result = []
    for model, by_workers in found.items():
        for workers, by_contender in by_workers.items():
            sent = {
                name: statistics.median(figures.socket_bytes)
                for name, figures in by_contender.items()
            }
            for name, figures in by_contender.items():
                is_first = name == contenders.BASELINE
                result.append(
                    [
                        model if is_first else "",
                        str(workers) if is_first else "",
                        name,
                        f"{figures.milliseconds:.1f}",
                        "" if is_first else _with_quartiles(figures.faster),
                        ""
                        if name == contenders.TENSORFLOW
                        else _with_quartiles(figures.faster_than_tensorflow),
                        f"{figures.graph_bytes / 1e6:.2f}",
                        f"{sent[name] / 1e6:.2f}",
                        f"{sent[name] / sent[contenders.BASELINE]:.3f}",
                    ]
                )
    return result


def _with_quartiles(ratios: tuple[float, float, float]) -> str:
    low, middle, high = ratios
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def arguments() -> argparse.Namespace:
    """The flags of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter, allow_abbrev=False
    )
    names = ",".join(distributed_worker.MODELS)
    parser.add_argument("--only", default=names, help="some of the models (default %(default)s)")
    parser.add_argument(
        "--workers",
        type=cluster.counts,
        default="2,4",
        help="numbers of workers, each at least 2 (default %(default)s)",
    )
    parser.add_argument(
        "--packing",
        action="store_true",
        help="compare ways to pack gradients under a GradScaler, in place of modes",
    )
    parser.add_argument("--steps", type=int, help="of each contender (default 30)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"small models and {_QUICK_STEPS} steps: shows that it works, and no more",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        help="seconds that the workers of a contender may take to start, or for a step "
        "(default %(default)s)",
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    measurements.add_flag(parser)
    options = parser.parse_args()
    options.models = options.only.split(",")
    unknown = [name for name in options.models if name not in distributed_worker.MODELS]
    if unknown:
        parser.error(f"--only: got {unknown[0]!r}, expected some of {names}")
    if options.steps is None:
        options.steps = _QUICK_STEPS if options.quick else 30
    if options.steps < 2:
        parser.error(f"--steps: got {options.steps}, expected at least 2")
    return options


def main() -> None:
    """Prints a table, and writes the figures."""
    options = arguments()
    size = "quick" if options.quick else "full"
    comparison = "packing" if options.packing else "modes"
    # So that contexts are left, and the workers end, even if this process is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    found: dict[str, dict[int, dict[str, Measured]]] = {}
    with rich.progress.Progress(transient=True) as progress:
        bar = progress.add_task("", total=len(options.models) * len(options.workers))
        for model in options.models:
            found[model] = {}
            for count in options.workers:
                progress.update(bar, description=f"{model}, {count} workers")
                found[model][count] = measured(
                    model, comparison, count, size, options.steps, options.timeout
                )
                progress.advance(bar)
    lines = rows(found)
    report.show(report.grid(_COLUMNS, lines))
    options.out.mkdir(parents=True, exist_ok=True)
    name = "packing" if options.packing else "distributed"
    figures = options.out / f"{name}.json"
    figures.write_text(json.dumps(found, indent=1, default=dataclasses.asdict) + "\n")
    print(figures)
    if options.write:
        command = measurements.command("bench SUITE=distributed", "BENCH_FLAGS")
        print(measurements.write(name, command, _COLUMNS, lines, keys=3))


if __name__ == "__main__":
    main()

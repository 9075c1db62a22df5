"""Compares the speed of our modes with float32 and TensorFlow's mixed precision: `make bench`.

    python benchmarks/steps.py --only mobilenet_v2,mlp --seconds 10

Every contender runs once per round, in turn, in one process. A figure is the median over rounds of
the ratio within a round, so that other load on the machine affects both sides.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The benchmark uses the models of the tests, at full size.
sys.path.insert(0, str(ROOT / "tests"))

import alone  # noqa: E402
import contenders  # noqa: E402
import elsewhere  # noqa: E402
import inference_graphs  # noqa: E402
import limit  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
import rich.progress  # noqa: E402
import rows  # noqa: E402
import runners  # noqa: E402
import step_tables  # noqa: E402
import tensorflow as tf  # noqa: E402

import npu_precision  # noqa: E402


def entry(row: rows.Row, options: argparse.Namespace, peak: float) -> dict[str, object]:
    """The figures of a row; `peak` is the result of limit.peak."""
    here = row.contenders(options.modes)
    names = [*here]
    if row.kind == "frozen" and not row.is_float16 and contenders.has_openvino():
        names.append(contenders.OPENVINO)
    if row.has_peers:
        names += [peer.name for peer in elsewhere.PEERS if peer.absence() is None]
    figures, failed = runners.measured(row, options.graphs, options.seconds, names)
    found: dict[str, object] = {
        "contenders": {key: dataclasses.asdict(value) for key, value in figures.items()},
        "failed": failed,
    }
    if row.kind == "frozen" and not row.is_float16:
        graph = inference_graphs.frozen_graph(row.model, options.graphs)
        found["converted_size"] = converted_size(graph)
        seconds = 1e-3 * figures[contenders.BASELINE].milliseconds
        found["limit"] = limit.speed_up(graph, seconds, peak)
    if row.runs_in_sessions and not options.no_alone:
        found["alone"] = {
            key: dataclasses.asdict(value)
            for key, value in alone.measured(row.name, options.graphs, here).items()
        }
    return found


def converted_size(graph: inference_graphs.FrozenGraph) -> float:
    """Bytes of the graph after rewrite_graph_def, over bytes before."""
    graph_def = graph.graph_def()
    converted, _ = npu_precision.rewrite_graph_def(
        graph_def, [graph.fetch], precision_mode="allow_mix_precision_bf16"
    )
    return converted.ByteSize() / graph_def.ByteSize()


def machine() -> dict[str, object]:
    """A description of the machine and versions that the figures depend on."""
    return {
        "cpu": measurements.of_cpu("model name") or platform.processor(),
        "cores": os.cpu_count(),
        "bfloat16": measurements.bfloat16(),
        "tensorflow": tf.__version__,
        "peak": limit.peak(tf.bfloat16),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument(
        "--only",
        help=f"some of {', '.join(rows.NAMES)}, separated by commas; or patterns such as 'live *'",
    )
    parser.add_argument(
        "--modes",
        help="more of our modes to run, separated by commas: force_fp16, force_fp16/native for "
        "that float16_compute, bare or documented for a session whose ConfigProto has an entry "
        "that is written by hand, -REWRITE for the usual mode without it, or the like",
    )
    parser.add_argument("--seconds", type=float, default=25.0, help="of rounds, for each row")
    parser.add_argument(
        "--no-alone", action="store_true", help="without peaks of memory and times of the rewrite"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    measurements.add_flag(parser)
    parser.add_argument(
        "--graphs",
        type=pathlib.Path,
        default=ROOT / "build" / "benchmarks" / "graphs",
        help="where the frozen graphs are kept; any TensorFlow's are good for all",
    )
    options = parser.parse_args()
    try:
        options.names = rows.chosen(options.only.split(",")) if options.only else rows.NAMES
    except ValueError as error:
        parser.error(f"--only: {error}")
    try:
        options.modes = options.modes.split(",") if options.modes else []
        for mode in options.modes:
            contenders.of_mode(mode)
    except ValueError as error:
        parser.error(f"--modes: {error}")
    return options


def main() -> None:
    options = arguments()
    # Functions of the same text, one for each contender, look like a function that is traced anew.
    tf.get_logger().setLevel("ERROR")
    absent = {peer.name: peer.absence() for peer in elsewhere.PEERS}
    found = {
        "machine": machine(),
        "absent": {name: reason for name, reason in absent.items() if reason is not None},
        "left_out": {},
        "graphs": {},
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "bench.json"
    with rich.progress.Progress(transient=True) as progress:
        bar = progress.add_task("", total=len(options.names))
        for name in options.names:
            progress.update(bar, description=name)
            row = rows.row(name)
            obstacle = row.obstacle(options.graphs)
            if obstacle is None:
                found["graphs"][name] = entry(row, options, found["machine"]["peak"])
                path.write_text(json.dumps(found, indent=1) + "\n")
            else:
                found["left_out"][name] = obstacle
            progress.advance(bar)
    if not found["graphs"]:
        sys.exit("\n".join(report.left_out(found)))
    path.write_text(json.dumps(found, indent=1) + "\n")
    report.table(found)
    print(*report.left_out(found), *report.slower_than_peers(found["graphs"]), sep="\n")
    report.plot(found, options.out / "bench.png")
    print(f"{path}, {options.out / 'bench.png'}")
    if options.write:
        minor = ".".join(tf.__version__.split(".")[:2])
        command = measurements.command("bench", "BENCH_FLAGS")
        for name, (columns, lines) in step_tables.tables(found["graphs"]).items():
            print(measurements.write(f"{name}-{minor}", command, columns, lines))


if __name__ == "__main__":
    main()

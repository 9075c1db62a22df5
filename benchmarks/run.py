"""Compares the speed with float32 and TensorFlow's own mixed precision: `make bench`.

    python benchmarks/run.py --only mobilenet_v2,mlp --seconds 10

Every contender runs once per round, in turn, in one process. A figure is the median over rounds of
the ratio within a round, so that other load on the machine affects both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import platform
import sys
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parent.parent
# The benchmark uses the models of the tests, at full size.
sys.path.insert(0, str(ROOT / "tests"))

import alone  # noqa: E402
import contenders  # noqa: E402
import elsewhere  # noqa: E402
import inference_graphs  # noqa: E402
import limit  # noqa: E402
import measure  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
import rich.progress  # noqa: E402
import task  # noqa: E402
import tensorflow as tf  # noqa: E402
import training_graphs  # noqa: E402

import npu_precision  # noqa: E402

tf1 = tf.compat.v1


def measured(
    name: str, graphs: pathlib.Path, seconds: float, names: Sequence[str]
) -> dict[str, measure.Measured]:
    """Measures these contenders, and installed others, on a task.

    These start from the first one's weights; ITEX's process makes its own, from the same seeds.
    """
    running = task.task(name, graphs)
    steps, results, ran, weights = {}, {}, {}, None
    with contextlib.ExitStack() as stack:
        sessions = {
            contender: stack.enter_context(running.session(contenders.config(contender)))
            for contender in names
        }
        for contender, session in sessions.items():
            weights = start_from(weights, running.graph, session)
            steps[contender] = functools.partial(running.step, session)
            results[contender] = running.step(session)
        if contenders.has_openvino() and not task.is_training(name):
            step = openvino_step(inference_graphs.frozen_graph(name, graphs))
            steps[contenders.OPENVINO], results[contenders.OPENVINO] = step, step()
        if elsewhere.has_itex():
            worker = stack.enter_context(elsewhere.worker(name, graphs))
            steps[elsewhere.ITEX], results[elsewhere.ITEX] = worker.step, worker.first()
        times = measure.in_rounds(steps, seconds)
        for contender, session in sessions.items():
            ran[contender] = measure.what_ran(session, running.fetches, running.feeds)
        if elsewhere.has_itex():
            ran[elsewhere.ITEX] = worker.what_ran()
    return summary(times, ran, results)


def start_from(weights, graph: tf.Graph, session: tf1.Session):
    """Sets the session's weights; if none are given, returns its own."""
    with graph.as_default():
        variables = tf1.global_variables()
        if weights is None:
            return session.run(variables)
        for variable, value in zip(variables, weights):
            variable.load(value, session)
    return weights


def openvino_step(graph: inference_graphs.FrozenGraph):
    """A step of the same graph in OpenVINO, in bfloat16 if the CPU supports it."""
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "bf16"}
    model = core.compile_model(core.read_model(graph.path), "CPU", options)
    return lambda: next(iter(model(graph.x).values()))


def summary(times, ran, results) -> dict[str, measure.Measured]:
    """By contender, from the times of the rounds, what_ran and the results of the first step."""
    baseline = times[contenders.BASELINE]
    found = {}
    for name, seconds in times.items():
        casts, low_share, shares = ran.get(name, (None, None, None))
        found[name] = measure.Measured(
            ratio=measure.paired_ratio(baseline, seconds),
            milliseconds=1e3 * float(np.median(seconds)),
            casts=casts,
            low_share=low_share,
            shares=shares,
            error=measure.error(results[name], results[contenders.BASELINE]),
        )
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
    cpu_info = pathlib.Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    field = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    flags = set(field.get("flags", "").split())
    return {
        "cpu": field.get("model name", platform.processor()),
        "cores": os.cpu_count(),
        "bfloat16": sorted(flags & {"amx_bf16", "avx512_bf16"}),
        "tensorflow": tf.__version__,
        "peak": limit.peak(tf.bfloat16),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    everything = [*inference_graphs.NAMES, *map(task.training_name, training_graphs.NAMES)]
    parser.add_argument("--only", help=f"some of {', '.join(everything)}, separated by commas")
    parser.add_argument(
        "--modes",
        help="more of our modes to run, separated by commas, such as force_fp16, or "
        "force_fp16/native for that float16_compute",
    )
    parser.add_argument("--seconds", type=float, default=25.0, help="of rounds, for each graph")
    parser.add_argument(
        "--no-alone", action="store_true", help="without peaks of memory and times of the rewrite"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    parser.add_argument(
        "--graphs",
        type=pathlib.Path,
        default=ROOT / "build" / "benchmarks" / "graphs",
        help="where the frozen graphs are kept; any TensorFlow's are good for all",
    )
    options = parser.parse_args()
    options.names = options.only.split(",") if options.only else everything
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        parser.error(f"--only: got {unknown[0]!r}, expected some of {', '.join(everything)}")
    try:
        modes = options.modes.split(",") if options.modes else []
        options.contenders = [*contenders.NAMES, *map(contenders.of_mode, modes)]
    except ValueError as error:
        parser.error(f"--modes: {error}")
    return options


def main() -> None:
    options = arguments()
    found = {"machine": machine(), "graphs": {}}
    with rich.progress.Progress(transient=True) as progress:
        bar = progress.add_task("", total=len(options.names))
        for name in options.names:
            progress.update(bar, description=name)
            figures = measured(name, options.graphs, options.seconds, options.contenders)
            entry: dict[str, object] = {
                "contenders": {key: dataclasses.asdict(value) for key, value in figures.items()}
            }
            if not task.is_training(name):
                graph = inference_graphs.frozen_graph(name, options.graphs)
                entry["converted_size"] = converted_size(graph)
                seconds = 1e-3 * figures[contenders.BASELINE].milliseconds
                entry["limit"] = limit.speed_up(graph, seconds, found["machine"]["peak"])
            if not options.no_alone:
                entry["alone"] = {
                    key: dataclasses.asdict(value)
                    for key, value in alone.measured(
                        name, options.graphs, options.contenders
                    ).items()
                }
            found["graphs"][name] = entry
            progress.advance(bar)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "bench.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    report.table(found)
    report.plot(found, options.out / "bench.png")
    print(f"{path}, {options.out / 'bench.png'}")


if __name__ == "__main__":
    main()

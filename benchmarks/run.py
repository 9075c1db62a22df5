"""Steps per second next to float32 and TensorFlow's own mixed precision: `make bench`.

    python benchmarks/run.py --only mobilenet_v2,mlp --seconds 10

Every contender runs once per round, in turn, in one process; a figure is the median over rounds of
a ratio of neighbours, so that what else the machine does falls on both.
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
# The models of the tests are those of the benchmark, at full size.
sys.path.insert(0, str(ROOT / "tests"))

import contenders  # noqa: E402
import inference_graphs  # noqa: E402
import limit  # noqa: E402
import measure  # noqa: E402
import memory  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
import rich.progress  # noqa: E402
import tensorflow as tf  # noqa: E402
import training_graphs  # noqa: E402

import npu_precision  # noqa: E402

tf1 = tf.compat.v1


def inference(graph: inference_graphs.FrozenGraph, seconds: float) -> dict[str, measure.Measured]:
    """Every contender on a frozen graph."""
    graph_def = graph.graph_def()
    sessions, steps, results = {}, {}, {}
    for name, config in contenders.CONFIGS.items():
        with tf.Graph().as_default() as imported:
            tf.import_graph_def(graph_def, name="")
        session = tf1.Session(graph=imported, config=config())
        sessions[name] = session
        steps[name] = lambda session=session: session.run(graph.fetch, {graph.feed: graph.x})
    if contenders.has_openvino():
        steps[contenders.OPENVINO] = openvino_step(graph)
    for name, step in steps.items():
        results[name] = step()
    times = measure.in_rounds(steps, seconds)
    ran = {
        name: measure.what_ran(session, graph.fetch, {graph.feed: graph.x})
        for name, session in sessions.items()
    }
    for session in sessions.values():
        session.close()
    return summary(times, ran, results)


def openvino_step(graph: inference_graphs.FrozenGraph):
    """A step of the same graph in OpenVINO, in bfloat16 where the CPU has it."""
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "bf16"}
    model = core.compile_model(core.read_model(graph.path), "CPU", options)
    return lambda: next(iter(model(graph.x).values()))


def training(graph: training_graphs.TrainingGraph, seconds: float) -> dict[str, measure.Measured]:
    """Every contender on a training step; all start from the baseline's weights."""
    sessions, steps, results = {}, {}, {}
    with graph.graph.as_default():
        variables = tf1.global_variables()
        weights = None
        for name, config in contenders.CONFIGS.items():
            session = tf1.Session(graph=graph.graph, config=config())
            session.run(graph.init)
            if weights is None:
                weights = session.run(variables)
            for variable, value in zip(variables, weights):
                variable.load(value, session)
            sessions[name] = session
            steps[name] = lambda session=session: session.run([graph.step, graph.loss], graph.feeds)
    for name, step in steps.items():
        results[name] = np.asarray(step()[1])
    times = measure.in_rounds(steps, seconds)
    ran = {
        name: measure.what_ran(session, graph.step, graph.feeds)
        for name, session in sessions.items()
    }
    for session in sessions.values():
        session.close()
    return summary(times, ran, results)


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
    """What the figures depend on."""
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    everything = [*inference_graphs.NAMES, *(f"train {n}" for n in training_graphs.NAMES)]
    parser.add_argument("--only", help=f"some of {', '.join(everything)}, separated by commas")
    parser.add_argument("--seconds", type=float, default=25.0, help="of rounds, for each graph")
    parser.add_argument("--no-memory", action="store_true", help="without peaks of memory")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    options = parser.parse_args()
    options.names = options.only.split(",") if options.only else everything
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        parser.error(f"--only: got {unknown[0]!r}, expected some of {', '.join(everything)}")
    return options


def main() -> None:
    options = arguments()
    graphs_folder = options.out / "graphs"
    found = {"machine": machine(), "graphs": {}}
    with rich.progress.Progress(transient=True) as progress:
        task = progress.add_task("", total=len(options.names))
        for name in options.names:
            progress.update(task, description=name)
            entry: dict[str, object] = {}
            if name in inference_graphs.NAMES:
                graph = inference_graphs.frozen_graph(name, graphs_folder)
                measured = inference(graph, options.seconds)
                entry["converted_size"] = converted_size(graph)
                seconds = 1e-3 * measured[contenders.BASELINE].milliseconds
                entry["limit"] = limit.speed_up(graph, seconds, found["machine"]["peak"])
            else:
                training_name = name.partition(" ")[2]
                measured = training(training_graphs.training_graph(training_name), options.seconds)
            entry["contenders"] = {
                key: dataclasses.asdict(value) for key, value in measured.items()
            }
            if not options.no_memory:
                entry["peak_bytes"] = memory.peaks(name, graphs_folder)
            found["graphs"][name] = entry
            progress.advance(task)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "bench.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    report.table(found)
    report.plot(found, options.out / "bench.png")
    print(f"{path}, {options.out / 'bench.png'}")


if __name__ == "__main__":
    main()

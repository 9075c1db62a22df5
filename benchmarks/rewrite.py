"""Compares the rewrite itself with TensorFlow's auto_mixed_precision: `make bench SUITE=rewrite`.

Each pass runs alone in Grappler on the frozen graphs and on synthetic ones of a thousand to a
million nodes, in a process of its own. Its time comes from TensorFlow's log. Its memory is the peak
of the process minus that of a process in which Grappler runs neither pass.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import report  # noqa: E402
import rich.progress  # noqa: E402
from alone import logging_passes, pass_seconds, peak  # noqa: E402
from contenders import dtypes_only  # noqa: E402

SIZES = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1M": 1_000_000}
# By name: Grappler's name of the pass, and our options. The first one changes nothing.
_NPU = "NpuOptimizer"
PASSES: dict[str, tuple[str, Callable[[], dict[str, bool]]]] = {
    "none": ("debug_stripper", dict),
    "tf amp": ("auto_mixed_precision_onednn_bfloat16", dict),
    # The same task as TensorFlow's pass; the passes of sessions; those of offline conversions.
    "npu, dtypes": (_NPU, dtypes_only),
    "npu": (_NPU, dict),
    "npu, offline": (_NPU, lambda: {"fold_constants": True}),
}
_BLOCK = ("MatMul", "BiasAdd", "Relu", "Exp", "AddV2")


def made_up(nodes: int):
    """A chain of white, gray and black ops with a residual sum per five, as a GraphDef."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [8, 8], name="x")
        w, b = tf.ones([8, 8], name="w"), tf.ones([8], name="b")
        y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w, name="matmul"), b, name="bias"), name="relu")
        tf.add(tf.exp(y, name="exp"), x, name="add")
    graph_def = graph.as_graph_def()
    prototypes = {node.op: node for node in graph_def.node}
    before = residual = "x"
    for number in range(nodes):
        op = _BLOCK[number % len(_BLOCK)]
        node = graph_def.node.add()
        node.CopyFrom(prototypes[op])
        node.name = f"{op}_{number}"
        second = {"MatMul": ["w"], "BiasAdd": ["b"], "AddV2": [residual]}.get(op, [])
        node.input[:] = [before, *second]
        before = node.name
        if op == "AddV2":
            residual = before
    return graph_def, before


def run_pass(graph: str, pass_name: str, graphs_folder: str) -> None:
    """Runs one pass; prints the bytes of memory added at the peak, and the bytes of the graph."""
    import inference_graphs
    import tensorflow as tf
    from tensorflow.python.grappler import tf_optimizer

    import npu_precision

    if graph in SIZES:
        graph_def, fetch = made_up(SIZES[graph])
    else:
        frozen = inference_graphs.frozen_graph(graph, pathlib.Path(graphs_folder))
        fetch = frozen.fetch.partition(":")[0]
        # As in a session, which leaves out the placeholders of inlined functions.
        graph_def = tf.compat.v1.graph_util.extract_sub_graph(frozen.graph_def(), [fetch])
    for node in graph_def.node:
        node.device = "/job:localhost/replica:0/task:0/device:CPU:0"
    config = tf.compat.v1.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    grappler_name, fields = PASSES[pass_name]
    if grappler_name == _NPU:
        options = npu_precision.PrecisionOptions(
            precision_mode="allow_mix_precision_bf16", **fields()
        )
        rewrite.custom_optimizers.append(options.custom_optimizer())
    rewrite.min_graph_nodes = -1
    rewrite.optimizers.append(grappler_name)
    rewrite.meta_optimizer_iterations = 1
    meta_graph = tf.compat.v1.MetaGraphDef(graph_def=graph_def)
    meta_graph.collection_def["train_op"].node_list.value.append(fetch)
    size = meta_graph.ByteSize()
    before = peak()
    tf_optimizer.OptimizeGraph(config, meta_graph)
    print(peak() - before, size)


def measured(graph: str, pass_name: str, graphs_folder: pathlib.Path) -> tuple[float, int, int]:
    """(seconds, bytes added at the peak, bytes of the graph), in a process of its own."""
    command = [sys.executable, __file__, "--run", graph, pass_name, str(graphs_folder)]
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env=logging_passes()
    )
    logged = pass_seconds(process.stderr, PASSES[pass_name][0])
    if process.returncode != 0 or not logged or "internal failure" in process.stderr:
        raise RuntimeError(f"{pass_name} on {graph}: {process.stderr[-2000:]}")
    peak_bytes, size = process.stdout.split()[-2:]
    return logged[0], int(peak_bytes), int(size)


def _passes(graph: str, graphs_folder: pathlib.Path, repeat: int) -> dict[str, dict[str, float]]:
    """The figures of each pass on a graph: the minimum over its runs."""
    import inference_graphs

    if graph in inference_graphs.NAMES:
        inference_graphs.frozen_graph(graph, graphs_folder)
    found = {}
    for pass_name in PASSES:
        runs = [measured(graph, pass_name, graphs_folder) for _ in range(repeat)]
        found[pass_name] = {
            "seconds": min(run[0] for run in runs),
            "peak_bytes": min(run[1] for run in runs),
            "graph_bytes": runs[0][2],
        }
    return found


_SHOWN = [name for name in PASSES if name != "none"]
# The pass that changes dtypes only adds what TensorFlow's adds.
_MEMORY = [name for name in _SHOWN if name != "npu, dtypes"]
_COLUMNS: report.Columns = {
    "graph": "left",
    **dict.fromkeys(("MB", *_SHOWN, *(f"memory: {name}" for name in _MEMORY)), "right"),
}


def _rows(found: dict[str, dict[str, dict[str, float]]]) -> list[list[str]]:
    """Milliseconds, their ratio to TensorFlow's, and memory over the size of the graph."""
    rows = []
    for name, passes in found.items():
        none, theirs = passes["none"], passes["tf amp"]["seconds"]
        row = [name, f"{none['graph_bytes'] / 1e6:.1f}"]
        for key in _SHOWN:
            own = passes[key]["seconds"]
            row.append(f"{1e3 * own:.1f}" + ("" if key == "tf amp" else f" ({own / theirs:.2f})"))
        for key in _MEMORY:
            added = passes[key]["peak_bytes"] - none["peak_bytes"]
            row.append(f"{added / none['graph_bytes']:.1f}")
        rows.append(row)
    return rows


def main() -> None:
    import inference_graphs
    import measurements

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    everything = [*inference_graphs.NAMES, *SIZES]
    parser.add_argument("--only", help=f"some of {', '.join(everything)}, separated by commas")
    parser.add_argument("--repeat", type=int, default=3, help="of which the least time counts")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "benchmarks")
    measurements.add_flag(parser)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else everything
    if options.repeat < 1:
        parser.error(f"--repeat: got {options.repeat}, expected at least 1")
    unknown = [name for name in names if name not in everything]
    if unknown:
        parser.error(f"--only: got {unknown[0]!r}, expected some of {', '.join(everything)}")
    graphs = options.out / "graphs"
    found: dict[str, dict[str, dict[str, float]]] = {}
    left_out: list[str] = []
    with rich.progress.Progress(transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            obstacle = None
            if name in inference_graphs.NAMES:
                obstacle = inference_graphs.obstacle(name, graphs)
            if obstacle is None:
                found[name] = _passes(name, graphs, options.repeat)
            else:
                left_out.append(f"{name} is left out: {obstacle}")
            progress.advance(task)
    rows = _rows(found)
    report.show(report.grid(_COLUMNS, rows))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "bench_rewrite.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(*left_out, path, sep="\n")
    if options.write:
        command = measurements.command("bench SUITE=rewrite", "BENCH_FLAGS")
        print(measurements.write("rewrite", command, _COLUMNS, rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_pass(*sys.argv[2:])
    else:
        main()

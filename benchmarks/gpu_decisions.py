"""What a step writes on a GPU, by the decisions alone: `nox -s bench-tf221 -- gpu_decisions`.

    .venv/bin/nox -s bench-tf221 -- gpu_decisions --only resnet50 --write

It needs no GPU. TensorFlow's own pass and ours rewrite each graph for one, and what the kernels of
the result write is added up: the elementwise ops of a step are bound by memory. It needs the wheel
of TensorFlow that has kernels for GPUs, and Keras 3.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import gpu_rows  # noqa: E402
import gpu_steps  # noqa: E402
import live_models  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
import tensorflow as tf  # noqa: E402
from gpu_rows import Row  # noqa: E402
from support.devices import decided_for, optimized  # noqa: E402

import npu_precision  # noqa: E402

tf1 = tf.compat.v1
_BATCH = 4  # Of inputs with more than a million elements, a conversion knows no shape.
ROWS = [
    Row(model, _BATCH, kind)
    for model, kinds in {
        "resnet50": ("inference", "sgd"),
        "efficientnet_b0": ("inference", "sgd"),
        "unet": ("inference", "sgd"),
        "encoder": ("inference", "adam"),
        "decoder": ("inference", "adam"),
    }.items()
    for kind in kinds
]
_MODE = "allow_mix_precision"
# What Grappler does in a function before it lowers.
_BEFORE = ("function", "constfold", "arithmetic", "pruning")
# They write nothing, or nothing new.
_WRITE_NOTHING = {"Const", "Identity", "IdentityN", "ReadVariableOp", "Reshape", "Squeeze"}
# Behind it are what cuDNN keeps for the gradient: vectors, of no size that TensorFlow knows.
_LAST_STATISTIC = 2
_FLOATS = (tf.float32, tf.float16, tf.bfloat16)


def graph_of(row: Row) -> tuple[tf1.GraphDef, list[str]]:
    """The graph of a step, with variables by their shapes, and the nodes that must run."""
    model = gpu_rows.built(row.model, "float32", False)
    batch = live_models.batch_of(model, row.batch)
    step = gpu_steps.step_function(row, model)  # It keeps the optimizer's variables.
    concrete = step.get_concrete_function(
        *(tf.TensorSpec(each.shape, each.dtype) for each in batch)
    )
    graph = concrete.graph.as_graph_def()
    of_handle = {id(variable.handle): variable for variable in concrete.graph.variables}
    variables = {
        inner.op.name: of_handle[id(outer)]
        for outer, inner in concrete.graph.captures
        if id(outer) in of_handle
    }
    for node in graph.node:
        if node.name in variables:
            variable = variables[node.name]
            node.op = "VarHandleOp"
            node.attr.clear()
            node.attr["dtype"].type = variable.dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
            node.attr["shared_name"].s = node.name.encode()
    fetches = [concrete.outputs[0].op.name, *(op.name for op in concrete.graph.control_outputs)]
    return optimized(graph, fetches, _BEFORE), list(dict.fromkeys(fetches))


def ours(graph: tf1.GraphDef, fetches: list[str]) -> tf1.GraphDef:
    """The graph in mixed float16."""
    with decided_for(["CPU:0", "GPU:0"]):
        return npu_precision.rewrite_graph_def(graph, fetches, precision_mode=_MODE)[0]


def amp(graph: tf1.GraphDef, fetches: list[str]) -> tf1.GraphDef:
    """The graph as TensorFlow's own pass lowers it."""
    return optimized(graph, fetches, ("auto_mixed_precision",))


def megabytes(graph: tf1.GraphDef, fetches: list[str]) -> collections.Counter[str]:
    """What the ops write, in float32 and in a low type; of it, the results of Casts; and Casts."""
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(optimized(graph, fetches, ("pruning",)), name="")
    found: collections.Counter[str] = collections.Counter()
    for op in imported.get_operations():
        for tensor in op.outputs if op.type not in _WRITE_NOTHING else ():
            is_reserve = op.type == "FusedBatchNormV3" and tensor.value_index > _LAST_STATISTIC
            if tensor.dtype not in _FLOATS or is_reserve:
                continue
            assert tensor.shape.is_fully_defined(), f"{tensor.name} has no known shape"
            written = tensor.shape.num_elements() * tensor.dtype.size / 1e6
            found["float32" if tensor.dtype == tf.float32 else "low"] += written
            if op.type == "Cast" and op.inputs[0].dtype in _FLOATS:
                found["cast"] += written
                found["casts"] += 1
    return found


_BASELINE = "float32"
CONTENDERS: dict[str, Callable[[tf1.GraphDef, list[str]], tf1.GraphDef]] = {
    _BASELINE: lambda graph, _: graph,
    "tf amp": amp,
    "npu fp16": ours,
}


def cells(row: Row) -> list[str]:
    """The cells of a row: megabytes for each sample of the batch."""
    graph, fetches = graph_of(row)
    result = [f"{row.model} {row.kind}"]
    for name, rewrite in CONTENDERS.items():
        found = megabytes(rewrite(graph, fetches), fetches)
        result.append(f"{(found['float32'] + found['low']) / row.batch:.0f}")
        if name != _BASELINE:
            result.append(f"{found['float32'] / row.batch:.0f}")
            result.append(f"{found['cast'] / row.batch:.0f} by {found['casts']:.0f}")
    return result


def main() -> None:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", help="part of the names of rows; again, too")
    measurements.add_flag(parser)
    chosen = parser.parse_args()
    headings = ["row", _BASELINE]
    for name in list(CONTENDERS)[1:]:
        headings += [name, f"{name}: float32", f"{name}: Casts"]
    columns = {heading: "left" if heading == "row" else "right" for heading in headings}
    rows = [
        cells(row)
        for row in ROWS
        if any(part in f"{row.model} {row.kind}" for part in chosen.only or [""])
    ]
    report.show(report.grid(columns, rows))
    if chosen.write:
        flags = [f"--only={part}" for part in chosen.only or []]
        command = " ".join(["nox -s bench-tf221 -- gpu_decisions", *flags])
        print(measurements.write("gpu-decisions", command, columns, rows))


if __name__ == "__main__":
    main()

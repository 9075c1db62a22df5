"""Shows which kernels of this TensorFlow add up in a low type: `make bench SUITE=kernel_sums`.

    make bench SUITE=kernel_sums BENCH_FLAGS="--write"

Each op adds up numbers between 0.5 and 1.5, which the low type holds, 16 to 16,384 of them. A
cell is the largest error as a share of the largest value: a kernel that rounds once is off by up to
0.4 % (bfloat16) or 0.05 % (float16). The last column says what the mode bf16 decides about the op
between two matrix products.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measurements
import numpy as np
import report
import tensorflow as tf

import npu_precision

COUNTS = (16, 256, 4096, 16384)
DTYPES = ("bfloat16", "float16")


def _zeros(count: int) -> tf.Tensor:
    return tf.zeros([count], tf.int32)


def _avg_pool_grad(x: tf.Tensor) -> tf.Tensor:
    """The gradient of an average pool over as many places as x has, each in all windows."""
    count = int(x.shape[0])
    return count * tf.raw_ops.AvgPoolGrad(
        orig_input_shape=[1, 1, 2 * count - 1, 1],
        grad=tf.reshape(x, [1, 1, count, 1]),
        ksize=[1, 1, count, 1],
        strides=[1, 1, 1, 1],
        padding="VALID",
    )


def _max_pool_grad(x: tf.Tensor) -> tf.Tensor:
    """The gradient of a maximum pool whose windows all have the same largest place."""
    count = int(x.shape[0])
    return tf.raw_ops.MaxPoolGrad(
        orig_input=tf.reshape(
            tf.one_hot([count - 1], 2 * count - 1, dtype=x.dtype), [1, 1, 2 * count - 1, 1]
        ),
        orig_output=tf.ones([1, 1, count, 1], x.dtype),
        grad=tf.reshape(x, [1, 1, count, 1]),
        ksize=[1, 1, count, 1],
        strides=[1, 1, 1, 1],
        padding="VALID",
    )


# By op: what adds up the numbers x, [count].
KERNELS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "MatMul": lambda x: tf.matmul(x[None], tf.ones_like(x)[:, None]),
    "Conv2DBackpropFilter": lambda x: tf.raw_ops.Conv2DBackpropFilter(
        input=tf.reshape(tf.ones_like(x), [1, 1, -1, 1]),
        filter_sizes=[1, 1, 1, 1],
        out_backprop=tf.reshape(x, [1, 1, -1, 1]),
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    "DepthwiseConv2dNative": lambda x: tf.raw_ops.DepthwiseConv2dNative(
        input=tf.reshape(x, [1, 1, -1, 1]),
        filter=tf.ones([1, int(x.shape[0]), 1, 1], x.dtype),
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    "DepthwiseConv2dNativeBackpropFilter": lambda x: tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
        input=tf.reshape(tf.ones_like(x), [1, 1, -1, 1]),
        filter_sizes=[1, 1, 1, 1],
        out_backprop=tf.reshape(x, [1, 1, -1, 1]),
        strides=[1, 1, 1, 1],
        padding="VALID",
    ),
    "Sum": lambda x: tf.reduce_sum(x),
    "Mean": lambda x: tf.reduce_mean(tf.tile(x[:, None], [1, 8]), 0),
    "Cumsum": tf.cumsum,
    "Softmax": lambda x: tf.nn.softmax(x[None]),
    "BiasAddGrad": lambda x: tf.raw_ops.BiasAddGrad(out_backprop=x[:, None]),
    "AvgPool": lambda x: tf.nn.avg_pool2d(
        tf.reshape(x, [1, 1, -1, 1]), [1, int(x.shape[0])], 1, "VALID"
    ),
    "AvgPoolGrad": _avg_pool_grad,
    "MaxPoolGrad": _max_pool_grad,
    "ResizeNearestNeighborGrad": lambda x: tf.raw_ops.ResizeNearestNeighborGrad(
        grads=tf.reshape(x, [1, 1, -1, 1]), size=[1, 1]
    ),
    "SegmentSum": lambda x: tf.raw_ops.SegmentSum(data=x, segment_ids=_zeros(len(x))),
    "UnsortedSegmentSum": lambda x: tf.raw_ops.UnsortedSegmentSum(
        data=x, segment_ids=_zeros(len(x)), num_segments=1
    ),
    "ScatterNd": lambda x: tf.scatter_nd(_zeros(len(x))[:, None], x, [1]),
    "TensorScatterAdd": lambda x: tf.tensor_scatter_nd_add(
        tf.zeros([1], x.dtype), _zeros(len(x))[:, None], x
    ),
    "AddN": lambda x: tf.add_n(tf.unstack(x)),
}


def error(op: str, count: int, dtype: str) -> float | None:
    """The error of an op in a dtype, as a share; None if there is no kernel of it."""
    # Multiples of 1/64.
    x = np.random.default_rng(0).integers(32, 97, count) / 64
    wide = KERNELS[op](tf.constant(x, tf.float32)).numpy()
    try:
        low = KERNELS[op](tf.constant(x, dtype))
    except (tf.errors.NotFoundError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError):
        return None
    return float(np.abs(tf.cast(low, tf.float32).numpy() - wide).max() / np.abs(wide).max())


def percent(share: float) -> str:
    number = 100 * share
    return f"{number:.0f} %" if number >= 99.5 else f"{number:.2g} %"


def decision(op: str) -> str:
    """What the mode bf16 decides about the op where its input was lowered."""

    def layer(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        summed = KERNELS[op](tf.reshape(tf.matmul(x, w), [-1]))
        return tf.matmul(tf.reshape(summed, [1, -1]), tf.ones([tf.size(summed), 1]))

    graph = tf.function(layer).get_concrete_function(
        tf.TensorSpec([16, 32]), tf.TensorSpec([32, 16])
    )
    graph_def = graph.graph.as_graph_def()
    fetch = graph.outputs[0].op.name
    _, ledger = npu_precision.rewrite_graph_def(
        graph_def, fetch, precision_mode="allow_mix_precision_bf16", rewrites="none"
    )
    node = next(node for node in ledger.nodes if node.op == op)
    return f"{node.decision}: {node.reason}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    measurements.add_flag(parser)
    chosen = parser.parse_args()
    columns: dict[str, str] = {"op": "left"}
    for dtype in DTYPES:
        columns.update({f"{dtype}, {count}": "right" for count in COUNTS})
    columns["between products"] = "left"
    rows = []
    for op in KERNELS:
        errors = [error(op, count, dtype) for dtype in DTYPES for count in COUNTS]
        cells = ["no kernel" if each is None else percent(each) for each in errors]
        rows.append([f"`{op}`", *cells, decision(op)])
    report.show(report.grid(columns, rows))
    if chosen.write:
        command = measurements.command("bench SUITE=kernel_sums", "BENCH_FLAGS")
        print(measurements.write("kernel_sums", command, columns, rows))


if __name__ == "__main__":
    main()

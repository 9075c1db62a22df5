"""The limit of any rewrite: the time of the convolutions and matrix products alone, at the peak."""

from __future__ import annotations

import statistics
import time

import inference_graphs
import tensorflow as tf

tf1 = tf.compat.v1

_PRODUCTS = frozenset(["MatMul", "BatchMatMul", "BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative"])
_UNCOUNTED = frozenset(["Enter", "Einsum"])
# Large enough to reach the peak, small enough for a second of rounds.
_SIZE, _ROUNDS = 2048, 15


def peak(dtype: tf.DType) -> float:
    """Floating-point operations per second in a square MatMul of `dtype`, the median of rounds."""
    with tf.Graph().as_default() as graph:
        matrices = (tf.cast(tf.random.uniform([_SIZE, _SIZE], seed=seed), dtype) for seed in (1, 2))
        product = tf.matmul(*(tf1.Variable(matrix) for matrix in matrices)).op
        init = tf1.global_variables_initializer()
    took = []
    with tf1.Session(graph=graph) as session:
        session.run(init)
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            session.run(product)
            took.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / statistics.median(took)


def speed_up(
    graph: inference_graphs.FrozenGraph, seconds: float, operations_per_second: float
) -> float | None:
    """The ratio of `seconds` to the time of the products alone; None if some cannot be counted."""
    operations = products(graph)
    return seconds * operations_per_second / operations if operations else None


def products(graph: inference_graphs.FrozenGraph) -> int:
    """Operations of the convolutions and matrix products; 0 if some cannot be counted."""
    graph_def = graph.graph_def()
    # TensorFlow does not count the operations of an Einsum.
    if graph_def.library.function or any(node.op in _UNCOUNTED for node in graph_def.node):
        return 0
    with tf.Graph().as_default() as fixed:
        fed = tf1.placeholder(tf.as_dtype(graph.x.dtype), graph.x.shape)
        tf.import_graph_def(graph_def, name="", input_map={graph.feed: fed})
    builder = tf1.profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    profile = tf1.profiler.profile(fixed, cmd="op", options=options)
    found, rest = 0, [profile]
    while rest:
        node = rest.pop()
        found += node.float_ops * (node.name in _PRODUCTS)
        rest.extend(node.children)
    return found

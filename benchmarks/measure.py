"""Measures a contender: the time in pairs, the kernels that ran, and the error."""

from __future__ import annotations

import collections
import dataclasses
import re
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from runner import Ran

tf1 = tf.compat.v1
_CASTS = ("Cast", "_MklCast")
# Ops whose time includes that of the nodes that they call, which are traced too.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile")
LOW = (tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum)


@dataclasses.dataclass
class Measured:
    """One contender on one graph.

    Attributes:
        ratio: the baseline's step time over this one's, the median over rounds that ran both.
        milliseconds: the median step time.
        casts: the number of Casts that ran in a step, or None if unknown.
        low_share: the share of the step's kernel time that was in a low type, or None.
        shares: by kernel, its share of the step's kernel time, or None.
        error: the largest difference from the right result, in standard deviations of that result.
    """

    ratio: float
    milliseconds: float
    casts: int | None
    low_share: float | None
    shares: dict[str, float] | None
    error: float


def in_rounds(steps: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Seconds per step and contender; each round runs every contender once, in turn.

    Runs at least five rounds, and until the time is used up.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return times


def paired_ratio(baseline: list[float], contender: list[float]) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(b / c for b, c in zip(baseline, contender))


def what_ran(session: tf1.Session, fetches: list[str], feeds: Mapping[str, np.ndarray]) -> Ran:
    """Traces one step of a session; returns the kernels that ran."""
    options = tf1.RunOptions(
        trace_level=tf1.RunOptions.SOFTWARE_TRACE, output_partition_graphs=True
    )
    metadata = tf1.RunMetadata()
    session.run(fetches, feeds, options, metadata)
    return _ran(metadata)


def _ran(metadata: tf1.RunMetadata) -> Ran:
    nodes = {node.name: node for partition in metadata.partition_graphs for node in partition.node}
    casts, low, took_by_op = 0, 0.0, collections.Counter()
    for device in metadata.step_stats.dev_stats:
        for stats in device.node_stats:
            op = _op(stats)
            if op is None or op in _CALLS:
                continue
            casts += op in _CASTS
            took = stats.op_end_rel_nanos - stats.op_start_rel_nanos
            took_by_op[op] += took
            low += took * _is_low(nodes.get(stats.node_name), stats, op)
    total = sum(took_by_op.values()) or 1
    return casts, low / total, {op: took / total for op, took in took_by_op.most_common()}


def _op(stats) -> str | None:
    """The op of a node that ran; also for nodes of functions, which are in no partition graph."""
    found = re.search(r" = (\w+)\(", stats.timeline_label)
    return found and found.group(1)


def _is_low(node, stats, op: str) -> bool:
    if node is not None:
        return node.attr["T"].type in LOW
    outputs = [output.tensor_description.dtype for output in stats.output]
    return op not in _CASTS and any(dtype in LOW for dtype in outputs)


def casts_in_functions(step: Callable[[], np.ndarray]) -> tuple[np.ndarray, int]:
    """The result of a first step, and the Casts in the functions that it calls eagerly.

    A trace of such functions does not name their nodes.
    """
    # Not a public name of TensorFlow, but its own way to see what Grappler made of functions.
    from tensorflow.python.eager import context

    context.context().enable_graph_collection()
    try:
        result = step()
        graphs = context.export_run_metadata().partition_graphs
    finally:
        context.context().disable_graph_collection()
    return result, sum(node.op in _CASTS for graph in graphs for node in graph.node)


def error(result: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the standard deviation or size of the expected value."""
    scale = expected.std() if expected.size > 1 else abs(float(expected))
    return float(np.max(np.abs(np.asarray(result, np.float32) - expected)) / scale)

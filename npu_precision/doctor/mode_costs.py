"""Measures the cost of each precision mode here: small networks, timed in sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.offline import rewrite_graph_def
from npu_precision.session import npu_config_proto

_FLOAT32 = "must_keep_origin_dtype"
MODES = ("allow_mix_precision", "allow_mix_precision_bf16")
_LAYERS = 4
_WARM_UP_STEPS = 3
# Float16 may take 300 times as long as float32 where it is only emulated.
_FEWEST_ROUNDS, _MOST_ROUNDS = 2, 200
_tf1 = _tf_compat.tf1


def _products(on_gpu: bool) -> Any:
    rows, width = (4096, 4096) if on_gpu else (256, 512)
    x = _variable("x", [rows, width])
    for number in range(_LAYERS):
        x = tf.nn.relu(tf.matmul(x, _variable(f"weights_{number}", [width, width])))
    return x


def _convolutions(on_gpu: bool) -> Any:
    batch, size, channels = (32, 64, 256) if on_gpu else (8, 32, 64)
    x = _variable("x", [batch, size, size, channels])
    for number in range(_LAYERS):
        filters = _variable(f"filters_{number}", [3, 3, channels, channels])
        x = tf.nn.relu(_tf1.nn.conv2d(x, filters, strides=[1, 1, 1, 1], padding="SAME"))
    return x


def _variable(name: str, shape: list[int]) -> Any:
    values = _tf1.random_normal_initializer(stddev=0.05, seed=1)
    return _tf1.get_variable(name, shape, tf.float32, initializer=values, use_resource=True)


# By name: the function that builds a network, large enough to fill a GPU if it is for one; and the
# op type that takes most of its time.
NETWORKS: dict[str, tuple[Callable[[bool], Any], str]] = {
    "matrix products": (_products, "MatMul"),
    "convolutions": (_convolutions, "Conv2D"),
}


def measure(seconds: float = 1.0) -> list[dict[str, Any]]:
    """Times a step of each network in float32 and in each mode, through the optimizer.

    Args:
        seconds: about how long to measure each network, besides the warm-up.

    Returns:
        An entry per mode and network: "mode"; "network"; "lowered", how many of its _LAYERS
        products or convolutions are lowered; "seconds" and "float32_seconds", the shortest steps;
        "ratio", the quotient of the two.
    """
    costs = []
    for name, (build, op_type) in NETWORKS.items():
        with tf.Graph().as_default() as graph:
            tf.identity(build(_tf_compat.has_gpu()), name="out")
            initializer = _tf1.global_variables_initializer()
            times = _shortest_steps(graph, initializer, seconds)
        for mode in MODES:
            _, ledger = rewrite_graph_def(graph.as_graph_def(), ["out"], precision_mode=mode)
            lowered = [
                node for node in ledger.nodes if (node.op, node.decision) == (op_type, "lowered")
            ]
            costs.append(
                {
                    "mode": mode,
                    "network": name,
                    "lowered": len(lowered),
                    "seconds": times[mode],
                    "float32_seconds": times[_FLOAT32],
                    "ratio": times[mode] / times[_FLOAT32],
                }
            )
    return costs


def _shortest_steps(graph: Any, initializer: Any, seconds: float) -> dict[str, float]:
    """The seconds of the shortest step by mode. Modes take turns, because a machine may slow."""
    sessions = {}
    try:
        for mode in (_FLOAT32, *MODES):
            config = npu_config_proto(precision_mode=mode)
            sessions[mode] = _tf1.Session(graph=graph, config=config)
            sessions[mode].run(initializer)
            end = time.perf_counter() + seconds
            for done in range(_WARM_UP_STEPS):
                if done == 0 or time.perf_counter() < end:
                    sessions[mode].run("out")
        times: dict[str, list[float]] = {mode: [] for mode in sessions}
        end = time.perf_counter() + seconds
        for done in range(_MOST_ROUNDS):
            if done >= _FEWEST_ROUNDS and time.perf_counter() > end:
                break
            for mode, session in sessions.items():
                start = time.perf_counter()
                session.run("out")  # Not "out:0", whose value would be copied to the host.
                times[mode].append(time.perf_counter() - start)
    finally:
        for session in sessions.values():
            session.close()
    return {mode: min(steps) for mode, steps in times.items()}

"""Compares the update step of a fused optimizer with that of Keras' own optimizer.

    python benchmarks/optimizers.py

A step applies constant gradients to the weights of a model. The figure is the median over rounds of
the ratio of two adjacent measurements; it is above 1 if the fused optimizer is faster.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import combine_grad
import measure
import numpy as np
import rich.console
import rich.table
import tensorflow as tf

import npu_precision
from npu_precision.amp import optimizers

# By name: Keras' own optimizer and the fused one.
PAIRS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "SGD": (
        lambda: tf.keras.optimizers.SGD(1e-3, momentum=0.9),
        lambda: optimizers.NpuFusedSGD(1e-3, momentum=0.9),
    ),
    "Adam": (tf.keras.optimizers.Adam, optimizers.NpuFusedAdam),
    "AdamW": (tf.keras.optimizers.AdamW, optimizers.NpuFusedAdamW),
    "Adadelta": (tf.keras.optimizers.Adadelta, optimizers.NpuFusedAdadelta),
    "RMSprop": (tf.keras.optimizers.RMSprop, optimizers.NpuFusedRMSprop),
}


def step(shapes: list[list[int]], optimizer, scales: bool) -> Callable[[], object]:
    """A function that takes a step, through a GradScaler if it scales."""
    random = np.random.RandomState(0)
    variables, grads = (
        [tf.Variable(random.normal(size=shape), dtype=tf.float32) for shape in shapes]
        for _ in range(2)
    )
    optimizer.build(variables)
    scaler = npu_precision.GradScaler()

    @tf.function
    def run():
        pairs = [(grad.read_value(), each) for grad, each in zip(grads, variables)]
        if not scales:
            optimizer.apply_gradients(pairs)
            return
        scaler.scale(tf.constant(1.0))
        scaler.step(optimizer, pairs)
        scaler.update()

    run()
    return run


def ratio(model: str, name: str, scales: bool, seconds: float) -> tuple[int, float, float]:
    """(variables, milliseconds of Keras' step, how much faster the fused optimizer is)."""
    shapes = combine_grad.shapes_of(model)
    steps = {
        kind: step(shapes, make(), scales) for kind, make in zip(("keras", "fused"), PAIRS[name])
    }
    times = measure.in_rounds(steps, seconds)
    faster = measure.paired_ratio(times["keras"], times["fused"])
    return len(shapes), 1e3 * float(np.median(times["keras"])), faster


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default="small,many small,MobileNetV2,ResNet50")
    parser.add_argument("--optimizers", default=",".join(PAIRS), help="default %(default)s")
    parser.add_argument("--scaler", action="store_true", help="with a GradScaler")
    parser.add_argument("--seconds", type=float, default=5.0, help="per row (default %(default)s)")
    arguments = parser.parse_args()
    table = rich.table.Table("model", "optimizer", "variables", "Keras, ms", "fused is faster by")
    for model in arguments.models.split(","):
        for name in arguments.optimizers.split(","):
            if name not in PAIRS:
                parser.error(f"--optimizers: got {name!r}, expected some of {', '.join(PAIRS)}")
            count, milliseconds, faster = ratio(model, name, arguments.scaler, arguments.seconds)
            table.add_row(model, name, str(count), f"{milliseconds:.2f}", f"{faster:.2f}")
    rich.console.Console().print(table)


if __name__ == "__main__":
    main()

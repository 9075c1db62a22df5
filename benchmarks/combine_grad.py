"""Compares two ways to unscale and check gradients: one flat buffer per dtype, tensor by tensor.

    python benchmarks/combine_grad.py

A step makes random gradients of a model, unscales and checks them, and sums each of them, so that
none is pruned. The figure is the median over rounds of the ratio of two adjacent measurements; it
is above 1 if the buffer is faster.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measure
import numpy as np
import rich.console
import rich.table
import tensorflow as tf

from npu_precision.loss_scaling import gradients

tf1 = tf.compat.v1


def shapes_of(name: str) -> list[list[int]]:
    """The shapes of the weights of a model."""
    if name == "small":
        return [[64, 128], [128], [128, 10], [10]]
    if name == "many small":
        return [[32]] * 500
    application = getattr(tf.keras.applications, name)
    with tf.Graph().as_default():
        model = application(weights=None)
        return [weight.shape.as_list() for weight in model.trainable_weights]


def step(shapes: list[list[int]], combined: bool) -> tuple[tf.Graph, tf.Tensor, tf.Operation]:
    """The graph, its fetches, and its initializer."""
    with tf.Graph().as_default() as graph:
        made = [
            tf1.get_variable(f"g{i}", shape, use_resource=True) for i, shape in enumerate(shapes)
        ]
        scale = tf1.placeholder_with_default(8.0, [])
        unscaled, finite = gradients.unscaled_and_checked(
            [variable.read_value() for variable in made], scale, combined
        )
        with tf.control_dependencies([finite]):
            total = tf.add_n([tf.reduce_sum(each) for each in unscaled])
        return graph, total, tf1.global_variables_initializer()


def ratio(name: str, seconds: float) -> tuple[int, float, float]:
    """(gradients, milliseconds tensor by tensor, how much faster the buffer is)."""
    shapes = shapes_of(name)
    with contextlib.ExitStack() as stack:
        steps = {}
        for combined in (False, True):
            graph, total, init = step(shapes, combined)
            session = stack.enter_context(tf1.Session(graph=graph))
            session.run(init)
            steps[combined] = functools.partial(session.run, total)
            steps[combined]()
        times = measure.in_rounds(steps, seconds)
    faster = measure.paired_ratio(times[False], times[True])
    return len(shapes), 1e3 * float(np.median(times[False])), faster


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default="small,many small,MobileNetV2,ResNet50")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="per model (default %(default)s)"
    )
    arguments = parser.parse_args()
    table = rich.table.Table("model", "gradients", "ms", "combined is faster by")
    for name in arguments.models.split(","):
        count, milliseconds, faster = ratio(name, arguments.seconds)
        table.add_row(name, str(count), f"{milliseconds:.2f}", f"{faster:.2f}")
    rich.console.Console().print(table)


if __name__ == "__main__":
    main()

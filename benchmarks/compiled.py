"""Training steps that XLA compiles, and the same without XLA: `make bench SUITE=compiled`.

    make bench SUITE=compiled BENCH_FLAGS="--seconds 10 --write"

All contenders take turns in one process. A ratio is over float32 without XLA, the median over
rounds. The last columns are seconds: the first call, with tracing and XLA's compilation, in float32
and in the mode; and of the latter, what Grappler takes with our optimizer.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The models are those of the tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import encoder_models
import measure
import measurements
import numpy as np
import report
import tensorflow as tf
from support import keras_models
from tensorflow.python.eager import context

import npu_precision
from npu_precision._tf_compat import compiled_functions
from npu_precision.session import compiler_ir

MODE = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")
# By column: whether XLA compiles the step, and whether the mode is on.
CONTENDERS = {
    "float32": (False, False),
    "bfloat16": (False, True),
    "float32, XLA": (True, False),
    "bfloat16, XLA": (True, True),
}


def _cnn() -> tf.keras.Model:
    layers = tf.keras.layers
    inputs = x = tf.keras.Input([32, 32, 3])
    for _ in range(5):
        x = layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(inputs, layers.Dense(keras_models.CLASSES)(x))


# By row: the model, and the size of a batch.
MODELS: dict[str, tuple[Callable[[], tf.keras.Model], int]] = {
    "encoder": (lambda: encoder_models.encoder(tf.keras, 128, 384, 3, 6), 8),
    "cnn": (_cnn, 16),
}


def training_step(name: str, compiled: bool) -> Callable[[], tf.Tensor]:
    """A function that makes a step of SGD, always on the same batch; it returns the loss."""
    build, batch = MODELS[name]
    tf.keras.utils.set_random_seed(1)
    model = build()
    x = tf.constant(
        np.random.default_rng(0).normal(size=[batch, *model.input_shape[1:]]), tf.float32
    )
    labels = tf.range(batch) % keras_models.CLASSES

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables)
        ):
            variable.assign_sub(1e-3 * gradient)
        return loss

    return tf.function(step, jit_compile=True) if compiled else tf.function(step)


def seconds_of(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rewriting(step: Callable[[], tf.Tensor]) -> float:
    """Seconds that Grappler takes with our optimizer for what the compiled step calls."""
    name = step.get_concrete_function().name
    graph = compiled_functions._graph_of(context.context(), name.decode())
    return seconds_of(lambda: compiler_ir.optimized(graph, MODE))


def row(name: str, seconds: float) -> list[str]:
    """The cells of a model."""
    steps, first = {}, {}
    for contender, (compiled, lowered) in CONTENDERS.items():
        step = training_step(name, compiled)

        def call(step: Callable = step, lowered: bool = lowered) -> None:
            if lowered:
                with npu_precision.autocast(MODE):
                    step().numpy()
            else:
                step().numpy()

        first[contender] = seconds_of(call)
        steps[contender] = call
    times = measure.in_rounds(steps, seconds)
    baseline = times["float32"]
    ratios = [f"{measure.paired_ratio(baseline, times[each]):.2f}" for each in list(steps)[1:]]
    compiling = [f"{first[each]:.2f}" for each in ("float32, XLA", "bfloat16, XLA")]
    milliseconds = f"{1000 * np.median(baseline):.1f}"
    return [name, milliseconds, *ratios, *compiling, f"{rewriting(training_step(name, True)):.2f}"]


def main() -> None:
    """Prints the table, or writes it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    measurements.add_flag(parser)
    chosen = parser.parse_args()
    headings = ["row", "float32, ms", *list(CONTENDERS)[1:]]
    headings += ["first call, float32", "first call, bfloat16", "of it, Grappler"]
    columns = {heading: "left" if heading == "row" else "right" for heading in headings}
    rows = [row(name, chosen.seconds) for name in MODELS]
    report.show(report.grid(columns, rows))
    if chosen.write:
        command = measurements.command("bench SUITE=compiled", "BENCH_FLAGS")
        print(measurements.write("compiled", command, columns, rows))


if __name__ == "__main__":
    main()

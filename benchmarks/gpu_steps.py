"""Step: what a contender does in a row, and steps that are timed in turn.

A GPU computes while Python goes on. So several steps are started, and the last one is waited for.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpu_contenders
import gpu_profile
import gpu_rows
import live
import live_models
import measure
import numpy as np
import tensorflow as tf
from gpu_contenders import Contender
from gpu_rows import Row
from support import keras_models

tf1 = tf.compat.v1
# Batch norms learn their statistics from so many inputs, in one step.
_CALIBRATION = 16
_MOMENTUM = 0.9
_LEARNING_RATE = 1e-4
# A measurement takes at least so long, so that waiting for the GPU is a small part of it.
_SECONDS = 0.2
_WARM_UP = 3


@dataclasses.dataclass(frozen=True)
class Step:
    """A step.

    Attributes:
        contender: whose step it is.
        start: begins a step; returns what wait() takes.
        wait: the result of the step, once it and all before it have ended.
        prepare: does what needs no GPU, such as tracing.
        reset: gives the variables the values with which all contenders begin.
    """

    contender: Contender
    start: Callable[[], Any]
    wait: Callable[[Any], np.ndarray]
    prepare: Callable[[], object] = lambda: None
    reset: Callable[[], object] = lambda: None

    def run(self, count: int) -> np.ndarray:
        """The result of the last of `count` steps."""
        with self.contender.settings():
            for _ in range(count):
                started = self.start()
            return self.wait(started)


@dataclasses.dataclass
class Figures:
    """What was measured of a contender.

    Attributes:
        ratio: float32's step time, with TF32, over this one's, the median over rounds.
        milliseconds: the median step time.
        device_milliseconds: the time of a step's kernels on the GPU, or None if CUPTI is silent.
        first_seconds: the first step, with Grappler and XLA's compilation.
        peak_megabytes: what a step allocates on the GPU beside what is there before, or None.
        error: the largest difference of the first result from that of float32 without TF32, over
            the standard deviation or the size of that.
    """

    ratio: float
    milliseconds: float
    device_milliseconds: float | None
    first_seconds: float
    peak_megabytes: float | None
    error: float


def steps(row: Row, small: bool, rewrites: Sequence[str]) -> dict[str, Step]:
    """The steps of the contenders of a row, not traced yet."""
    contenders = gpu_contenders.of_row(row, rewrites)
    policies = {contender.policy for contender in contenders.values()}
    models = {policy: gpu_rows.built(row.model, policy, small) for policy in sorted(policies)}
    if "inference" in row.kind or row.kind == "frozen":
        keras_models.take_batch_norm_statistics(models["float32"], _CALIBRATION)
    weights = models["float32"].get_weights()
    made = {}
    for name, contender in contenders.items():
        model = models[contender.policy]
        x, labels = live_models.batch_of(model, 2 if small else row.batch)
        if row.kind == "frozen":
            made[name] = _of_session(contender, model, x)
        else:
            function = step_function(row, model)
            made[name] = _of_function(contender, model, weights, function, (x, labels))
    return made


def _of_function(
    contender: Contender,
    model: Any,
    weights: list[np.ndarray],
    function: Callable[..., tf.Tensor],
    batch: tuple[np.ndarray, ...],
) -> Step:
    arguments = [tf.constant(each) for each in batch]

    return Step(
        contender,
        start=lambda: function(*arguments),
        wait=lambda result: result.numpy(),
        prepare=lambda: function.get_concrete_function(*arguments),
        reset=lambda: model.set_weights(weights),
    )


def step_function(row: Row, model: Any) -> Callable[..., tf.Tensor]:
    """The tf.function of a step: it takes inputs and labels, and yields logits or the loss."""
    import keras

    if "inference" in row.kind:
        return live.inference(model, row.is_compiled)
    optimizer = (
        keras.optimizers.Adam(_LEARNING_RATE)
        if row.kind.endswith("adam")
        else keras.optimizers.SGD(_LEARNING_RATE, momentum=_MOMENTUM)
    )
    return live.training_step(model, optimizer, row.is_compiled)


def _of_session(contender: Contender, model: Any, x: np.ndarray) -> Step:
    # Not a public name of TensorFlow, but its own way to freeze a function in TF 2.
    from tensorflow.python.framework import convert_to_constants

    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(x.shape, x.dtype, name="x"))
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
    with tf.Graph().as_default() as graph:
        # In a variable, the input is on the GPU, and nothing is folded.
        variable = tf1.get_variable("input", initializer=x, use_resource=True)
        (result,) = tf.import_graph_def(
            frozen.graph.as_graph_def(),
            {frozen.inputs[0].name: variable.read_value()},
            [frozen.outputs[0].name],
            name="model",
        )
    session = tf1.Session(graph=graph, config=contender.config())
    session.run(variable.initializer)
    return Step(
        contender,
        start=session.make_callable(result.op),
        wait=lambda _: session.run(result),
    )


def measured(made: Mapping[str, Step], seconds: float) -> tuple[dict[str, Figures], dict[str, str]]:
    """The figures of the contenders, and the errors of those that failed."""
    ready, first, results, failed = {}, {}, {}, {}
    for name, step in made.items():
        begin = time.perf_counter()
        try:
            step.reset()
            results[name] = step.run(1)
            first[name] = time.perf_counter() - begin
            step.run(_WARM_UP)
            ready[name] = step
        except (tf.errors.OpError, RuntimeError, ValueError) as error:  # It goes into the table.
            failed[name] = f"{type(error).__name__}: {error}"
    if not {gpu_contenders.BASELINE, gpu_contenders.EXACT} <= set(ready):
        return {}, failed
    times = _in_rounds(ready, seconds)
    baseline, exact = times[gpu_contenders.BASELINE], results[gpu_contenders.EXACT]
    figures = {
        name: Figures(
            ratio=measure.paired_ratio(baseline, times[name]),
            milliseconds=1e3 * statistics.median(times[name]),
            device_milliseconds=gpu_profile.milliseconds_on_gpu(step.run, _WARM_UP),
            first_seconds=first[name],
            peak_megabytes=_peak(step),
            error=measure.error(results[name], exact),
        )
        for name, step in ready.items()
    }
    return figures, failed


def _in_rounds(ready: Mapping[str, Step], seconds: float) -> dict[str, list[float]]:
    """Seconds per step; a round has the same number of steps of each contender, in turn."""
    begin = time.perf_counter()
    ready[gpu_contenders.BASELINE].run(1)
    count = max(1, math.ceil(_SECONDS / (time.perf_counter() - begin)))
    rounds = measure.in_rounds(
        {name: lambda step=step: step.run(count) for name, step in ready.items()}, seconds
    )
    return {name: [each / count for each in taken] for name, taken in rounds.items()}


def _peak(step: Step) -> float | None:
    if not tf.config.list_physical_devices("GPU"):
        return None
    before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    tf.config.experimental.reset_memory_stats("GPU:0")
    step.run(1)
    return (tf.config.experimental.get_memory_info("GPU:0")["peak"] - before) / 1e6

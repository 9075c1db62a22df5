"""Measures how long a model's steps take in several precisions, next to steps in float32."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from npu_precision import _library
from npu_precision.accuracy import session_state
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.model_run import run_once
from npu_precision.options import PrecisionOptions
from npu_precision.session.sessions import npu_config_proto
from npu_precision.tuning.trials import output_tensors

# The first runs of a session optimize the graph, and allocate.
_WARM_UP = 2


@dataclasses.dataclass(frozen=True)
class StepTime:
    """The time of a step, as measured in pairs with float32.

    Attributes:
        seconds: the median time.
        ratio: the median over the rounds of its time over float32's of the same round.
        low: the lower quartile of these ratios.
        high: the upper quartile.
    """

    seconds: float
    ratio: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """Whether it is faster than float32 beyond the noise: in three quarters of the rounds."""
        return self.high < 1

    @property
    def is_slower(self) -> bool:
        """Whether it is slower than float32 beyond the noise."""
        return self.low > 1


def measure(
    model: FrozenModel,
    batches: Sequence[Feed],
    rounds: int,
    precisions: Sequence[PrecisionOptions],
) -> list[StepTime]:
    """Measures a model in sessions of TensorFlow, with all its graph optimizations.

    Each precision runs in the kernels of this machine, whatever `emulate` says.

    Args:
        model: the model.
        batches: the inputs; the rounds take them in turn.
        rounds: how many rounds to measure.
        precisions: the precisions to measure beside the untouched model in float32.

    Returns:
        The time of float32, and then the times of the precisions.

    Raises:
        ValueError: TensorFlow cannot run the model, or the optimizer refuses a precision.
    """
    configs = [tf.compat.v1.ConfigProto(allow_soft_placement=True)]
    configs += [npu_config_proto(options=_as_used(options)) for options in precisions]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(model.graph_def, name="")
    fetches = {tensor: tensor for tensor in output_tensors(model, graph).values()}
    batches = [model.fed(batch) for batch in batches]
    with contextlib.ExitStack() as stack:
        stack.callback(_library.take_overflow)  # As in run_as_it_is.
        steps = []
        for config in configs:
            session = tf.compat.v1.Session(graph=graph, config=config)
            stack.callback(session.close)
            session_state.fill(session, model.states)
            steps.append(functools.partial(_step, session, fetches, batches))
        return in_rounds(steps, rounds)


def _step(
    session: tf.compat.v1.Session, fetches: dict[str, str], batches: Sequence[Feed], number: int
) -> None:
    run_once(session, fetches, batches[number % len(batches)])


def in_rounds(
    steps: Sequence[Callable[[int], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[StepTime]:
    """Measures steps in rounds; a round runs every step once.

    A temporary slowdown of the machine affects a whole round, so times are compared within rounds.
    Every other round runs backwards, and the first step of a round changes, so that no step always
    has the same place, or follows the same one.

    Args:
        steps: functions that run a step, called with the number of the round; the first is
            float32's.
        rounds: how many rounds to measure.
        clock: the time in seconds.
    """
    for _ in range(_WARM_UP):
        for step in steps:
            step(0)
    taken = np.zeros([len(steps), rounds])
    for number in range(rounds):
        for which in _order(len(steps), number):
            start = clock()
            steps[which](number)
            taken[which, number] = clock() - start
    found = []
    for times in taken:
        low, middle, high = np.percentile(times / taken[0], [25, 50, 75])
        found.append(StepTime(float(np.median(times)), float(middle), float(low), float(high)))
    return found


def _order(count: int, number: int) -> list[int]:
    order = [(number // 2 + place) % count for place in range(count)]
    return order if number % 2 == 0 else order[::-1]


def _as_used(options: PrecisionOptions) -> PrecisionOptions:
    """The options without those that are for measuring errors, and without files."""
    return dataclasses.replace(
        options, emulate=None, overflow=None, report_dir=None, dump_passes_dir=None
    )

"""The curves of one run of a training."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_precision.options import PrecisionOptions
from npu_precision.session import functions
from npu_precision.training import program


@dataclasses.dataclass
class Curves:
    """The measurements in the steps of a run.

    Attributes:
        losses: the losses, [steps].
        norms: the norms of the gradients, [steps, variables], or [steps, 0] if not known.
        batches: a checksum of the batch per step.
        names: the names of the variables.
        ops: the op that each variable's gradient belongs to, or "".
        first: the weights before the first step.
        last: the weights after the last step.
    """

    losses: np.ndarray
    norms: np.ndarray
    batches: np.ndarray
    names: list[str]
    ops: list[str]
    first: list[np.ndarray]
    last: list[np.ndarray]


def run(
    name: str,
    function: Callable[..., Any],
    options: PrecisionOptions | None,
    seed: int,
    steps: int,
    first: Sequence[np.ndarray] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> Curves:
    """Builds the training and makes steps.

    Args:
        name: the name of the function.
        function: the user's function, see program.build.
        options: the precision, or None for float32.
        seed: the seed.
        steps: the number of steps.
        first: the weights to begin with, or None for those of the function.
        progress: called with the number of each step.

    Raises:
        ValueError: the function does not build what it should.
    """
    with functions.entered(options):
        built = program.build(name, function, seed)
        if first is not None:
            built.set_weights(list(first))
        begun = built.weights()
        made = []
        for number, step in enumerate(itertools.islice(built.steps(), steps)):
            made.append(step)
            progress(number)
        return Curves(
            np.array([step.loss for step in made]),
            np.array([step.norms for step in made]).reshape(len(made), -1),
            np.array([step.batch for step in made], np.int64),
            built.names,
            [op or "" for op in built.ops],
            begun,
            built.weights(),
        )


def not_finite(curves: Curves) -> str:
    """The first loss of a run that is not finite, or a weight after the last step; or ""."""
    bad = np.flatnonzero(~np.isfinite(curves.losses))
    if len(bad):
        return f"the loss of step {bad[0]}, {curves.losses[bad[0]]}"
    for name, last in zip(curves.names, curves.last):
        if np.issubdtype(last.dtype, np.floating) and not np.isfinite(last).all():
            return f"{name} after the last step"
    return ""


def first_difference(one: Curves, other: Curves) -> str:
    """Where two runs in float32 with the same seed differ first, or "" if they do not."""
    for name, before, after in zip(one.names, one.first, other.first):
        if before.shape != after.shape or not np.array_equal(before, after, equal_nan=True):
            return f"the initial value of {name}"
    for step, (before, after) in enumerate(zip(one.batches, other.batches)):
        if before != after:
            return f"the batch of step {step}"
        if not np.isclose(one.losses[step], other.losses[step], 1e-4, 1e-7, equal_nan=True):
            return f"the loss of step {step}, {one.losses[step]:.7g} and {other.losses[step]:.7g}"
    return ""

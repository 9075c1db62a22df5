"""Program: one program of the corpus of `make numerics`, its four forms, and the list of all."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# How far a program's result may be from float32's, as a share of the size of its values. A bfloat16
# has 8 bits, a float16 11, and each program has a matrix product or convolution of about 16 terms.
RESULT = {"bfloat16": 0.03, "float16": 0.005}
# Two trainings differ by more than the error of one step: every step starts from other weights.
TRAINING = {"bfloat16": 0.05, "float16": 0.05}


@dataclasses.dataclass(frozen=True)
class Result:
    """A tf.function and its arguments, not constants because TensorFlow would fold them away."""

    function: Callable[..., tf.Tensor]
    inputs: Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Training:
    """Adam minimizes `loss(variables, *inputs)`."""

    loss: Callable[..., tf.Tensor]
    variables: Sequence[np.ndarray]
    inputs: Sequence[np.ndarray]
    steps: int = 60
    rate: float = 0.02


@dataclasses.dataclass(frozen=True)
class KerasTraining:
    """Adam minimizes `loss(targets, model(inputs))`; Keras' policy can change this form alone."""

    model: tf.keras.Model
    loss: Callable[..., tf.Tensor]
    inputs: np.ndarray
    targets: np.ndarray
    steps: int = 60
    rate: float = 0.02


@dataclasses.dataclass(frozen=True)
class Graph:
    """A TF1 graph, run in a session: `fetch` is the result, or the loss to minimize in `steps`."""

    fetch: tf.Tensor
    feeds: dict[tf.Tensor, np.ndarray]
    steps: int = 0
    rate: float = 0.02


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the corpus.

    Attributes:
        name: its name in the table.
        build: builds it, with the same values each time.
        kind: "result" or "training".
        room: the file it is from, such as "losses".
        tolerance: how far its result may be from float32's, by low dtype.
        seconds: a program that runs longer counts as endless.
    """

    name: str
    build: Callable[[], Result | Training | KerasTraining | Graph]
    kind: str
    room: str
    tolerance: dict[str, float]
    seconds: float


_PROGRAMS: dict[str, Program] = {}


def program(name: str, kind: str = "result", tolerance: dict | None = None, seconds: float = 60):
    """Decorator that adds the program that a function builds to the corpus."""

    def add(build):
        room = build.__module__.partition("programs_")[2]
        usual = TRAINING if kind == "training" else RESULT
        if name in _PROGRAMS:
            raise ValueError(f"two programs are named {name!r}; rename one of them")
        limits = {**usual, **(tolerance or {})}
        _PROGRAMS[name] = Program(name, build, kind, room, limits, seconds)
        return build

    return add


def of(name: str, *inputs: np.ndarray, tolerance: dict | None = None):
    """Decorator that adds the program whose result is a function of these inputs."""

    def add(function):
        def build():
            return Result(function, inputs)

        build.__module__ = function.__module__  # The room's.
        program(name, tolerance=tolerance)(build)
        return function

    return add


def corpus() -> dict[str, Program]:
    """All programs by name, file after file."""
    for path in sorted(pathlib.Path(__file__).parent.glob("programs_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return dict(_PROGRAMS)


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """float32 numbers around zero, the same for the same seed."""
    return np.random.default_rng(seed).normal(scale=scale, size=shape).astype(np.float32)


def uniform(seed: int, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """float32 numbers between two, the same for the same seed."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def classes(seed: int, count: int, of: int) -> np.ndarray:
    """Random ids of classes, the same for the same seed."""
    return np.random.default_rng(seed).integers(0, of, count).astype(np.int32)

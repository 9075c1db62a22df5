"""Runs the first steps of a program, and writes down what they took and what the loss was."""

from __future__ import annotations

import atexit
import collections
import dataclasses
import json
import multiprocessing
import os
import pathlib
import sys
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import npu_precision_startup
from npu_precision.flight.recorder import FlightRecorder
from npu_precision.launch import calls

# The first calls trace and optimize.
NOT_TIMED = 2
# A train_function of Keras 3 returns one. TensorFlow 1.15 has none here.
_OPTIONAL: Any = getattr(getattr(tf, "experimental", None), "Optional", ())
_WHAT = "loss"


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a trial is told.

    Attributes:
        file: where to write the result.
        steps: after how many of them the program ends.
        step: the name of what is a step, as an earlier trial found it; "" for what takes most of
            the time.
        record: a folder to record each step in, or None.
    """

    file: str
    steps: int
    step: str = ""
    record: str | None = None

    def to_environment(self) -> dict[str, str]:
        """The variable that says it, as JSON."""
        return {npu_precision_startup.TRIAL: json.dumps(dataclasses.asdict(self))}


def start_from_environment() -> bool:
    """Starts a trial, if the environment says so; processes of this one take no part in it.

    Returns:
        whether it says so.
    """
    given = os.environ.pop(npu_precision_startup.TRIAL, None)
    if given is not None:
        _Running(Trial(**json.loads(given)))
    return given is not None


class _Running:
    """A step is a call of a function, or a run of some fetches."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._process = os.getpid()
        self._names: dict[object, str] = {}
        self._numbers: collections.Counter[str] = collections.Counter()
        # By name.
        self._seconds: dict[str, list[float]] = {}
        self._losses: dict[str, list[float | None]] = {}
        self._lock = threading.Lock()
        self._recorder: FlightRecorder | None = None
        if trial.record is not None:
            self._recorder = FlightRecorder(trial.record, every_n_steps=1).__enter__()
        atexit.register(self._write)
        calls.watch(self._note)

    def _note(self, call: calls.Call) -> None:
        with self._lock:
            name = self._name(call)
            self._seconds.setdefault(name, []).append(call.seconds)
            self._losses.setdefault(name, []).append(_loss(call))
            if len(self._seconds.get(self._step(), [])) < NOT_TIMED + self._trial.steps:
                return
        self._write()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(0)  # The program might catch an exception, and go on.

    def _name(self, call: calls.Call) -> str:
        """The same in each trial: functions may share a name."""
        if call.key not in self._names:
            self._numbers[call.name] += 1
            number = self._numbers[call.name]
            self._names[call.key] = call.name if number == 1 else f"{call.name} ({number})"
        return self._names[call.key]

    def _step(self) -> str:
        return self._trial.step or max(self._seconds, key=lambda name: sum(self._seconds[name]))

    def _write(self) -> None:
        if os.getpid() != self._process:  # A copy of the process that os.fork() made.
            return
        if self._recorder is not None:
            self._recorder.__exit__(None, None, None)
            self._recorder = None
        step = self._step() if self._seconds else ""
        if step not in self._seconds:
            return
        found = {
            "name": step,
            "seconds": self._seconds[step],
            "losses": [None if each is None else str(each) for each in self._losses[step]],
        }
        file = pathlib.Path(self._trial.file)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(found), encoding="utf-8")
        partial.replace(file)


def _loss(call: calls.Call) -> float | None:
    """The loss that a call returned: a number that is named so, or else the first number."""
    numbers = list(_numbers(call))
    named = [value for name, value in numbers if _WHAT in name.lower()]
    return next(iter([*named, *(value for _, value in numbers)]), None)


def _numbers(call: calls.Call) -> list[tuple[str, float]]:
    result = call.result
    if isinstance(result, _OPTIONAL):
        result = result.get_value() if result.has_value() else None
    if isinstance(result, Mapping) and not call.names:
        named = [(str(name), value) for name, value in result.items()]
    else:
        values = calls.leaves(result)
        names = call.names if len(call.names) == len(values) else [""] * len(values)
        named = list(zip(names, values))
    return [(name, float(value)) for name, value in named if _is_number(value)]


def _is_number(value: Any) -> bool:
    if not isinstance(value, (tf.Tensor, np.ndarray, np.floating, float)):
        return False
    dtype = getattr(value, "dtype", tf.float32)
    return bool(tf.as_dtype(dtype).is_floating and np.prod(np.shape(value)) == 1)

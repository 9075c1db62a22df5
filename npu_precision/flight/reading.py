"""Reads the logs of flight recorders."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from npu_precision.flight.log import LINES

_EVENTS = ("start", "tensors", "forward", "sample", "overflow", "heal")


@dataclasses.dataclass
class GraphLog:
    """The record of one graph's tensors.

    Attributes:
        number: the number of the graph.
        description: the event "tensors".
        steps: the events "forward". An event that a PrecisionGuard healed has the event "heal" as
            "healed_by", and the same step when it was run again has it as "heals".
        trials: the events "forward" of what the guard tried.
    """

    number: int
    description: dict[str, Any]
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    trials: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        """The scopes that hold most of its tensors, as a name for the graph."""
        return self.description["name"]

    def column(self, name: str) -> np.ndarray:
        """A number per step and tensor: "largest", "over", "under", "zeros" or "nans"."""
        # Logs of earlier versions have no "nans".
        none = [0.0] * len(self.description["tensors"])
        return np.array([step.get(name, none) for step in self.steps], dtype=float)

    def by_scope(self, values: np.ndarray) -> np.ndarray:
        """The largest values of such a column, per step and scope."""
        result = np.full([len(values), len(self.description["scopes"])], -np.inf)
        for tensor, scope in enumerate(self.description["scope_of"]):
            np.maximum(result[:, scope], values[:, tensor], out=result[:, scope])
        return result


@dataclasses.dataclass
class RunLog:
    """The log of one recorder's run.

    Attributes:
        file: the file of the log.
        rank: the rank of the process, or None if it was the only one.
        number: the number of the run in the file, from 1.
        graphs: the graphs by their numbers.
        gradients: by the name of the optimizer, the events "sample" and "overflow".
        heals: the events "heal" of a PrecisionGuard.
    """

    file: pathlib.Path
    rank: int | None
    number: int
    graphs: dict[int, GraphLog] = dataclasses.field(default_factory=dict)
    gradients: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    heals: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether no step was recorded."""
        return not self.graphs and not self.gradients


def read(log: str | os.PathLike[str]) -> list[RunLog]:
    """Reads the runs of a recorder's folder, with those of all its ranks, or of one file.

    Raises:
        FileNotFoundError: there is no such file or folder, or no log in it.
        ValueError: a line is no event; the text has its file and number.
        OSError: a file cannot be read.
    """
    path = pathlib.Path(log)
    files = [path]
    if path.is_dir():
        files = sorted({*path.glob(LINES), *path.glob(f"rank_*/{LINES}")}, key=_rank_of)
        if not files:
            raise FileNotFoundError(
                f"{str(path)!r} has no {LINES}, expected the folder of a FlightRecorder"
            )
    runs = [run for file in files for run in _runs(file)]
    return [run for run in runs if not run.is_empty()]


def _rank_of(file: pathlib.Path) -> tuple[int, str]:
    number = file.parent.name.partition("rank_")[2]
    return (int(number) if number.isdigit() else -1), str(file)


def _runs(file: pathlib.Path) -> list[RunLog]:
    runs: list[RunLog] = []
    heals = _Heals()
    for place, event in _events(file):
        try:
            # Recorders of version 0.1 wrote no start.
            if event["event"] == "start" or not runs:
                runs.append(RunLog(file, event.get("rank"), len(runs) + 1))
            _add(event, runs[-1], heals)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{place}: the event {event['event']!r} has no {error}") from error
    return runs


class _Heals:
    """Finds the steps that a guard healed, by the order of the events.

    A wrong step is followed by trials, the same step when it was run again, and the event "heal".
    """

    def __init__(self) -> None:
        self._wrong: list[dict[str, Any]] = []
        self._again: list[dict[str, Any]] | None = None

    def see_trial(self, run: RunLog) -> None:
        if self._again is None:
            last = [graph.steps[-1] for graph in run.graphs.values() if graph.steps]
            self._wrong = [step for step in last if "first" in step]
        self._again = []

    def see_step(self, event: dict[str, Any]) -> None:
        if self._again is not None:
            self._again.append(event)

    def see_heal(self, event: dict[str, Any]) -> None:
        for step in self._wrong:
            step["healed_by"] = event
        for step in self._again or ():
            step["heals"] = event
        self._wrong, self._again = [], None


def _add(event: dict[str, Any], run: RunLog, heals: _Heals) -> None:
    kind = event["event"]
    if kind == "tensors":
        run.graphs[event["graph"]] = GraphLog(event["graph"], event)
    elif kind == "forward" and "trial" in event:
        heals.see_trial(run)
        run.graphs[event["graph"]].trials.append(event)
    elif kind == "forward":
        heals.see_step(event)
        run.graphs[event["graph"]].steps.append(event)
    elif kind == "heal":
        heals.see_heal(event)
        run.heals.append(event)
    elif kind != "start":
        run.gradients.setdefault(event["source"], []).append(event)


def _events(file: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{str(file)}:{number}"
        try:
            event = json.loads(line)
        except ValueError as error:
            if number == len(lines):  # The last line of a run that was killed while it wrote.
                return
            raise ValueError(f"{place}: no JSON: {error}") from error
        kind = event.get("event") if isinstance(event, dict) else None
        if kind not in _EVENTS:
            raise ValueError(f"{place}: got {line[:60]!r}, expected an event of a FlightRecorder")
        yield place, event

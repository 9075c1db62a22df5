"""Reads a dump: the tensors of one step, or their statistics."""

from __future__ import annotations

import csv
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import message

from npu_precision.dump_layout import GRAPHS, LONG_NAMES, clean
from npu_precision.dumps import file_names
from npu_precision.dumps.file_names import FileName
from npu_precision.flight import reading
from npu_precision.flight.log import LINES

# Of a .bin file, which has values alone: their type by their size in bytes.
_BY_SIZE = {2: np.float16, 4: np.float32, 8: np.float64}


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What is known of a tensor that was not written itself.

    Attributes:
        numbers: its statistics by their names: "most", "least", "mean", ...
        not_finite: the share of its values that are infinite or NaN.
        dtype: the type of the tensor, or that its values are rounded to; "" if it is not known.
    """

    numbers: Mapping[str, float]
    not_finite: float
    dtype: str = ""


@dataclasses.dataclass(frozen=True)
class DumpedTensor(FileName):
    """A tensor of a step: what the name of its file says, and its values.

    Attributes:
        load: returns its values, or its statistics.
    """

    load: Callable[[], np.ndarray[Any, Any] | Statistics]


@dataclasses.dataclass(frozen=True)
class Dump:
    """The tensors of a step.

    Attributes:
        folder: their folder.
        tensors: in the order in which they were computed.
        step: the recorded step, of a recorder's log.
        names: the ops' names by those in `tensors`, as far as they are known.
    """

    folder: pathlib.Path
    tensors: tuple[DumpedTensor, ...]
    step: int | None = None
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.folder}{'' if self.step is None else f', step {self.step}'}"

    def graph(self) -> tf.compat.v1.GraphDef | None:
        """The graph that ran, as DumpConfig writes it beside the models.

        Raises:
            ValueError: its file is damaged.
        """
        if len(self.folder.parts) < 3:
            return None
        model, number = self.folder.parts[-3:-1]
        file = self.folder.parents[2] / GRAPHS / model / f"{number}.pb"
        if not file.exists():
            return None
        graph = tf.compat.v1.GraphDef()
        try:
            graph.ParseFromString(file.read_bytes())
        except message.DecodeError as error:
            raise ValueError(f"{str(file)!r}: is damaged, or no GraphDef") from error
        return graph


def read_pair(first: str, second: str, step: int | None = None) -> tuple[Dump, Dump]:
    """Reads the dumps of the same step from two folders.

    Each folder has the files of a step, or folders of models and their steps, as an NPU and
    DumpConfig write them: {time}/{device}/{model}/{model id}/{step}. Of several, those that both
    have are taken, of these the model with most tensors, and its first step; of several times and
    devices, the last. A recorder's log, and a folder of one step, are compared with the largest.

    Args:
        first: the folder of a dump, or of a FlightRecorder.
        second: another one.
        step: the number of the step, or None.

    Raises:
        FileNotFoundError: there is no such folder.
        ValueError: it has no dump, or no step that both have.
        OSError: a file cannot be read.
    """
    of_first, of_second = (_steps(folder, step) for folder in (first, second))
    both = [key for key in of_first if key in of_second]
    is_one_step = any(len(each) == 1 and "/" not in min(each) for each in (of_first, of_second))
    if not both and (is_one_step or len(of_first) == len(of_second) == 1):
        return _largest(of_first), _largest(of_second)
    if not both:
        raise ValueError(
            f"{first!r} and {second!r} have no step in common: the first has "
            f"{few(sorted(of_first))}, the second {few(sorted(of_second))}"
        )
    dumps = [(of_first[key](), of_second[key]()) for key in both]
    return max(dumps, key=lambda pair: min(len(dump.tensors) for dump in pair))


def _largest(steps: Mapping[str, Callable[[], Dump]]) -> Dump:
    return max((read() for read in steps.values()), key=lambda dump: len(dump.tensors))


def few(names: Iterable[str]) -> str:
    """The first of the names, for a sentence."""
    known = list(names)
    return (
        ", ".join(known[:3]) + (f" and {len(known) - 3} more" if len(known) > 3 else "") or "none"
    )


def _steps(given: str, step: int | None) -> dict[str, Callable[[], Dump]]:
    """The dumps in a folder, by model and step."""
    folder = pathlib.Path(given)
    if not folder.is_dir():
        raise FileNotFoundError(f"{given!r}: no such folder, expected that of a dump")
    if (folder / LINES).exists():
        return {str(step): lambda: _recorded(folder, step)}
    found: dict[str, Callable[[], Dump]] = {}
    for inside, _, files in sorted(os.walk(folder)):
        if not any(file_names.parse(name) or name == LONG_NAMES for name in files):
            continue
        path = pathlib.Path(inside)
        if step is not None and path.name.isdigit() and int(path.name) != step:
            continue
        parts = path.relative_to(folder).parts[-3:]
        found["/".join(parts)] = functools.partial(_written, path)
    if not found:
        of_step = "" if step is None else f" of step {step}"
        raise ValueError(
            f"{given!r} has no dump{of_step}: expected files as "
            "'MatMul.dense_MatMul.3.0.1700000000000000.output.0.4x8.npy'. A file that an NPU wrote "
            "is converted by 'msaccucmp.py convert'"
        )
    return found


def _written(folder: pathlib.Path) -> Dump:
    tensors: list[DumpedTensor] = []
    for file, name in sorted(_files(folder).items()):
        parsed = file_names.parse(name)
        if parsed is None:
            continue
        path = folder / file
        if name.endswith(file_names.STATISTICS):
            tensors += _lines(path, parsed)
        else:
            tensors.append(_tensor(parsed, _reader(path, parsed)))
    return Dump(folder, tuple(sorted(tensors, key=lambda each: (each.time, each.task))))


def _files(folder: pathlib.Path) -> dict[str, str]:
    """The names of the files, in full where the file has a number instead."""
    files = {path.name: path.name for path in folder.iterdir() if path.is_file()}
    if LONG_NAMES in files:
        with open(folder / LONG_NAMES, newline="") as table:
            files.update((row[0], row[1]) for row in csv.reader(table) if len(row) == 2)
    return files


def _tensor(parsed: FileName, load: Any) -> DumpedTensor:
    return DumpedTensor(**dataclasses.asdict(parsed), load=load)


def _reader(path: pathlib.Path, parsed: FileName) -> Callable[[], np.ndarray[Any, Any]]:
    def read() -> np.ndarray[Any, Any]:
        if path.suffix == ".bin":
            return _read_values(path, parsed)
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{str(path)!r}: is damaged, or no file of NumPy: {error}") from error

    return read


def _read_values(path: pathlib.Path, parsed: FileName) -> np.ndarray[Any, Any]:
    data = path.read_bytes()
    if parsed.shape is None:
        raise ValueError(f"{str(path)!r}: its name has no shape, as '4x8', which .bin files need")
    size, rest = divmod(len(data), max(int(np.prod(parsed.shape)), 1))
    if rest or size not in _BY_SIZE:
        raise ValueError(
            f"{str(path)!r}: got {len(data)} bytes for {parsed.shape}, expected 2, 4 or 8 bytes "
            "for each value"
        )
    return np.frombuffer(data, _BY_SIZE[size]).reshape(parsed.shape)


def _lines(path: pathlib.Path, parsed: FileName) -> list[DumpedTensor]:
    """The tensors of a file of statistics."""
    with open(path, newline="") as table:
        rows = list(csv.DictReader(table))
    found = []
    for number, row in enumerate(rows, 2):
        try:
            way, index = row["Input/Output"].lower(), int(row["Index"])
            numbers = {
                name: float(row[column])
                for name, column in (
                    ("most", "Max Value"),
                    ("least", "Min Value"),
                    ("mean", "Avg Value"),
                )
                if row[column]
            }
            bad = sum(
                float(row[f"{kind} Count"]) for kind in ("Nan", "Negative Inf", "Positive Inf")
            ) / max(float(row["Count"]), 1.0)
        except (KeyError, ValueError, AttributeError) as error:
            raise ValueError(f"{str(path)!r}:{number}: no statistics of a dump: {error}") from error
        known = Statistics(numbers, bad, _dtype(row.get("Data Type") or ""))
        of_line = dataclasses.replace(parsed, way=way, index=index)
        found.append(_tensor(of_line, functools.partial(_known, known)))
    return found


def _recorded(folder: pathlib.Path, step: int | None) -> Dump:
    """The last step of a FlightRecorder's largest graph, or the given one."""
    runs = reading.read(folder)
    graphs = [graph for run in runs for graph in run.graphs.values() if graph.steps]
    if not graphs:
        raise ValueError(f"{str(folder)!r} has no recorded step in it")
    graph = max(graphs, key=lambda each: len(each.description["tensors"]))
    numbers = [event["step"] for event in graph.steps]
    if step is not None and step not in numbers:
        expected = ", ".join(map(str, numbers[:10]))
        raise ValueError(
            f"{str(folder)!r}: got step {step}, expected one that was recorded: {expected}"
            f"{', ...' if len(numbers) > 10 else ''}"
        )
    event = graph.steps[-1 if step is None else numbers.index(step)]
    tensors = []
    names_of_tensors = graph.description["tensors"]
    for place, tensor in enumerate(names_of_tensors):
        name, _, index = tensor.partition(":")
        numbers_of = {"largest": event["largest"][place]}
        for kind, values in event.get("statistics", {}).items():
            if values[place] is not None:
                numbers_of[kind] = values[place]
        bad = event["nans"][place] + event["over"][place]
        known = Statistics(numbers_of, bad, graph.description["low_types"][place])
        op = graph.description["ops"][place]
        of_log = FileName(op, clean(name), place, place, "output", int(index or 0), None)
        tensors.append(_tensor(of_log, functools.partial(_known, known)))
    names = {clean(name.partition(":")[0]): name.partition(":")[0] for name in names_of_tensors}
    return Dump(folder, tuple(tensors), event["step"], names)


def _dtype(text: str) -> str:
    """The type in a file of statistics: "float16", "DT_FLOAT16" or "DT_FLOAT"."""
    name = text.lower().replace("dt_", "")
    return {"float": "float32", "bf16": "bfloat16"}.get(name, name)


def _known(known: Statistics) -> Statistics:
    return known

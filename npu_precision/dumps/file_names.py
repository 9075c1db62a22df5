"""Parses the names of a dump's files, as Ascend's tools and DumpConfig write them.

    {op type}.{op name}.{task id}.{stream id}.{timestamp}.{input or output}.{index}.{shape}.npy
    {op name}.{output index}.{timestamp}.npy

The first is of a run on an NPU, or of a session with DumpConfig. There may be other numbers between
name and timestamp, and the shape may be missing. The second is of a run on a CPU or GPU that
Ascend's tools compare with. Statistics are in files that end in the timestamp and .csv. In names,
"/" and "." are "_".

Source: Huawei's "Dump File Naming Conventions".
"""

from __future__ import annotations

import dataclasses
import os
import re

TENSORS = (".npy", ".bin")
STATISTICS = ".csv"
_WAYS = ("input", "output")
_SHAPE = re.compile(r"\d+(x\d+)*")


@dataclasses.dataclass(frozen=True)
class FileName:
    """What a file's name says.

    Attributes:
        op: the op type; "" if it is not known.
        name: the op's name, with "_" for "/".
        time: when it was computed, in microseconds; only comparable within a folder.
        task: a number that orders what has the same time.
        way: "input" or "output"; "" for statistics, whose lines say it.
        index: the number of the input or output.
        shape: the shape; None if it is not known.
    """

    op: str
    name: str
    time: int
    task: int
    way: str
    index: int
    shape: tuple[int, ...] | None


def parse(name: str) -> FileName | None:
    """Returns what the name of a file says, or None if it is not of a dump."""
    stem, end = os.path.splitext(name)
    parts = stem.split(".")
    if end == STATISTICS:
        return _of_op(parts, "", 0, None) if len(parts) > 3 else None
    if end not in TENSORS:
        return None
    for place in range(3, len(parts) - 1):
        if parts[place] in _WAYS and parts[place + 1].isdigit():
            shape = _shape(parts[place + 2 :])
            return _of_op(parts[:place], parts[place], int(parts[place + 1]), shape)
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        return FileName("", parts[0], int(parts[2]), 0, "output", int(parts[1]), None)
    return None


def _of_op(
    parts: list[str], way: str, index: int, shape: tuple[int, ...] | None
) -> FileName | None:
    numbers = parts[2:]
    if not numbers or not all(number.isdigit() for number in numbers):
        return None
    time = max(numbers, key=len)  # Others may follow it.
    return FileName(parts[0], parts[1], int(time), int(numbers[0]), way, index, shape)


def _shape(parts: list[str]) -> tuple[int, ...] | None:
    if len(parts) != 1 or not _SHAPE.fullmatch(parts[0]):
        return None
    return tuple(map(int, parts[0].split("x")))

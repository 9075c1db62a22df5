"""Measures how much of a list of names runs here: `name count` lines, counted in many scripts."""

from __future__ import annotations

import dataclasses
import re

from npu_precision.compat import table
from npu_precision.compat.table import Known, Table

_PARAMETER = re.compile(r"""parameter_map(?:\.(\w+)|\[["'](\w+)["']\])$""")


@dataclasses.dataclass(frozen=True)
class Counted:
    """A name of a list, its entry in the table, and how often it is used."""

    name: str
    count: int
    status: str
    note: str = ""


def read(content: str, path: str, names: Table) -> list[Counted]:
    """The names of a list, most used first.

    A line has a name and a count, in either order, separated by blanks, tabs, commas or semicolons;
    a name alone counts as 1. Empty lines, what follows a "#", and a first line of headings are
    left out. A name is dotted, or a key as parameter_map["x"] or parameter_map.x.

    Args:
        content: the text of the list.
        path: its file, for messages.
        names: the table of names.

    Raises:
        ValueError: a line is neither, or its name is not of npu_bridge, npu_device or hccl.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        words = re.split(r"[\s,;]+", line.partition("#")[0].strip(" \t,;\ufeff"))
        if words == [""]:
            continue
        numbers = [word for word in words if word.isdigit()]
        rest = [word for word in words if not word.isdigit()]
        if number == 1 and not numbers and not _is_name(rest[0]):
            continue
        if len(rest) != 1 or len(numbers) > 1 or not _is_name(rest[0]):
            expected = "a name of npu_bridge, npu_device, hccl or parameter_map, and a count"
            raise ValueError(f"{path}:{number}: got {line.strip()!r}, expected {expected}")
        counts[rest[0]] = counts.get(rest[0], 0) + int(numbers[0] if numbers else 1)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [_counted(name, count, names) for name, count in ordered]


def share(found: list[Counted], statuses: tuple[str, ...]) -> tuple[int, int]:
    """The numbers of names, and of uses, that have one of these statuses."""
    fitting = [each for each in found if each.status in statuses]
    return len(fitting), sum(each.count for each in fitting)


def _is_name(word: str) -> bool:
    return word.partition(".")[0] in table.TOPS or _PARAMETER.match(word) is not None


def _counted(name: str, count: int, names: Table) -> Counted:
    known = _known(name, names)
    return Counted(name, count, known.status, known.note)


def _known(name: str, names: Table) -> Known:
    parameter = _PARAMETER.match(name)
    if parameter:
        return names.parameter(parameter.group(1) or parameter.group(2))
    return names.name(name[: -len(".*")] if name.endswith(".*") else name)

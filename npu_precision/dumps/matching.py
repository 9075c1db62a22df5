"""Matches the tensors of two dumps: by op and output, through fusions and renames."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from npu_precision import _library
from npu_precision.dump_layout import clean
from npu_precision.dumps.folders import Dump, DumpedTensor

# Ops that a mode inserted.
_INSERTED = re.compile(r"_npu_")
# Ops that move values between the parts of a loop or branch, and compute nothing.
_MOVES = {
    "Enter",
    "Exit",
    "Merge",
    "NextIteration",
    "StackPopV2",
    "StackPushV2",
    "Switch",
    "_SwitchN",
}
# A name that ends with a shorter one is of a fusion, if the shorter one has so many letters.
_FEWEST_LETTERS = 4


class Pair(NamedTuple):
    """A tensor of the first dump, and the same tensor of the second."""

    first: DumpedTensor
    second: DumpedTensor
    run: int  # of the op, from 0


class Matches(NamedTuple):
    """The tensors of two dumps.

    Attributes:
        pairs: the same tensors, in the order of the first dump.
        only_first, only_second: the names of ops that have no counterpart.
    """

    pairs: list[Pair]
    only_first: list[str]
    only_second: list[str]


def match(first: Dump, second: Dump, way: str) -> Matches:
    """Matches the outputs, or the inputs, of the ops of two dumps.

    An op is the one of the same name. Else it is the one whose name ends with its name, or begins
    so: an NPU gives a fused op the names of its parts, one after the other. Of an op that ran
    several times, the first run is matched with the first, and so on.

    Args:
        first: the dump whose order counts.
        second: the other one.
        way: "output" or "input".
    """
    of_first, of_second = _by_name(first.tensors, way), _by_name(second.tensors, way)
    counterparts = {name: name for name in of_first if name in of_second}
    rest = [name for name in of_second if name not in counterparts]
    for name in of_first:
        if name not in counterparts:
            fused = _fused_with(name, rest)
            if fused is not None:
                counterparts[name] = fused
                rest.remove(fused)
    pairs = []
    runs: dict[tuple[str, int], int] = collections.defaultdict(int)
    for name, other in counterparts.items():
        of_index = collections.defaultdict(list)
        for tensor in of_second[other]:
            of_index[tensor.index].append(tensor)
        for tensor in of_first[name]:
            if of_index[tensor.index]:
                runs[name, tensor.index] += 1
                run = runs[name, tensor.index] - 1
                pairs.append(Pair(tensor, of_index[tensor.index].pop(0), run))
    place = {id(tensor): number for number, tensor in enumerate(first.tensors)}
    pairs.sort(key=lambda pair: place[id(pair.first)])
    only_first = [name for name in of_first if name not in counterparts]
    return Matches(pairs, only_first, rest)


def original(name: str) -> str:
    """The name that an op had in the script, with "_" for "/"."""
    suffix = clean(_library.describe()["renamed_suffix"])
    return name.partition(suffix)[0] if suffix in name else name


def _by_name(tensors: Iterable[DumpedTensor], way: str) -> dict[str, list[DumpedTensor]]:
    found: dict[str, list[DumpedTensor]] = {}
    renamed = {original(each.name) for each in tensors if original(each.name) != each.name}
    for tensor in tensors:
        # A Cast took over the name of a renamed op.
        is_cast = tensor.name in renamed and tensor.op == "Cast"
        name = original(tensor.name)
        if tensor.op in _MOVES:
            continue
        if tensor.way == way and not is_cast and not _INSERTED.search(name):
            found.setdefault(name, []).append(tensor)
    return found


def _fused_with(name: str, others: Sequence[str]) -> str | None:
    """The longest of the names that the name ends or begins with, or that does so with it."""

    def fits(long: str, short: str) -> bool:
        if not _FEWEST_LETTERS <= len(short) < len(long):
            return False
        # A scope, or a number that makes a name another one, is set off by "_".
        before, after = long[: -len(short)], long[len(short) :]
        ends = long.endswith(short) and not before.endswith("_")
        return ends or (long.startswith(short) and not after.startswith("_"))

    fitting = [other for other in others if fits(name, other) or fits(other, name)]
    longest = max((min(len(other), len(name)) for other in fitting), default=0)
    best = [other for other in fitting if min(len(other), len(name)) == longest]
    return best[0] if len(best) == 1 else None

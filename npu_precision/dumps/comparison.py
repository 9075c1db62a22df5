"""Compares two dumps: where they diverge first, which ops the error enters at, and what to keep."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npu_precision import _library
from npu_precision.dump_layout import clean
from npu_precision.dumps import differences, matching, reads
from npu_precision.dumps.differences import Difference
from npu_precision.dumps.folders import Dump, few
from npu_precision.dumps.matching import Matches, Pair

# A tensor diverges if its error is above so many units of the lowest type in the first dump.
_UNITS = 8
_LEAST_THRESHOLD = 1e-4
# Error enters at an op if it is so many times what the op was given.
_TIMES = 4.0
_LOW = ("float16", "bfloat16")
_CAST_TO = re.compile(r"_npu_(?:cast|rounded|emulated)_\d+_(b?float16)")
_ONE_DNN = re.compile("^_Mkl(Native)?")


@dataclasses.dataclass(frozen=True)
class Row:
    """A tensor that both dumps have.

    Attributes:
        name: the op's name; with "_" for "/" if no graph tells more.
        index: the number of its output.
        op: its op type.
        run: the run of the op, from 0, in a loop.
        position: its place in the order of the first dump, from 0.
        difference: how the first tensor differs from the second.
        given: the largest error of what the op read.
        entered: the error as a multiple of `given`, or of a rounding if that is larger; a threshold
            below a rounding stands for it.
        diverges: whether the error is above the threshold.
        passes_on: whether what reads it diverges too, as in reads.Reads.
        is_low: whether the op is lowered, as far as it is known.
    """

    name: str
    index: int
    op: str
    run: int
    position: int
    difference: Difference
    given: float
    entered: float
    diverges: bool
    passes_on: bool
    is_low: bool

    @property
    def tensor(self) -> str:
        """The name with the numbers of the output and of the run, where they are not 0."""
        output = f":{self.index}" if self.index else ""
        return f"{self.name}{output}{f' in run {self.run}' if self.run else ''}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The tensors that both dumps have, in the order of the first.

    Attributes:
        rows: the tensors.
        matches: what was matched, and what was not.
        skipped: why tensors that both have were not compared, by their names.
        threshold: the error above which a tensor diverges.
        low_type: the lowest type in the first dump.
        known: how it is known what ops read, as in reads.Reads.
    """

    rows: tuple[Row, ...]
    matches: Matches
    skipped: Mapping[str, str]
    threshold: float
    low_type: str
    known: str

    def first_divergence(self) -> Row | None:
        """The first tensor that diverges, and passes that on if any does."""
        found = [row for row in self.rows if row.diverges]
        return next((row for row in found if row.passes_on), found[0] if found else None)

    def ranked(self) -> list[Row]:
        """The tensors that diverge: first those that pass it on; of them, where most enters."""
        found = [row for row in self.rows if row.diverges]
        # All infinite errors are the same: the first of them is the cause of the others.
        return sorted(found, key=lambda row: (not row.passes_on, -row.entered, row.position))

    def entering(self) -> list[Row]:
        """The tensors at which error enters, as ranked."""
        return [row for row in self.ranked() if row.entered > _TIMES and row.passes_on]

    def mixlist(self) -> str:
        """The mixlist that keeps the ops in float32 at which error enters; "" if there are none."""
        names = [row.name for row in self.entering() if row.is_low]
        if not names:
            return ""
        entries = [f"node:{_pattern(name)}" for name in dict.fromkeys(names)]
        return json.dumps({"black-list": {"to-add": entries}}, indent=1)


def compare(
    first: Dump, second: Dump, graph: Any = None, threshold: float | None = None
) -> Comparison:
    """Compares the outputs of ops, or their inputs where a dump has no outputs.

    Args:
        first: the dump of the run in question.
        second: that of the run that is right.
        graph: the GraphDef that ran, or None.
        threshold: the error above which a tensor diverges, or None for 8 units of the lowest type
            in the first dump, and at least 1e-4.

    Raises:
        ValueError: they have no tensor in common, or a file is damaged.
        OSError: a file cannot be read.
    """
    ways = [{tensor.way for tensor in dump.tensors} for dump in (first, second)]
    way = "output" if all("output" in each for each in ways) else "input"
    matches = matching.match(first, second, way)
    if not matches.pairs and not ways[0] & ways[1]:
        raise ValueError(
            f"{str(first.folder)!r} has {' and '.join(sorted(ways[0]))}s alone, "
            f"{str(second.folder)!r} {' and '.join(sorted(ways[1]))}s: expected the same dump_mode"
        )
    if not matches.pairs:
        raise ValueError(
            f"{str(first.folder)!r} and {str(second.folder)!r} are of different models: the first "
            f"has {few(matches.only_first)}, the second {few(matches.only_second)}"
        )
    if graph is not None:
        _check_graph(graph, matches)
    ran = first.graph()
    graph = graph or ran or second.graph()
    names = {**second.names, **first.names, **_names_in(graph)}
    measured, skipped = _measured(matches.pairs)
    low_type = _low_type(first, [difference.dtype for _, difference in measured])
    unit = differences.unit(low_type)
    if threshold is None:
        threshold = max(_UNITS * unit, _LEAST_THRESHOLD)
    least = min(unit, threshold) or unit
    is_low = _lowered(ran, low_type, _has_casts(first))
    read_by_ops = reads.of_dumps(first, second, measured, threshold, graph)
    rows = []
    for position, ((pair, difference), read, passes_on) in enumerate(
        zip(measured, read_by_ops.given, read_by_ops.passes_on)
    ):
        name = matching.original(pair.first.name)
        rows.append(
            Row(
                names.get(name, name),
                pair.first.index,
                _ONE_DNN.sub("", pair.first.op),
                pair.run,
                position,
                difference,
                read,
                0.0 if math.isinf(read) else difference.error / max(read, least),
                difference.error > threshold,
                passes_on,
                is_low(pair.first.name, difference.dtype),
            )
        )
    return Comparison(tuple(rows), matches, skipped, threshold, low_type, read_by_ops.known)


def _measured(
    pairs: Sequence[Pair],
) -> tuple[list[tuple[Pair, Difference]], dict[str, str]]:
    """The differences of those that can be compared, and by name, why others cannot."""
    measured, skipped = [], {}
    for pair in pairs:
        difference = differences.of_values(pair.first.load(), pair.second.load())
        if isinstance(difference, str):
            skipped[pair.first.name] = difference
        else:
            measured.append((pair, difference))
    return measured, skipped


def _names_in(graph: Any) -> dict[str, str]:
    """The ops' names in a graph, by those in a dump."""
    suffix = _library.describe()["renamed_suffix"]
    return {
        matching.original(clean(node.name)): node.name.partition(suffix)[0]
        for node in (graph.node if graph is not None else ())
    }


def _check_graph(graph: Any, matches: Matches) -> None:
    """Checks that a graph is of the dumps."""
    known = {matching.original(clean(node.name)) for node in graph.node}
    names = {matching.original(pair.first.name) for pair in matches.pairs}
    if 2 * len(names & known) < len(names):
        raise ValueError(
            f"the model has {len(names & known)} of the {len(names)} ops in the dumps, expected "
            "the one that they are of"
        )


def _has_casts(dump: Dump) -> bool:
    return any(_CAST_TO.search(tensor.name) for tensor in dump.tensors)


def _lowered(graph: Any, low_type: str, has_casts: bool) -> Callable[[str, str], bool]:
    """Returns a function of an op's name and its tensor's type: whether the op is lowered."""
    if low_type not in _LOW:
        return lambda name, dtype: False
    if graph is None:
        # On a CPU, a lowered op may compute rounded values in float32, between Casts.
        return lambda name, dtype: dtype in _LOW or has_casts
    nodes = {clean(node.name): node for node in graph.node}

    def is_lowered(name: str, dtype: str) -> bool:
        node = nodes.get(name)
        read = [clean(text.partition(":")[0]) for text in node.input] if node is not None else []
        return dtype in _LOW or any(_CAST_TO.search(each) for each in read)

    return is_lowered


def _low_type(dump: Dump, compared: Sequence[str]) -> str:
    """The lowest type of the tensors, and of the Casts that a mode inserted."""
    cast_to = [_CAST_TO.search(tensor.name) for tensor in dump.tensors]
    types = {*compared, *(found[1] for found in cast_to if found)} - {""}
    return max(sorted(types), key=differences.unit, default="float32")


def _pattern(name: str) -> str:
    """The regular expression of a name in which "_" may stand for another letter."""
    return re.escape(name) if "/" in name else re.escape(name).replace("_", "[_/. ]")

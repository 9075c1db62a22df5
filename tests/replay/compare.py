"""Finds the cases of a corpus that two sides rewrote differently, and shows the differences."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from replay.corpus import Case
from replay.rewrite_corpus import unpacked
from replay.rewrite_sides import Side, shares

SHOWN_CASES = 10
SHOWN_LINES = 20
LONG_LINE = 400


def report(cases: list[Case], reference: Side, tree: Side) -> int:
    """Prints what differs, one case of each name in full, and a summary.

    Returns:
        The status: 1 if anything differs.
    """
    sides = (reference, tree)
    left_out: dict[str, Counter[str]] = {side.name: Counter() for side in sides}
    differing: Counter[str] = Counter()
    for case, results in _with_results(cases, sides):
        for side, result in zip(sides, results):
            left_out[side.name].update(result["left_out"])
        if same(*results):
            continue
        differing[case.name] += 1
        if differing[case.name] == 1 and len(differing) <= SHOWN_CASES:
            print("\n".join(["", case.described(), *differences(*results)]))
    if differing:
        print("\ndiffering rewrites by name:")
    for name, count in differing.items():
        print(f"{count:5} {name}")
    for name, options in left_out.items():
        for option, count in sorted(options.items()):
            print(f"{name} does not know {option}: left out there of {count} rewrites")
    total = sum(differing.values())
    print(
        f"{len({case.graph for case in cases})} graphs, {len(cases)} rewrites on each side: "
        f"{len(cases) - total} identical, {total} differing"
    )
    return 1 if differing else 0


def _with_results(
    cases: list[Case], sides: Sequence[Side]
) -> Iterator[tuple[Case, list[dict[str, Any]]]]:
    """The cases in order; the shares of a side take turns."""
    lines = [[_lines(side, share) for share in range(shares())] for side in sides]
    for number, case in enumerate(cases):
        yield case, [json.loads(next(files[number % shares()])) for files in lines]


def _lines(side: Side, share: int) -> Iterator[str]:
    with side.results(share).open() as file:
        yield from file


def same(reference: dict[str, Any], tree: dict[str, Any]) -> bool:
    """Whether two results of a case are the same.

    An option that only one of the sides was given may be in only one of the ledgers.
    """
    ignored = _ignored(reference, tree)
    parts = []
    for side in (reference, tree):
        ledgers = side["ledgers"]
        if ignored:
            ledgers = {file: _ledger(data, ignored) for file, data in ledgers.items()}
        parts.append((side.get("error"), side.get("graph"), ledgers))
    return parts[0] == parts[1]


def _ignored(*results: dict[str, Any]) -> set[str]:
    return {name for result in results for name in [*result["left_out"], *result["added"]]}


def differences(reference: dict[str, Any], tree: dict[str, Any]) -> list[str]:
    """The differences of two results of a case as lines: - is the reference, + the tree."""
    ignored = _ignored(reference, tree)
    found = []
    if reference.get("error") != tree.get("error"):
        found += ["error:", *_diff([str(reference.get("error"))], [str(tree.get("error"))])]
    if reference.get("graph") != tree.get("graph"):
        found += ["graph:", *_graph_diff(reference.get("graph"), tree.get("graph"))]
    ledgers = (reference["ledgers"], tree["ledgers"])
    for sign, mine, others in (("-", *ledgers), ("+", *reversed(ledgers))):
        found += [f"{sign} ledger {file}" for file in sorted(mine.keys() - others.keys())]
    for file in sorted(ledgers[0].keys() & ledgers[1].keys()):
        texts = [_ledger(files[file], ignored) for files in ledgers]
        if texts[0] != texts[1]:
            found += [f"ledger {file}:", *_diff(*(text.splitlines() for text in texts))]
    return found


def _ledger(data: str, ignored: set[str]) -> str:
    text = unpacked(data).decode("utf-8")
    if not ignored:
        return text
    ledger = json.loads(text)
    for name in ignored:
        ledger["options"].pop(name, None)
    return json.dumps(ledger, indent=1)


def _graph_diff(reference: str | None, tree: str | None) -> list[str]:
    lines = [list(_graph_lines(data)) for data in (reference, tree)]
    if lines[0] == lines[1]:
        return ["  only what is not in nodes and functions differs, such as versions"]
    return _diff(*lines)


def _graph_lines(data: str | None) -> Iterator[str]:
    """A line per node: its function, name, op, inputs, device and attributes."""
    if data is None:
        yield "(no graph)"
        return
    graph_def = graph_pb2.GraphDef.FromString(unpacked(data))
    yield from map(_node_line, graph_def.node)
    for function in graph_def.library.function:
        name = function.signature.name
        yield from (f"{name}: {_node_line(node)}" for node in function.node_def)
        for output, tensor in sorted(function.ret.items()):
            yield f"{name}: returns {output} = {tensor}"


def _node_line(node: Any) -> str:
    attributes = ", ".join(
        f"{name}={text_format.MessageToString(value, as_one_line=True).strip()}"
        for name, value in sorted(node.attr.items())
    )
    device = f" @ {node.device}" if node.device else ""
    return f"{node.name} = {node.op}({', '.join(node.input)}){device} {{{attributes}}}"


def _diff(reference: Iterable[str], tree: Iterable[str]) -> list[str]:
    lines = list(difflib.unified_diff(list(reference), list(tree), lineterm="", n=0))[2:]
    lines = [f"  {_cut(line)}" for line in lines if not line.startswith("@@")]
    left_out = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"  ... {left_out} more lines"] if left_out > 0 else [])]


def _cut(line: str) -> str:
    return line if len(line) <= LONG_LINE else f"{line[:LONG_LINE]} ..."

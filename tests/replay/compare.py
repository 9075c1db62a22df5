"""Finds the cases of a corpus that two sides rewrote differently, and shows the differences."""

from __future__ import annotations

import collections
import difflib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from replay.corpus import Case
from replay.rewrite_corpus import unpacked
from replay.rewrite_sides import Side, shares

SHOWN_LINES = 20
SHOWN_CASES = 10
NAMED_CASES = 50


def report(cases: list[Case], reference: Side, tree: Side) -> int:
    """Prints the differences and a summary; returns the status: 1 if there are any."""
    left_out = {side.name: collections.Counter() for side in (reference, tree)}
    differing = 0
    for case, results in _with_results(cases, [reference, tree]):
        for side, result in zip((reference, tree), results):
            left_out[side.name].update(result["left_out"])
        if same(*results):
            continue
        differing += 1
        if differing <= SHOWN_CASES:
            print("\n".join(["", case.described(), *differences(*results)]))
        elif differing <= SHOWN_CASES + NAMED_CASES:
            print(f"\n{case.described()}")
    if differing > SHOWN_CASES + NAMED_CASES:
        print(f"\n... and {differing - SHOWN_CASES - NAMED_CASES} more")
    if differing:
        print()
    for name, options in left_out.items():
        for option, count in sorted(options.items()):
            print(f"{name} does not know {option}: left out there of {count} rewrites")
    print(
        f"{len({case.graph for case in cases})} graphs, {len(cases)} rewrites on each side: "
        f"{len(cases) - differing} identical, {differing} differing"
    )
    return 1 if differing else 0


def _with_results(
    cases: list[Case], sides: list[Side]
) -> Iterator[tuple[Case, list[dict[str, Any]]]]:
    for share in range(shares()):
        rows = zip(*(_lines(side, share) for side in sides))
        yield from ((case, list(row)) for case, row in zip(cases[share :: shares()], rows))


def _lines(side: Side, share: int) -> Iterator[dict[str, Any]]:
    with side.results(share).open() as file:
        yield from map(json.loads, file)


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
    for file in sorted({*reference["ledgers"], *tree["ledgers"]}):
        texts = [_ledger(side["ledgers"].get(file), ignored) for side in (reference, tree)]
        if texts[0] != texts[1]:
            found += [f"ledger {file}:", *_diff(*(text.splitlines() for text in texts))]
    return found


def _ledger(data: str | None, ignored: set[str]) -> str:
    if data is None:
        return "(no such file)"
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
    """A line per node: of which function, name, op, inputs, device, attributes."""
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
    lines = [f"  {line}" for line in lines if not line.startswith("@@")]
    left_out = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"  ... {left_out} more lines"] if left_out > 0 else [])]

"""Tells where two sides rewrote a corpus differently, byte for byte, and shows how."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

from replay.rewrite_corpus import unpacked

SHOWN_LINES = 20


def same(reference: dict[str, Any], tree: dict[str, Any]) -> bool:
    """Whether two results of a case are the same.

    Where one side does not know a parameter, the ledgers may differ in having it among the options.
    """
    unknown = {*reference["unknown"], *tree["unknown"]}
    parts = [
        (
            side.get("error"),
            side.get("graph"),
            {file: _ledger(data, unknown) for file, data in side["ledgers"].items()}
            if unknown
            else side["ledgers"],
        )
        for side in (reference, tree)
    ]
    return parts[0] == parts[1]


def differences(reference: dict[str, Any], tree: dict[str, Any]) -> list[str]:
    """What two results of a case differ in, as lines to print."""
    unknown = {*reference["unknown"], *tree["unknown"]}
    found = []
    if reference.get("error") != tree.get("error"):
        found += ["error:", *_diff([str(reference.get("error"))], [str(tree.get("error"))])]
    if reference.get("graph") != tree.get("graph"):
        found += ["graph:", *_graph_diff(reference.get("graph"), tree.get("graph"))]
    for file in sorted({*reference["ledgers"], *tree["ledgers"]}):
        texts = [_ledger(side["ledgers"].get(file), unknown) for side in (reference, tree)]
        if texts[0] != texts[1]:
            found += [f"ledger {file}:", *_diff(*(text.splitlines() for text in texts))]
    return found


def _ledger(data: str | None, unknown: set[str]) -> str:
    if data is None:
        return "(there is no such file)"
    text = unpacked(data).decode("utf-8")
    if not unknown:
        return text
    ledger = json.loads(text)
    for name in unknown:
        ledger["options"].pop(name, None)
    return json.dumps(ledger, indent=1)


def _graph_diff(reference: str | None, tree: str | None) -> list[str]:
    lines = [list(_node_lines(data)) for data in (reference, tree)]
    if lines[0] != lines[1]:
        return _diff(*lines)
    return ["  only what is not in nodes and functions differs, such as versions"]


def _node_lines(data: str | None) -> Iterator[str]:
    """A line per node: function, name, op, inputs, device, attributes."""
    if data is None:
        yield "(no graph)"
        return
    graph_def = graph_pb2.GraphDef.FromString(unpacked(data))
    yield from map(_node_line, graph_def.node)
    for function in graph_def.library.function:
        for node in function.node_def:
            yield f"{function.signature.name}: {_node_line(node)}"
        for name, result in sorted(function.ret.items()):
            yield f"{function.signature.name}: returns {name} = {result}"


def _node_line(node: Any) -> str:
    attributes = ", ".join(
        f"{name}={text_format.MessageToString(value, as_one_line=True)}"
        for name, value in sorted(node.attr.items())
    )
    device = f" @ {node.device}" if node.device else ""
    return f"{node.name} = {node.op}({', '.join(node.input)}){device} {{{attributes}}}"


def _diff(reference: list[str], tree: list[str]) -> list[str]:
    lines = list(difflib.unified_diff(reference, tree, lineterm="", n=0))[2:]
    lines = [f"  {line}" for line in lines if not line.startswith("@@")]
    left_out = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"  ... {left_out} more lines"] if left_out > 0 else [])]

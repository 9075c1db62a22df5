"""Compares two ledgers of one graph, such as those of two workers of a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from npu_precision.ledger import Ledger


@dataclasses.dataclass(frozen=True)
class Change:
    """An option, a node or an all-reduce that differs.

    Attributes:
        what: "option", "node" or "all-reduce".
        name: its name.
        before, after: its state in each ledger; "absent" if it is not there.
    """

    what: str
    name: str
    before: str
    after: str


def ledger_difference(before: Ledger, after: Ledger) -> list[Change]:
    """The differences between two ledgers: options, then nodes, then all-reduces."""
    return [
        *_changes("option", _options(before), _options(after)),
        *_changes("node", _nodes(before), _nodes(after)),
        *_changes("all-reduce", _collectives(before), _collectives(after)),
    ]


def _changes(what: str, before: dict[str, str], after: dict[str, str]) -> Iterable[Change]:
    for name in dict.fromkeys([*before, *after]):
        pair = before.get(name, "absent"), after.get(name, "absent")
        if pair[0] != pair[1]:
            yield Change(what, name, *pair)


def _options(ledger: Ledger) -> dict[str, str]:
    return {name: str(value) for name, value in ledger.options.items()}


def _nodes(ledger: Ledger) -> dict[str, str]:
    return {node.name: f"{node.decision}: {node.reason}{_dtypes(node)}" for node in ledger.nodes}


def _dtypes(node: Any) -> str:
    changed = (
        f"{name} {then} -> {now}" for name, (then, now) in node.dtypes.items() if then != now
    )
    return "".join(f", {each}" for each in changed)


def _collectives(ledger: Ledger) -> dict[str, str]:
    return {
        each.name: f"{each.reason}: {each.lowered} of {each.tensors} tensors, "
        f"{'?' if each.bytes_after is None else each.bytes_after} bytes"
        for each in ledger.collectives
    }

"""Counts decisions, by the optimizer's own code, and puts the counts into a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from npu_precision import _library


@dataclasses.dataclass(frozen=True)
class Counts:
    """The counts of some nodes, Casts, rewrites and all-reduces.

    Attributes:
        totals: the counts by name, as in a ledger's "totals"; bytes are sums over Casts of known
            size, and "casts_of_unknown_size" counts the others.
        sentence: the counts in words, as the log has them: "13 of 14 matrix and convolution ops in
            bfloat16 (96 % of their arithmetic); lowered 47 of 141 float nodes, ...".
    """

    totals: Mapping[str, Any]
    sentence: str


def count(
    nodes: Iterable[Any] = (),
    casts: Iterable[Any] = (),
    rewrites: Iterable[Any] = (),
    collectives: Iterable[Any] = (),
) -> Counts:
    """Counts entries of ledgers: LedgerNode, LedgerCast, LedgerRewrite and LedgerCollective."""
    entries = {
        "nodes": [
            {
                "op": node.op,
                "role": node.role,
                "list": node.list,
                "decision": node.decision,
                "reason": node.reason,
                "dtypes": dict(node.dtypes),
                "computes_in": node.computes_in,
                "flops": node.flops,
            }
            for node in nodes
        ],
        "casts": [{"bytes": cast.bytes} for cast in casts],
        "rewrites": [{"by": rewrite.by} for rewrite in rewrites],
        "collectives": [
            {"bytes_before": each.bytes_before, "bytes_after": each.bytes_after}
            for each in collectives
        ],
    }
    return Counts(**_library.count(entries))

"""Compares the decisions about one model under two sets of options."""

from __future__ import annotations

import dataclasses

from npu_precision.explain.explanation import Explanation
from npu_precision.ledger import LedgerNode


@dataclasses.dataclass(frozen=True)
class Difference:
    """Two explanations of one model.

    Attributes:
        before, after: the explanations.
        nodes: the float nodes whose decision or dtypes differ between the two, as (function,
            entry before, entry after), in the graph's order.
    """

    before: Explanation
    after: Explanation
    nodes: tuple[tuple[str, LedgerNode, LedgerNode], ...]


def difference(before: Explanation, after: Explanation) -> Difference:
    """Compares two explanations of one model, node by node."""
    now = {(body.name, node.name): node for body, node in after.nodes()}
    changed = []
    for body, node in before.nodes():
        other = now.get((body.name, node.name))
        if other is not None and (node.decision, node.dtypes) != (other.decision, other.dtypes):
            changed.append((body.name, node, other))
    return Difference(before, after, tuple(changed))

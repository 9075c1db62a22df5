"""The reasons of decisions: a sentence for each, and the sets of reasons of one kind."""

from __future__ import annotations

from npu_precision import _library

_ROWS = _library.describe()["reasons"]

# By the ledger's word for a reason; {cause} and {by} come from the ledger's entry.
SENTENCES: dict[str, str] = {row["word"]: row["sentence"] for row in _ROWS}


def of_kind(kind: str) -> frozenset[str]:
    """The words of all reasons of a kind; graph_passes/decide/reasons.h has the kinds."""
    return frozenset(row["word"] for row in _ROWS if row["kind"] == kind)


# The node takes the decision of other nodes, or depends on their votes.
OF_VOTES = of_kind("votes")
# The node takes the decision of the entry's cause.
FOLLOWS = frozenset(word for word in OF_VOTES if "{cause}" in SENTENCES[word])
# A rule about values decided; an entry of a mixlist overrules it.
OF_KEEP_RULES = of_kind("keep_rule")

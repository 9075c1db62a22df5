"""The reasons of decisions: a sentence for each, and the sets of reasons of one kind."""

from __future__ import annotations

from npu_precision import _library

_ROWS = _library.describe()["reasons"]

# By the ledger's word for a reason; {cause} and {by} come from the ledger's entry.
SENTENCES: dict[str, str] = {row["word"]: row["sentence"] for row in _ROWS}


def of_kind(kind: str) -> frozenset[str]:
    """The words of all reasons of a kind, which graph_passes/decide/reasons.h names."""
    return frozenset(row["word"] for row in _ROWS if row["kind"] == kind)


# The decision is that of other nodes, or depends on their votes.
OF_VOTES = of_kind("votes")
# The decision is that of the entry's cause.
FOLLOWS = frozenset(word for word in OF_VOTES if "{cause}" in SENTENCES[word])
# A rule about values decided, which an entry of a mixlist overrules.
OF_KEEP_RULES = of_kind("keep_rule")

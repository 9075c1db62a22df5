"""Finds the lowered ops that make a program go wrong.

Each lowered op type or node in turn is put on the black list, and the program runs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from numerics import measure

# A program that did not end has no ledger, so these op types are tried.
_USUAL = "MatMul BatchMatMulV2 Conv2D AddV2 Add Sub Mul RealDiv Maximum Minimum SelectV2".split()
# The maximum number of runs that look for single nodes.
_NODES = 24


def to_blame(
    workers: measure.Workers,
    program,
    contender: str,
    verdict: measure.Verdict,
    reference: dict,
    low: str,
) -> list[str]:
    """The op types that each cure the program, then the nodes; otherwise a set that cures it.

    Keeping a matrix product in float32 nearly always cures the program, because then nothing after
    it is lowered. So the other ops are better hints, and so are single nodes of several products.
    """

    def cured(entries: Sequence[str]) -> bool:
        edits = {"black-list": {"to-add": list(entries)}}
        reply = workers.run(contender, program.name, program.seconds, edits)
        return measure.judge(reply, reference, program.tolerance[low]).is_good

    ops = sorted(verdict.lowered) or _USUAL
    alone = [op for op in ops if cured([op])]
    if alone:
        nodes = [name for op in alone for name in verdict.lowered.get(op, ())]
        entries = [f"node:{re.escape(name)}" for name in dict.fromkeys(nodes)][:_NODES]
        return alone + [entry for entry in entries if len(nodes) > 1 and cured([entry])]
    if not cured(ops):
        return []
    needed = ops
    for op in ops:
        rest = [other for other in needed if other != op]
        if cured(rest):
            needed = rest
    return ["together: " + " ".join(needed)]

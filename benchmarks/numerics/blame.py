"""Which lowered ops are to blame for a program that went wrong.

What was lowered is put on the black list, an op type or node at a time, and the program runs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from numerics import measure

# Of what did not end there is no ledger, so these are tried.
_USUAL = "MatMul BatchMatMulV2 Conv2D AddV2 Add Sub Mul RealDiv Maximum Minimum SelectV2".split()
# Runs again, at most, to look for single nodes.
_NODES = 24


def to_blame(
    workers: measure.Workers,
    program,
    contender: str,
    verdict: measure.Verdict,
    reference: dict,
    low: str,
) -> list[str]:
    """What cures the program by itself, op types first, then nodes; else a set that does together.

    A matrix product nearly always does, as without it nothing is lowered after it. So the others
    say more, and single nodes where there are several products.
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

"""Which lowered ops are to blame for a program that went wrong.

Each op type that was lowered is put on the black list by itself, and the program runs again.
"""

from __future__ import annotations

from numerics import measure


def to_blame(workers: measure.Workers, program, contender: str, verdict, reference: dict, low: str):
    """The op types that cure the program alone; else as few as are found that do it together."""

    def cured(ops: list[str]) -> bool:
        edits = {"black-list": {"to-add": ops}}
        reply = workers.run(contender, program.name, program.seconds, edits)
        return measure.judge(reply, reference, program.tolerance[low]).is_good

    lowered = sorted(verdict.lowered) or list(_WHITE)
    alone = [op for op in lowered if cured([op])]
    if alone:
        return [[op] for op in alone]
    if not cured(lowered):
        return []
    # What can be left out is left out, one op type after the other.
    needed = lowered
    for op in lowered:
        rest = [other for other in needed if other != op]
        if cured(rest):
            needed = rest
    return [needed]


# Of what did not end there is no ledger, so these are tried.
_WHITE = (
    "MatMul",
    "BatchMatMulV2",
    "Conv2D",
    "Add",
    "AddV2",
    "Sub",
    "Mul",
    "RealDiv",
    "Maximum",
    "Minimum",
    "Select",
    "SelectV2",
)

"""Writes the page of `npu-precision compare-dumps`."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_precision.dumps.comparison import Comparison, Row
from npu_precision.dumps.folders import few
from npu_precision.explain import sections

HEADINGS = ("tensor", "op type", "type", "error", "read", "cosine", "largest", "not finite")
_MOST_ROWS = 500
_READ = {
    "graph": "What an op read is known from the graph.",
    "inputs": "What an op read is known from the inputs in the dumps.",
    "order": "What an op read is not known: all that was computed before it counts.",
}


def write(path: pathlib.Path, title: str, compared: Comparison) -> None:
    """Writes the page.

    Args:
        path: the file, which is replaced.
        title: its heading.
        compared: what was compared.

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    sections.write(path, "dumps", title, findings(compared), _parts(compared))


def findings(compared: Comparison) -> list[str]:
    """The main findings, a sentence each."""
    matches, rows = compared.matches, compared.rows
    found = [
        f"{len(rows)} tensors were compared; ops of the first dump alone: "
        f"{few(matches.only_first)}; of the second: {few(matches.only_second)}"
    ]
    if compared.skipped:
        name, why = next(iter(compared.skipped.items()))
        found.append(f"{len(compared.skipped)} tensors were not compared, such as {name}: {why}")
    if any(row.difference.by_statistics for row in rows):
        found.append("tensors that a dump has only statistics of are compared by these")
    first, ranked = compared.first_divergence(), compared.ranked()
    if first is None:
        found.append(f"no tensor diverges: no error is above {compared.threshold:.4g}")
        return found
    found.append(
        f"first divergence: {first.tensor} ({first.op or 'op type unknown'}), number "
        f"{first.position + 1} in the order of execution, {told(first)}"
    )
    most = ranked[0]
    if most is not first:
        found.append(f"most error enters at {most.tensor} ({most.op}), {told(most)}")
    return found


def told(row: Row) -> str:
    """The error of a tensor in words."""
    read = f"where what it read has {number(row.given)}"
    if row.difference.not_finite:
        return f"{row.difference.not_finite:.1%} of it is infinite or NaN in the first dump alone"
    return f"error {number(row.difference.error)}, {read}"


def next_step(compared: Comparison) -> str:
    """What to do about it, a sentence; a mixlist follows if there is one."""
    if compared.first_divergence() is None:
        return "nothing is to be kept in float32."
    if compared.mixlist():
        return "this mixlist keeps the ops in float32 at which error enters:"
    if compared.low_type in ("float16", "bfloat16"):
        if not compared.entering():
            return "error enters at no op: each was given errors of the size of its own."
        return "the ops at which error enters compute in float32: a mixlist does not help."
    return "the first dump has no values of a low type: a mixlist does not help."


def number(value: float | None) -> str:
    """A number in a table."""
    return "" if value is None else f"{value:.3g}"


def row_texts(row: Row) -> list[str]:
    """The row of a table."""
    difference = row.difference
    return [
        row.tensor,
        row.op,
        difference.dtype or "statistics",
        number(difference.error),
        number(row.given),
        "" if difference.cosine is None else f"{difference.cosine:.6f}",
        number(difference.largest),
        f"{difference.not_finite:.2%}",
    ]


def _parts(compared: Comparison) -> list[dict[str, Any]]:
    rows = compared.rows
    places = np.array([row.position + 1 for row in rows])
    errors = np.array([row.difference.error for row in rows])
    first = compared.first_divergence()
    marks = []
    if first is not None:
        marks.append(
            {"x": first.position + 1, "text": f"{first.tensor}: {told(first)}", "good": False}
        )
    chart = sections.lines(
        "the error of each tensor, in the order of execution",
        "tensor",
        [
            sections.series("error", places, np.where(errors > 0, errors, math.nan)),
            sections.series("threshold", places, np.full(len(places), compared.threshold)),
        ],
        marks=marks,
        logarithmic=True,
    )
    parts = [
        sections.section(
            "Where error enters",
            notes=[_READ[compared.known]],
            table=_table(compared.ranked()),
        ),
        sections.section("In the order of execution", charts=[chart], table=_table(rows)),
    ]
    alone = [[name, "first"] for name in compared.matches.only_first]
    alone += [[name, "second"] for name in compared.matches.only_second]
    if alone:
        table = sections.table(["op", "dump"], alone[:_MOST_ROWS], numbers_from=2, of=len(alone))
        parts.append(sections.section("Ops of one dump alone", table=table))
    parts.append(
        sections.section("What comes next", notes=[next_step(compared)], code=compared.mixlist())
    )
    return parts


def _table(rows: Sequence[Row]) -> dict[str, Any]:
    texts = [row_texts(row) for row in rows[:_MOST_ROWS]]
    return sections.table(list(HEADINGS), texts, numbers_from=3, of=len(rows))

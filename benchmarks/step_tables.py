"""The tables that the documents have of `make bench`: one for each kind of row."""

from __future__ import annotations

from collections.abc import Mapping

import contenders
import report

# By the beginning of a row's name, the table that it is in.
_KINDS = {"saved ": "saved", "fit ": "fit", "live ": "live", "float16 ": None}


def tables(found: Mapping[str, dict]) -> dict[str, tuple[report.Columns, list[list[str]]]]:
    """By table, its columns and its rows.

    Args:
        found: the figures of each row, by its name.
    """
    by_table: dict[str, dict[str, dict]] = {}
    for name, entry in found.items():
        start = next((start for start in _KINDS if name.startswith(start)), "")
        kind = _KINDS.get(start, "steps")
        if kind is not None:
            by_table.setdefault(kind, {})[name[len(start) :]] = entry
    result = {
        kind: _table("SavedModel" if kind == "saved" else kind, entries, with_casts=True)
        for kind, entries in by_table.items()
        if kind != "steps"
    }
    if "steps" in by_table:
        result["steps"] = _table("graph", by_table["steps"], with_casts=False)
        result["graphs"] = _properties(by_table["steps"])
    return result


def _table(
    heading: str, entries: Mapping[str, dict], with_casts: bool
) -> tuple[report.Columns, list[list[str]]]:
    every = {name: None for entry in entries.values() for name in entry["contenders"]}
    shown = [name for name in every if name != contenders.BASELINE]
    casts = [name for name in (contenders.TENSORFLOW, contenders.OURS) if name in shown]
    more = [f"casts: {name}" for name in casts] if with_casts else ["limit"]
    rows = []
    for name, entry in entries.items():
        figures = entry["contenders"]
        row = [name, *(_cell(figures.get(each), "ratio", "{:.2f}") for each in shown)]
        if with_casts:
            row += [_cell(figures.get(each), "casts", "{}") for each in casts]
        else:
            row.append(_cell(entry, "limit", "{:.2f}"))
        rows.append(row)
    return _columns(heading, [*shown, *more]), rows


def _properties(entries: Mapping[str, dict]) -> tuple[report.Columns, list[list[str]]]:
    theirs, ours, exact = contenders.TENSORFLOW, contenders.OURS, contenders.BASELINE
    headings = [f"casts: {theirs}", f"casts: {ours}", "in bfloat16"]
    headings += [f"error: {name}" for name in (exact, theirs, ours)] + ["size"]
    rows = []
    for name, entry in entries.items():
        figures = entry["contenders"]
        rows.append(
            [
                name,
                *(_cell(figures.get(each), "casts", "{}") for each in (theirs, ours)),
                _cell(figures.get(ours), "low_share", "{:.0%}"),
                *(_cell(figures.get(each), "error", "{:.3f}") for each in (exact, theirs, ours)),
                _cell(entry, "converted_size", "{:.2f}"),
            ]
        )
    return _columns("graph", headings), rows


def _columns(heading: str, others: list[str]) -> report.Columns:
    return {heading: "left", **dict.fromkeys(others, "right")}


def _cell(figures: Mapping[str, float | None] | None, name: str, form: str) -> str:
    value = None if figures is None else figures.get(name)
    return "" if value is None else form.format(value)

"""Writes pages of sections with charts, heat maps and tables, in the style of the report.

They are the same HTML file as a report's, with other data; report_page/src/sections.ts draws them.
The page decides and words nothing.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_precision import _version
from npu_precision.explain import report

SCHEMA = "npu_precision.sections/1"


def write(
    path: pathlib.Path,
    kind: str,
    title: str,
    findings: Sequence[str],
    parts: Sequence[dict[str, Any]],
) -> None:
    """Writes a page.

    Args:
        path: the file, which is replaced.
        kind: the kind of page, as "flight".
        title: its heading.
        findings: the main findings, a sentence each.
        parts: sections, from section().

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    report.fill_page(
        path,
        {
            "schema": SCHEMA,
            "version": _version.__version__,
            "kind": kind,
            "title": title,
            "findings": list(findings),
            "sections": list(parts),
        },
    )


def section(
    heading: str,
    charts: Sequence[dict[str, Any]] = (),
    heat: dict[str, Any] | None = None,
    table: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    code: str = "",
) -> dict[str, Any]:
    """A section: sentences, a text to copy, and results of the functions below."""
    return {
        "heading": heading,
        "notes": list(notes),
        "code": code,
        "charts": list(charts),
        "heat": heat,
        "table": table,
    }


def lines(
    heading: str,
    x_name: str,
    drawn: Sequence[dict[str, Any]],
    marks: Sequence[dict[str, Any]] = (),
    logarithmic: bool = False,
) -> dict[str, Any]:
    """A chart of lines.

    Args:
        heading: what it shows.
        x_name: the name of the horizontal axis.
        drawn: lines, from series().
        marks: {"x": a place, "text": what happened there, "good": whether it went well}.
        logarithmic: whether the vertical axis is.
    """
    return {
        "heading": heading,
        "x": x_name,
        "series": list(drawn),
        "marks": list(marks),
        "logarithmic": logarithmic,
    }


def series(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """A line, without its points that are not finite."""
    return {"name": name, "x": x.tolist(), "y": [_number(value) for value in y.tolist()]}


def heat(
    heading: str,
    columns: Sequence[int],
    rows: Sequence[str],
    layers: Sequence[dict[str, Any]],
    nans: np.ndarray | None = None,
) -> dict[str, Any]:
    """A heat map with a row per name and a column per step.

    Args:
        heading: what it shows.
        columns: the steps.
        rows: the names.
        layers: heat maps from layer(); one is shown at a time.
        nans: the shares of values that are NaN, [rows, columns]. Where there are any, the cell
            says so in every layer.
    """
    return {
        "heading": heading,
        "columns": list(columns),
        "rows": list(rows),
        "layers": list(layers),
        "nans": [] if nans is None else _cells(nans),
    }


def layer(name: str, unit: str, values: np.ndarray, ends: tuple[float, float]) -> dict[str, Any]:
    """The numbers of a heat map.

    Args:
        name: the name of the numbers.
        unit: the unit of the numbers.
        values: the numbers, [rows, columns].
        ends: the values that get no shade and the full shade.
    """
    return {"name": name, "unit": unit, "values": _cells(values), "ends": list(ends)}


def _cells(values: np.ndarray) -> list[list[float | None]]:
    return [[_number(float(f"{value:.4g}")) for value in row] for row in values.tolist()]


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int, of: int
) -> dict[str, Any]:
    """A table.

    Args:
        headings: the headings of its columns.
        rows: the rows, of texts.
        numbers_from: the first column with numbers.
        of: how many rows there are in all.
    """
    return {
        "headings": list(headings),
        "rows": [list(row) for row in rows],
        "numbers_from": numbers_from,
        "of": of,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

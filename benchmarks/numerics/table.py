"""The tables of docs/numerics.md."""

from __future__ import annotations

import math
from typing import Literal

HEADINGS = {
    "float32": "float32",
    "bf16": "bf16 mode",
    "fp16": "fp16 mode",
    "tf amp": "TensorFlow's",
    "keras": "Keras' policy",
    "rounded": "inputs rounded",
}


def cell(verdict: dict) -> str:
    """The cell of a program: its result and its distance; a fault is in bold."""
    status = verdict["status"]
    if status == "does not apply":
        return ""
    if status in {"does not end", "crashes"}:
        return f"**{status}**"
    if status == "error":
        return f"**{verdict['error'].partition(':')[0]}**"
    number = value(verdict["value"])
    if status == "not finite":
        return f"**{number}**"
    distance = "?" if verdict["distance"] is None else f"{100 * verdict['distance']:.2g}%"
    return f"{number}, {distance}" if status == "ok" else f"**{number}, {distance}**"


def value(number: float | None) -> str:
    """A number with four digits, or the name of infinity or NaN."""
    if number is None:
        return ""
    return f"{number:.4g}" if math.isfinite(number) else str(number)


def columns(names: list[str]) -> dict[str, Literal["left", "right"]]:
    """The headings of rows()."""
    shown = (HEADINGS[name] for name in names)
    return dict.fromkeys(("room", "program", *shown, "lowered"), "left")


def rows(found: dict, names: list[str]) -> list[list[str]]:
    """A row for each program, in the order of the corpus."""
    lines = []
    for name, entry in found.items():
        cells = [cell(entry[each]) for each in names if each != "float32"]
        cells.insert(0, value(entry["float32"]["value"]))
        ours = entry.get("bf16") or entry.get("fp16") or {"lowered": {}}
        count = sum(map(len, ours["lowered"].values()))
        lines.append([entry["room"].replace("_", " "), name, *cells, str(count or "")])
    return lines

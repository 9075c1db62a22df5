"""The table of docs/numerics.md."""

from __future__ import annotations

import math

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


def markdown(found: dict, columns: list[str]) -> str:
    """A table per room, in the order of the corpus."""
    lines = []
    room = None
    for name, entry in found.items():
        if entry["room"] != room:
            room = entry["room"]
            lines += ["", f"### {room.replace('_', ' ')}", ""]
            lines.append(f"| program | {' | '.join(HEADINGS[c] for c in columns)} | lowered |")
            lines.append("|" + " --- |" * (len(columns) + 2))
        cells = [cell(entry[c]) for c in columns if c != "float32"]
        cells.insert(0, value(entry["float32"]["value"]))
        ours = entry.get("bf16") or entry.get("fp16") or {"lowered": {}}
        count = sum(map(len, ours["lowered"].values()))
        shown = name.replace("|", "\\|")
        lines.append(f"| {shown} | {' | '.join(cells)} | {count or ''} |")
    return "\n".join(lines[1:]) + "\n"

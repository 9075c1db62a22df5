"""The table of the benchmark on a GPU, and the rows where a peer is ahead."""

from __future__ import annotations

from typing import Any

import gpu_contenders
import report

# Without our rewrites, it is a peer.
_OURS = ("npu fp16", "npu bf16")
# A row is behind if a peer is ahead by more.
_MARGIN = 1.03


def line(name: str, row: dict[str, Any]) -> str:
    """A row in a line, as soon as it is measured."""
    cells = [f"{key} {each['ratio']:.2f}" for key, each in row["contenders"].items()]
    cells += [
        f"{key} failed: {(error.splitlines() or [''])[-1]}" for key, error in row["failed"].items()
    ]
    return f"{name}: {', '.join(cells)}"


def columns(found: dict[str, Any]) -> report.Columns:
    """The headings: those of all contenders that took part."""
    known = dict.fromkeys(gpu_contenders.CONTENDERS)
    for row in found["rows"].values():
        known.update(dict.fromkeys(row["contenders"]))
    names = ["ms", *list(known)[1:], "errors"]
    return {"row": "left", **dict.fromkeys(names, "right")}


def cells(found: dict[str, Any]) -> list[list[str]]:
    """The rows: how many times as fast as float32 with TF32, and the peak of memory over its."""
    result = []
    for name, row in found["rows"].items():
        figures = row["contenders"]
        baseline = figures.get(gpu_contenders.BASELINE)
        if baseline is None:
            continue
        shown = [
            _cell(figures.get(contender), baseline["peak_megabytes"])
            for contender in list(columns(found))[2:-1]
        ]
        errors = [f"{each['error']:.3f}" for key, each in figures.items() if key in _OURS]
        result.append([name, f"{baseline['milliseconds']:.1f}", *shown, " ".join(errors)])
    return result


def _cell(figures: dict[str, Any] | None, memory: float | None) -> str:
    if figures is None:
        return ""
    ratio = f"{figures['ratio']:.2f}"
    return f"{ratio} ({figures['peak_megabytes'] / memory:.0%})" if memory else ratio


def behind(found: dict[str, Any]) -> list[str]:
    """The rows where a peer is more than 3 % ahead of the faster of our modes."""
    result = []
    for name, row in found["rows"].items():
        ratios = {key: figures["ratio"] for key, figures in row["contenders"].items()}
        ours = max(ratios.get(key, 0.0) for key in _OURS)
        for key, ratio in ratios.items():
            if key not in _OURS and ratio > _MARGIN * ours:
                result.append(f"{name}: {key} {ratio:.2f}, ours {ours:.2f}")
    return result


def show(found: dict[str, Any]) -> None:
    """Prints the table, what a peer does faster, what failed and what was not run."""
    gpus = ", ".join(map(str, found["machine"]["gpus"])) or "a CPU, as a rehearsal"
    print(f"{gpus}, TensorFlow {found['machine']['tensorflow']}, {found['machine']['day']}")
    print(
        "ms: of float32 with TF32; then times as fast (memory of a step over its); errors of ours "
        "in the first result, in standard deviations"
    )
    report.show(report.grid(columns(found), cells(found)))
    print(*(f"behind: {each}" for each in behind(found)), sep="\n")
    for name, row in found["rows"].items():
        for contender, error in row["failed"].items():
            print(f"failed: {name}: {contender}: {error}")
    print(*(f"not run: {name}" for name in found["not_run"]), sep="\n")

"""The step times of npu-precision tune: as text and as JSON."""

from __future__ import annotations

from typing import Any

import rich.console

from npu_precision.cli import printing
from npu_precision.tuning.front import Point, Times
from npu_precision.tuning.objective import MaxError, Objective, apart
from npu_precision.tuning.tuned import Tuned

FLOAT32_WINS = (
    "nothing within the limit is faster beyond the noise, so the mixlist keeps everything in "
    "float32; the mode must_keep_origin_dtype does so without one"
)


def label(point: Point) -> str:
    """The name of a point, as "3 kept"."""
    return "float32" if point.kept is None else f"{len(point.kept)} kept"


def show(out: rich.console.Console, tuned: Tuned, times: Times, objective: Objective) -> None:
    """Prints the measured points, or only the front, and the fastest one.

    Args:
        out: where to.
        tuned: the result.
        times: its times.
        objective: the limit.
    """
    front = times.front
    shown = sorted(times.points, key=lambda point: point.time.ratio)
    if times.shows_front:
        shown = front
    title = "Step time, as a multiple of float32"
    if times.shows_front:
        title = "The front of step time and error"
    columns = [("mixlist", False), ("lowered", True), ("time", True), ("quartiles", False)]
    printing.say(out, f"a step in float32: {1000 * times.points[0].time.seconds:.3g} ms")
    out.print()
    printing.show(
        out,
        printing.table(
            title,
            [*columns, (_measure(objective), True), ("", False)],
            [
                (
                    label(point),
                    0 if point.trial is None else point.trial.lowered,
                    f"{point.time.ratio:.2f}",
                    "" if point.kept is None else _quartiles(point),
                    apart(point.worse, objective.searched) if point.worse else "0",
                    _remarks(point, times),
                )
                for point in shown
            ],
        ),
    )
    behind = len(times.points) - len(shown)
    if behind:
        printing.say(out, f"{behind} more of {len(times.points)} that were measured are not on it")
    out.print()
    if not times.is_float32:
        _show_fastest(out, times)


def _measure(objective: Objective) -> str:
    return "error" if isinstance(objective, MaxError) else "worse by"


def _show_fastest(out: rich.console.Console, times: Times) -> None:
    chosen = times.chosen
    others = ", ".join(label(point) for point in times.as_fast)
    printing.say(
        out,
        f"fastest within the limit: {label(chosen)}, with {chosen.time.ratio:.2f} of float32's "
        f"step time ({_quartiles(chosen)})"
        f"{f'; as fast within the noise: {others}' if others else ''}",
    )


def _quartiles(point: Point) -> str:
    return f"{point.time.low:.2f} to {point.time.high:.2f}"


def _remarks(point: Point, times: Times) -> str:
    remarks = ["chosen"] if point is times.chosen else []
    if not point.is_good:
        remarks.append("not good enough")
    if point.kept is not None and not point.time.is_faster:
        remarks.append("slower" if point.time.is_slower else "no faster beyond the noise")
    return ", ".join(remarks)


def report(times: Times, objective: Objective) -> dict[str, Any]:
    """All measured points, for the report; see explain.report.write_report.

    Args:
        times: the times.
        objective: the limit.
    """
    points = [{"label": label(point), **_measured(point, times)} for point in times.points]
    return {"measure": _measure(objective), "points": points}


def data(times: Times) -> list[dict[str, Any]]:
    """All measured points, for JSON; the point of float32 has null for `kept`."""
    return [
        {
            "kept": None if point.kept is None else sorted(point.kept),
            "lowered": 0 if point.trial is None else point.trial.lowered,
            "milliseconds": 1000 * point.time.seconds,
            **_measured(point, times),
        }
        for point in times.points
    ]


def _measured(point: Point, times: Times) -> dict[str, Any]:
    return {
        "worse": point.worse,
        "ratio": point.time.ratio,
        "quartiles": [point.time.low, point.time.high],
        "good": point.is_good,
        "front": point in times.front,
        "chosen": point is times.chosen,
    }

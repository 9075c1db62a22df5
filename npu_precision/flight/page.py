"""Writes the page of `npu-precision flight`, which shows a recorded run."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_precision.explain import sections
from npu_precision.flight.forward import Drift, describe, limits_of, reached
from npu_precision.flight.next_steps import next_step
from npu_precision.flight.reading import GraphLog, RunLog

# The number of columns in a picture; more steps are merged.
_MOST_COLUMNS = 120
_MOST_ROWS = 200
# A scope so many powers of two below the end of its range has no shade.
_HEADROOM = 16.0
_TRIED = (
    "It ran these steps to find the ops to keep in float32. They are no part of the training.",
)


def write(path: pathlib.Path, title: str, runs: Sequence[RunLog]) -> None:
    """Writes the page.

    Args:
        path: the file, which is replaced.
        title: the path that was read.
        runs: at least one.

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    sections.write(path, "flight", title, findings(runs), parts(runs))


def parts(runs: Sequence[RunLog]) -> list[dict[str, Any]]:
    """The sections of the page: the graphs, what a guard tried, and what comes next."""
    notes, mixlist = next_step(runs)
    last = sections.section("What comes next", notes=notes, code=mixlist)
    return [*(part for run in runs for part in _sections(run)), last]


def findings(runs: Sequence[RunLog]) -> list[str]:
    """The main findings about runs, a sentence each."""
    found: list[str] = []
    for run in runs:
        before = _label(run, len(runs) > 1)
        found.extend(f"{before}{text}" for text in _of_run(run))
    return found or ["nothing left its range, and no gradient overflowed"]


def _label(run: RunLog, several: bool) -> str:
    rank = "" if run.rank is None else f"rank {run.rank}, "
    return f"{rank}run {run.number}: " if several or rank else ""


def _of_run(run: RunLog) -> list[str]:
    found = []
    for graph in run.graphs.values():
        bad = [step for step in graph.steps if "first" in step]
        if bad:
            found.append(
                f"graph {graph.number} ({graph.name}): not finite in {len(bad)} of "
                f"{len(graph.steps)} recorded steps; first in step {bad[0]['step']}, "
                f"{describe(bad[0]['first'])}{_healed(bad)}"
            )
        drift = _drift(graph)
        if drift is not None:
            found.append(
                f"graph {graph.number} ({graph.name}): the range of {drift[0]} drifts, by "
                f"2^{drift[1]:.1f} since the first steps"
            )
    for source, events in run.gradients.items():
        overflows = [event for event in events if event["event"] == "overflow"]
        if overflows:
            last = overflows[-1]
            found.append(
                f"{source}: {len(overflows)} steps were skipped, the last, {last['step']}, for "
                f"{last['first']['value']} in the gradient of {last['first']['gradient']}"
            )
    steps = [step for graph in run.graphs.values() for step in graph.steps]
    recorded = [step["healed_by"] for step in steps if "healed_by" in step]
    for heal in run.heals:
        if heal not in recorded:
            found.append(f"{heal['where']}, which begins as {heal['begins']}; {_told(heal)}")
    tried = sum(bool(graph.trials) for graph in run.graphs.values())
    if tried:
        found.append(f"the PrecisionGuard tried {tried} graphs, which are apart")
    return found


def _healed(bad: Sequence[dict[str, Any]]) -> str:
    return "".join(f"; {_told(step['healed_by'])}" for step in bad if "healed_by" in step)


def _told(heal: dict[str, Any]) -> str:
    return f"healed: {heal['mixlist']} keeps {', '.join(heal['entries'])} in float32"


def _drift(graph: GraphLog) -> tuple[str, float] | None:
    if not graph.steps:
        return None
    drift = Drift(graph.description["scopes"])
    for largest in graph.by_scope(_reached(graph)):
        drift.add(largest)
    return drift.worst()


def _sections(run: RunLog) -> list[dict[str, Any]]:
    label = _label(run, True)
    found = []
    for graph in run.graphs.values():
        if graph.steps:
            found.append(_of_graph(f"{label}{_heading(graph)}", graph, run))
    tried = [graph for graph in run.graphs.values() if graph.trials]
    if tried:
        found.append(
            sections.section(
                f"{label}what the PrecisionGuard tried", table=_trials(tried), notes=_TRIED
            )
        )
    if not found:  # A log of gradients only.
        lines = [_scale(source, events) for source, events in run.gradients.items()]
        found = [
            sections.section(f"{label}the loss scale", charts=[each for each in lines if each])
        ]
    return found


def _heading(graph: GraphLog) -> str:
    """The graph, with what a guard did about it."""
    text = f"graph {graph.number} ({graph.name})"
    healed = [step["step"] for step in graph.steps if "healed_by" in step]
    again = [step["step"] for step in graph.steps if "heals" in step]
    if healed:
        text += f": step {healed[0]} went wrong, and was healed"
    if again:
        text += f": healed, from step {again[0]} on"
    return text


def _trials(graphs: Sequence[GraphLog]) -> dict[str, Any]:
    rows = []
    for graph in graphs:
        first = next((step["first"] for step in graph.trials if "first" in step), None)
        result = "went well" if first is None else describe(first)
        rows.append([f"graph {graph.number} ({graph.name})", str(len(graph.trials)), result])
    return sections.table(["graph", "steps", "result"], rows, numbers_from=3, of=len(rows))


def _of_graph(heading: str, graph: GraphLog, run: RunLog) -> dict[str, Any]:
    steps = np.array([step["step"] for step in graph.steps])
    # A row per scope.
    closeness = graph.by_scope(_closeness(graph)).T
    over = graph.by_scope(graph.column("over")).T
    under = graph.by_scope(graph.column("under")).T
    nans = graph.by_scope(graph.column("nans")).T
    columns = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_COLUMNS))

    def together(values: np.ndarray) -> np.ndarray:
        return np.stack([values[:, each].max(1) for each in columns], 1)

    heat = sections.heat(
        "scopes over steps",
        [int(steps[each[0]]) for each in columns],
        list(graph.description["scopes"]),
        [
            sections.layer(
                "largest magnitude",
                "powers of two from the end of the range",
                together(closeness),
                (-_HEADROOM, 0.0),
            ),
            sections.layer("over the range", "of a tensor", together(over), (0.0, 1.0)),
            sections.layer("under the range", "of a tensor", together(under), (0.0, 1.0)),
        ],
        together(nans),
    )
    charts = [_timeline(graph, steps)]
    charts += [each for each in map(_scale, run.gradients, run.gradients.values()) if each]
    return sections.section(heading, charts=charts, heat=heat, table=_table(graph))


def _reached(graph: GraphLog) -> np.ndarray:
    limits = limits_of(graph.description["low_types"])
    return reached(graph.column("largest"), graph.column("over"), limits)


def _closeness(graph: GraphLog) -> np.ndarray:
    """Per step and tensor, the binary logarithm of the largest magnitude, as a share of the limit.

    The value is -infinity if all magnitudes are zero.
    """
    with np.errstate(divide="ignore"):
        return np.log2(_reached(graph) / limits_of(graph.description["low_types"]))


def _timeline(graph: GraphLog, steps: np.ndarray) -> dict[str, Any]:
    over = graph.column("over").max(1)
    under = graph.column("under").max(1)
    nans = graph.column("nans").max(1)
    marks = [
        {"x": step["step"], "text": f"{describe(step['first'])}{_healed([step])}", "good": False}
        for step in graph.steps
        if "first" in step
    ]
    marks += [
        {"x": step["step"], "text": _told(step["heals"]), "good": True}
        for step in graph.steps
        if "heals" in step
    ]
    return sections.lines(
        "the worst tensor's share of values out of the range of its type",
        "step",
        [
            sections.series("over", steps, over),
            sections.series("under", steps, under),
            sections.series("NaN", steps, nans),
        ],
        marks=marks[:_MOST_COLUMNS],
    )


def _scale(source: str, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    scales = [(event["step"], float(event["scale"])) for event in events]
    finite = [(step, scale) for step, scale in scales if 0 < scale < float("inf")]
    if not finite:
        return None
    steps, values = zip(*finite)
    marks = [
        {
            "x": event["step"],
            "text": f"{event['first']['value']} in {event['first']['gradient']}",
            "good": False,
        }
        for event in events
        if event["event"] == "overflow"
    ]
    return sections.lines(
        f"the loss scale of {source}",
        "step",
        [sections.series("loss scale", np.array(steps), np.array(values))],
        marks=marks[:_MOST_COLUMNS],
        logarithmic=True,
    )


def _table(graph: GraphLog) -> dict[str, Any]:
    names = ("largest", "over", "under", "nans")
    largest, over, under, nans = (graph.column(name).max(0) for name in names)
    limits = limits_of(graph.description["low_types"])
    worst = np.maximum(np.maximum(largest / limits, under), nans)
    order = np.argsort(-worst, kind="stable")[:_MOST_ROWS]
    about = graph.description
    rows = [
        [
            about["tensors"][tensor],
            about["ops"][tensor],
            about["low_types"][tensor],
            f"{largest[tensor]:.3g}",
            f"{over[tensor]:.2%}",
            f"{under[tensor]:.2%}",
            f"{nans[tensor]:.2%}",
        ]
        for tensor in order
    ]
    headings = ["tensor", "op type", "range of", "largest", "most over", "most under", "most NaN"]
    last = graph.steps[-1].get("statistics")
    if last is not None:
        headings += ["last mean", "last deviation"]
        for row, tensor in zip(rows, order):
            row += [_told_number(last[name][tensor]) for name in ("mean", "deviation")]
    return sections.table(headings, rows, numbers_from=3, of=len(about["tensors"]))


def _told_number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"

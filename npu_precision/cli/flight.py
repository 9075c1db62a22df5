"""npu-precision flight: shows the log of a flight recorder as a table and as a page."""

from __future__ import annotations

import json
from typing import Any

import click

from npu_precision import outputs
from npu_precision.cli import flags, printing
from npu_precision.explain import report
from npu_precision.flight import page as pages
from npu_precision.flight import reading
from npu_precision.flight.next_steps import next_step
from npu_precision.flight.reading import RunLog

SCHEMA = "npu_precision.flight/1"


@click.command()
@click.argument("log")
@click.option("-o", "--output", metavar="FILE", help="The page to write, as page.html.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def flight(log: str, output: str | None, force: bool, as_json: bool) -> None:
    """Shows what a FlightRecorder saw in a training, and writes a page of it.

    LOG is the folder of a recorder, or a file flight.jsonl. The page is one HTML file. Over the
    steps, it shows which values left the range of their type, the loss scale, and a heat map of the
    scopes.
    """
    outputs.check_apart((output,), (log,))
    if output is not None:
        report.read_page()  # Fails early if the page is missing.
    with outputs.optional_file(output, force) as file:
        with printing.busy("reading"):
            runs = reading.read(log)
        if not runs:
            raise ValueError(f"{log!r} has no recorded step in it")
        if file is not None:
            pages.write(file, log, runs)
    found = pages.findings(runs)
    if as_json:
        data = {"schema": SCHEMA, "log": log, "findings": found, "runs": list(map(_data, runs))}
        click.echo(json.dumps(data, indent=1))
        return
    out = printing.console()
    for text in found:
        printing.say(out, text)
    columns = [("run", False), ("recorded", True), ("steps", True), ("tensors", True)]
    rows = [row for run in runs for row in _rows(run)]
    printing.show(out, printing.table("Recorded", columns, rows))
    notes, mixlist = next_step(runs)
    printing.say(out, f"next: {' '.join(notes)}")
    if mixlist:
        printing.say(out, mixlist.rstrip())
    if output is not None:
        printing.say(out, f"{output}: open it in a browser")


def _rows(run: RunLog) -> list[tuple[str, str, str, str]]:
    label = f"run {run.number}" if run.rank is None else f"rank {run.rank}, run {run.number}"
    rows = []
    for graph in run.graphs.values():
        steps = [step["step"] for step in graph.steps or graph.trials]
        span = f"{steps[0]} to {steps[-1]}" if steps else ""
        tensors = str(len(graph.description["tensors"]))
        tried = "" if graph.steps or not graph.trials else ", tried by the PrecisionGuard"
        name = f"{label}, graph {graph.number} ({graph.name}){tried}"
        rows.append((name, str(len(steps)), span, tensors))
    for source, events in run.gradients.items():
        span = f"{events[0]['step']} to {events[-1]['step']}"
        rows.append((f"{label}, {source}", str(len(events)), span, str(events[-1]["gradients"])))
    return rows


def _data(run: RunLog) -> dict[str, Any]:
    return {
        "file": str(run.file),
        "rank": run.rank,
        "run": run.number,
        "graphs": [
            {
                "graph": graph.number,
                "name": graph.name,
                "steps": [step["step"] for step in graph.steps],
                "first": next((step["first"] for step in graph.steps if "first" in step), None),
            }
            for graph in run.graphs.values()
        ],
        "gradients": run.gradients,
        "heals": run.heals,
    }

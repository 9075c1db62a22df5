"""What to do about what a recorder saw: a sentence or two, and a mixlist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from npu_precision.flight.reading import RunLog

_MOST_ENTRIES = 20


class NextStep(NamedTuple):
    """What comes next.

    Attributes:
        notes: sentences.
        mixlist: the text of a mixlist, or "".
    """

    notes: list[str]
    mixlist: str


def next_step(runs: Sequence[RunLog]) -> NextStep:
    """What comes next after these runs."""
    heals = [heal for run in runs for heal in run.heals]
    if heals:
        last = heals[-1]
        return NextStep(
            [
                f"{last['mixlist']} keeps in float32 what the PrecisionGuard found. Give it to the "
                f"next run, which then heals nothing: modify_mixlist={last['mixlist']!r}"
            ],
            last["text"],
        )
    faults = list(_faults(runs))
    low = [fault for fault in faults if fault["low_type"] != "float32"]
    if low:
        entries = list(dict.fromkeys(f"node:{re.escape(fault['node'])}" for fault in low))
        lists = {"black-list": {"to-add": entries[:_MOST_ENTRIES]}}
        return NextStep(
            [
                "This mixlist (modify_mixlist) keeps the ops in float32 where it begins.",
                "A PrecisionGuard finds all such ops by itself, while the training goes on: "
                'model.fit(..., callbacks=[npu_precision.PrecisionGuard(mixlist="healed.json")])',
            ],
            f"{json.dumps(lists, indent=2)}\n",
        )
    if faults:
        return NextStep(["It begins in float32: the model or its data is at fault."], "")
    events = [event for run in runs for each in run.gradients.values() for event in each]
    if any(event["event"] == "overflow" for event in events):
        return NextStep(["Nothing: the skipped steps lowered the loss scale, as they should."], "")
    return NextStep(["Nothing: no value has to be kept in float32."], "")


def _faults(runs: Sequence[RunLog]) -> Iterator[dict[str, Any]]:
    """The first fault of each graph."""
    for run in runs:
        for graph in run.graphs.values():
            yield from [step["first"] for step in graph.steps if "first" in step][:1]

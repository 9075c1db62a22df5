"""Step times that are made up, so that a test does not depend on those of the machine."""

from __future__ import annotations

import json
import re

import pytest

from npu_precision.tuning import step_time
from npu_precision.tuning.step_time import StepTime


def took(ratio: float, spread: float = 0.01) -> StepTime:
    return StepTime(0.002 * ratio, ratio, ratio - spread, ratio + spread)


def by_kept(times, otherwise=None):
    return lambda kept: times.get(kept, otherwise or took(0.95))


@pytest.fixture
def timed(monkeypatch):
    """timed(time) -> the calls of the replaced measurement.

    time(number of kept nodes) is the StepTime of a mixlist.
    """

    def replace(time):
        calls = []

        def measure(model, batches, rounds, precisions):
            nodes = [
                node.name
                for node in model.graph_def.node
                if node.op not in ("Const", "Placeholder")
            ]
            kept = []
            for options in precisions:
                entries = json.loads(options.mixlist_edits)["black-list"]["to-add"]
                pattern = re.compile("|".join(entry[len("node:") :] for entry in entries) or "$")
                kept.append(len([name for name in nodes if pattern.fullmatch(name)]))
            calls.append((rounds, kept))
            return [took(1, 0), *map(time, kept)]

        monkeypatch.setattr(step_time, "measure", measure)
        return calls

    return replace

"""The search for a mixlist that heals a step, in a training that knows which nodes it needs."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import pathlib
import re

import pytest

from npu_precision import TrainingFailed
from npu_precision.guard.blame import Blamed
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.guard.healer import Healer, Limits
from npu_precision.guard.training import Outcome, Training
from npu_precision.options import PrecisionOptions

OPTIONS = PrecisionOptions(precision_mode="allow_mix_precision")


class Steps(Training):
    """Its second step is good if these nodes are in float32, or in float32 as a whole."""

    needs_file = False

    def __init__(self, *needed):
        self.needed = needed
        self.in_force, self.trials, self.is_bad = OPTIONS, [], False

    def run(self, inputs):
        good = not inputs or self.in_force is None or self.keeps(self.needed)
        return Outcome(None, 0.5 if good else math.nan, True)

    def keeps(self, nodes):
        given = self.in_force
        text = given.mixlist_edits or "{}"
        if given.modify_mixlist is not None:
            text = pathlib.Path(given.modify_mixlist).read_text()
        lines = [line for line in text.splitlines() if not line.strip().startswith("//")]
        kept = json.loads("\n".join(lines)).get("black-list", {}).get("to-add", [])
        patterns = [entry[len("node:") :] for entry in kept]
        return all(any(re.fullmatch(each, node) for each in patterns) for node in nodes)

    @contextlib.contextmanager
    def under(self, options, is_diagnosis=False):
        before, self.in_force = self.in_force, options
        self.trials.append(options)
        try:
            yield
        finally:
            self.in_force = before

    def use(self, options):
        self.in_force = options

    def save(self, inputs=None):
        return None

    def changes(self):
        return None

    def change(self, changes):
        pass

    def restore(self, state):
        pass

    def unchanged(self, state):
        return set()

    def size_of(self, inputs):
        return 1

    def options(self):
        return self.in_force


def healed(training, tmp_path, monkeypatch, blamed):
    """Makes a good step and a bad one; returns the nodes that are kept then."""
    monkeypatch.setattr(Healer, "_blamed", lambda *_: blamed)
    mixlist = HealedMixlist(tmp_path / "healed.json")
    healer = Healer(training, mixlist, Limits(20, None, 3, 2**20))
    healer.step(0)
    healer.step(1)
    return [entry[len("node:") :] for entry in sorted(mixlist.kept(training.in_force))]


LOWERED = [f"layer_{number}/MatMul" for number in range(40)]
FAULT = Blamed("overflow of float16 in x (_Arg)", [["x"], ["reader"]], LOWERED)


def test_what_is_blamed_and_its_readers_come_first(tmp_path, monkeypatch):
    training = Steps("reader")
    assert healed(training, tmp_path, monkeypatch, FAULT) == ["reader", "x"]


def test_where_the_readers_are_not_enough_it_looks_among_all_that_comes_after(
    tmp_path, monkeypatch
):
    """Of all that the mode lowers, only what is needed stays in float32."""
    training = Steps(LOWERED[3], LOWERED[20])
    assert healed(training, tmp_path, monkeypatch, FAULT) == [LOWERED[20], LOWERED[3]]
    assert len(training.trials) < len(LOWERED)


def test_where_no_op_is_found_all_are_kept(tmp_path, monkeypatch, caplog):
    with caplog.at_level(logging.WARNING):
        assert healed(Steps("anything"), tmp_path, monkeypatch, None) == [".*"]
    assert "it begins as a fault in an op that was not found, kept in float32" in caplog.text


@pytest.mark.parametrize("blamed", [FAULT, None])
def test_nothing_heals_is_only_said_after_a_trial_that_keeps_all(blamed, tmp_path, monkeypatch):
    class Hopeless(Steps):
        def keeps(self, nodes):
            tried.append(super().keeps(["any/node"]))
            return False

    tried = []
    with pytest.raises(TrainingFailed, match="nothing that a mixlist keeps in float32 heals it"):
        healed(Hopeless(), tmp_path, monkeypatch, blamed)
    assert tried[-1]

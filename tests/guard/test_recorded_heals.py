"""PrecisionGuard inside a FlightRecorder: the log and the page tell trials and heals apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support import keras_models
from support.large_layer import Large
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision.cli.main import main
from npu_precision.flight import page, reading
from npu_precision.flight.next_steps import next_step

pytestmark = needs_functions_by_default
layers = tf.keras.layers
IMAGES = np.random.default_rng(3).normal(size=[128, 16]).astype(np.float32)
DIGITS = np.argmax(IMAGES[:, :4], 1)


@pytest.fixture(scope="module")
def healed(tmp_path_factory):
    """The log of a training whose first step overflows float16, and the path of the mixlist."""
    folder = tmp_path_factory.mktemp("healed")
    keras_models.set_seed()
    model = tf.keras.Sequential(
        [
            layers.Dense(16, "relu", name="first"),
            Large(1e5, name="large"),
            layers.Dense(4, name="digits"),
        ],
        name="model",
    )
    model.build([None, 16])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.01), loss, jit_compile=False)
    mixlist = folder / "healed.json"
    guard = npu_precision.PrecisionGuard(mixlist=mixlist)
    recorder = npu_precision.FlightRecorder(folder / "flight", 1)
    with recorder, npu_precision.autocast(dtype="float16"):
        model.fit(IMAGES, DIGITS, batch_size=32, verbose=0, callbacks=[guard])
    assert guard.heals == 1
    return folder / "flight", mixlist, recorder.summary()


def test_trials_are_no_steps_of_the_training(healed):
    folder, _, summary = healed
    (run,) = reading.read(folder)
    tried = [graph for graph in run.graphs.values() if graph.trials]
    made = [graph for graph in run.graphs.values() if graph.steps]
    assert len(tried) >= 2
    assert not {id(graph) for graph in tried} & {id(graph) for graph in made}
    # The wrong step, then it and three others.
    assert [len(graph.steps) for graph in made] == [1, 4]
    lines = [line for line in summary.splitlines() if line.startswith("graph ")]
    assert sum("a trial of the PrecisionGuard" in line for line in lines) == len(tried)


def test_the_wrong_step_and_the_one_that_went_well_are_known(healed):
    folder, mixlist, _ = healed
    (run,) = reading.read(folder)
    (heal,) = run.heals
    assert heal["mixlist"] == str(mixlist)
    assert heal["text"] == mixlist.read_text()
    assert all(entry in heal["text"] for entry in heal["entries"])
    wrong, again = (graph.steps for graph in run.graphs.values() if graph.steps)
    assert wrong[0]["healed_by"] is heal
    assert again[0]["heals"] is heal
    assert not any("heals" in step for step in again[1:])


def test_the_page_shows_the_heal_then_what_was_tried_and_ends_with_the_mixlist(healed):
    folder, mixlist, _ = healed
    runs = reading.read(folder)
    parts = page.parts(runs)
    wrong, again, tried, last = (part["heading"] for part in parts)
    assert wrong.endswith(": step 0 went wrong, and was healed")
    assert again.endswith(": healed, from step 0 on")
    assert tried == "run 1: what the PrecisionGuard tried"
    assert last == "What comes next"
    assert parts[2]["table"]["rows"][-1][-1] == "went well"
    assert parts[2]["heat"] is None
    assert parts[3]["code"] == mixlist.read_text()
    (mark,) = parts[1]["charts"][0]["marks"]
    assert (mark["x"], mark["good"]) == (0, True)
    nans = np.array(parts[0]["heat"]["nans"], float)
    assert nans.max() == 1.0
    assert np.array(parts[1]["heat"]["nans"], float).max() == 0.0


def test_the_command_tells_of_the_heal_and_of_what_comes_next(healed, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    folder, mixlist, _ = healed
    assert main(["flight", str(folder)]) == 0
    printed = capsys.readouterr().out
    first, *_ = printed.splitlines()
    assert f"; healed: {mixlist} keeps node:" in first
    assert "tried by the PrecisionGuard" in printed
    assert f"next: {mixlist} keeps in float32" in printed
    assert printed.endswith(mixlist.read_text())


def test_a_heal_whose_wrong_step_was_not_recorded_is_a_finding(healed):
    folder, mixlist, _ = healed
    (run,) = reading.read(folder)
    for graph in run.graphs.values():
        graph.steps = [step for step in graph.steps if "healed_by" not in step]
    found = page.findings([run])
    assert any(text.startswith("step 0: the loss is nan, which begins as ") for text in found)
    assert sum(str(mixlist) in text for text in found) == 1


def test_of_several_heals_the_last_mixlist_comes_next(healed):
    (run,) = reading.read(healed[0])
    run.heals.append({**run.heals[0], "mixlist": "later.json", "text": "{}\n"})
    assert next_step([run]).mixlist == "{}\n"


def test_a_log_of_heals_is_json(healed):
    events = [json.loads(line) for line in (healed[0] / "flight.jsonl").read_text().splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds.count("heal") == 1
    before = events[: kinds.index("heal")]
    assert [event for event in before if event.get("trial")]

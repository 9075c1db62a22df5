"""npu-precision tune: searches that are interrupted, resumed, or ended by a limit."""

from __future__ import annotations

import json

from support.overflowing import EMULATED, OVERFLOW, normal

from npu_precision.tuning.trials import Trials


def test_a_search_that_was_interrupted_goes_on(overflow, command, tune, tmp_path, monkeypatch):
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "1e-4", "-o", tmp_path / "m.json")
    whole, _ = tune(*overflow, "--max-error", "1e-4")
    state = tmp_path / "m.json.state"
    made = []
    run = Trials.run

    def interrupted(trials, options):
        made.append(options)
        if len(made) == 5:
            raise KeyboardInterrupt
        return run(trials, options)

    monkeypatch.setattr(Trials, "run", interrupted)
    command(*arguments, status=130)
    assert state.exists()
    assert not (tmp_path / "m.json").exists()
    assert "--resume goes on with it, --force begins anew" in command(*arguments, status=2)
    found = json.loads(command(*arguments, "--resume", "--json"))
    assert found == whole
    # The model as given, the trials that were not made, and the written mixlist.
    assert len(made) - 5 == 1 + len(whole["trials"]) - 4 + 1
    assert not state.exists()


def test_force_begins_anew(overflow, command, tmp_path):
    state = tmp_path / "m.json.state"
    state.write_text("nonsense")
    arguments = ("tune", *overflow, *EMULATED, "--max-error", "0.01", "-o", tmp_path / "m.json")
    command(*arguments, "--force")
    assert not state.exists()


def test_max_runs_ends_a_search_with_what_was_found_so_far(overflow, tune, command, tmp_path):
    printed, mixlist = tune(*overflow, "--max-error", "1e-6", "--max-runs", "1")
    assert not printed["complete"]
    assert printed["found"]["error"] <= 1e-6
    assert (tmp_path / "mixlist.json.state").exists()
    arguments = (*overflow, *EMULATED, "--max-error", "1e-6", "-o", tmp_path / "mixlist.json")
    text = command("tune", *arguments, "--resume", "--max-runs", "2")
    assert (
        "--max-runs ended the search: some of these may not have to be kept; --resume with" in text
    )
    whole = json.loads(command("tune", *arguments, "--resume", "--json"))
    assert whole["complete"]
    assert not (tmp_path / "mixlist.json.state").exists()
    found = json.loads((tmp_path / "mixlist.json").read_text())
    assert len(whole["kept"]) < len(printed["kept"])
    assert found != mixlist


def test_a_state_of_something_else_is_refused(overflow, command, tmp_path, arrays, graph_file):
    output = ("-o", tmp_path / "m.json")
    model, *inputs = overflow
    command("tune", *overflow, *EMULATED, "--max-error", "1e-6", "--max-runs", "1", *output)
    again = ("--resume", "--force", *output)
    told = command("tune", *overflow, *EMULATED, "--max-error", "1e-5", *again, status=2)
    assert "is about other objective: without --resume, --force begins anew" in told
    same = ("--max-error", "1e-6", *again)
    told = command("tune", model, *inputs, *EMULATED[:2], *same, status=2)
    assert "is about other options" in told
    others = ("--inputs", arrays(x=normal(8, 8), factor=normal(8, 8)))
    assert "is about other inputs" in command("tune", model, *others, *EMULATED, *same, status=2)
    other = graph_file(OVERFLOW.replace("Relu", "Elu"))
    others = ("--inputs", arrays(x=normal(8, 8), factor=6e4 * normal(8, 8)))
    assert "is about other model" in command("tune", other, *others, *EMULATED, *same, status=2)
    (tmp_path / "m.json.state").write_text("{")
    told = command("tune", *overflow, *EMULATED, *same, status=2)
    assert "is no state of a search" in told


def test_a_measure_that_fails_late_loses_nothing(graph_file, command, tmp_path, monkeypatch):
    (tmp_path / "late_metric.py").write_text(
        "import numpy as np\n"
        "calls = []\n"
        "def batches():\n"
        f"    yield {{'x': {normal(8, 8).tolist()}, 'factor': {(6e4 * normal(8, 8)).tolist()}}}\n"
        "def finite(batches):\n"
        "    calls.append(batches)\n"
        "    if len(calls) == 4:\n"
        "        raise RuntimeError('no disk')\n"
        "    return np.isfinite(batches[0][1]['out:0']).mean()\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ("tune", graph_file(OVERFLOW), "--inputs-from", "late_metric:batches", *EMULATED)
    measure = ("--metric", "late_metric:finite", "--budget", "0", "-o", "m.json")
    assert "raised RuntimeError: no disk" in command(*arguments, *measure, status=2)
    assert "found" in json.loads(command(*arguments, *measure, "--resume", "--json"))

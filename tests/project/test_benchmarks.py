"""make bench: a short run of the smallest graphs; what it finds is of no interest here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.tf_versions import needs_fused_optimizers
from support.tiers import mostly_full

pytest.importorskip("matplotlib", reason="the benchmarks are for the default environment")

CONTENDERS = ["float32", "tf amp", "npu", "npu, dtypes", "npu, cube_fp16in_fp32out"]


def run(script, *flags):
    command = [sys.executable, str(ROOT / "benchmarks" / script), *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("graph", mostly_full(["lstm_gru", "train lstm"], ["lstm_gru"]))
def test_every_contender_runs_and_is_measured_in_a_process_of_its_own(graph, tmp_path):
    what = [f"--only={graph}", "--modes=cube_fp16in_fp32out", "--seconds=0"]
    done = run("run.py", f"--out={tmp_path}", f"--graphs={tmp_path}", *what)
    assert done.returncode == 0, done.stderr
    assert graph in done.stdout
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")

    found = json.loads((tmp_path / "bench.json").read_text())
    assert list(found["graphs"]) == [graph]
    entry = found["graphs"][graph]
    assert list(entry["contenders"])[:5] == CONTENDERS
    assert entry["contenders"]["float32"]["casts"] == 0
    assert entry["contenders"]["npu"]["casts"] > 0
    assert 0 < entry["contenders"]["npu"]["error"] < 0.1

    times = {name: alone["rewrite_seconds"] for name, alone in entry["alone"].items()}
    assert times.pop("float32") is None
    assert all(0 < seconds < 10 for seconds in times.values())
    assert all(alone["peak_bytes"] > 1e8 for alone in entry["alone"].values())


def test_the_rewrite_is_timed_alone(tmp_path):
    done = run("rewrite.py", f"--out={tmp_path}", "--only=1k", "--repeat=1")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / "bench_rewrite.json").read_text()).values()
    assert list(entry) == ["none", "tf amp", "npu, dtypes", "npu", "npu, offline"]
    assert all(0 < figures["seconds"] < 10 for figures in entry.values())


@pytest.mark.parametrize("script", ["run.py", "rewrite.py"])
def test_an_unknown_graph_is_named(script):
    done = run(script, "--only=resnet51")
    assert done.returncode == 2
    assert "--only: got 'resnet51', expected some of resnet50, " in done.stderr


def test_an_unknown_mode_is_named():
    done = run("run.py", "--modes=mixed")
    assert done.returncode == 2
    assert "--modes: precision_mode: got 'mixed', expected one of" in done.stderr


def test_gradients_in_one_buffer_are_timed_next_to_those_one_by_one():
    done = run("combine_grad.py", "--models=small", "--seconds=0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"small +│ 4 +│ \d+\.\d+ +│ \d+\.\d+", done.stdout)


@needs_fused_optimizers
def test_fused_optimizers_are_timed_next_to_those_of_keras():
    done = run("fused_optimizers.py", "--models=small", "--optimizers=Adam", "--seconds=0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"small +│ Adam +│ 4 +│ \d+\.\d+ +│ \d+\.\d+", done.stdout)

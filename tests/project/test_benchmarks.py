"""The benchmarks run: short runs of the smallest cases. Their figures do not matter here."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.tf_versions import needs_cluster_store, needs_fused_optimizers, needs_onednn
from support.tiers import mostly_full

pytest.importorskip("matplotlib", reason="the benchmarks are for the default environment")

CONTENDERS = ["float32", "tf amp", "npu", "npu, dtypes", "npu, cube_fp16in_fp32out"]


def run(script, *flags, **environment):
    command = [sys.executable, str(ROOT / "benchmarks" / script), *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@needs_onednn
@pytest.mark.parametrize("graph", mostly_full(["lstm_gru", "train lstm"], ["lstm_gru"]))
def test_every_contender_runs_and_is_measured_in_a_process_of_its_own(graph, tmp_path):
    what = [f"--only={graph}", "--modes=cube_fp16in_fp32out", "--seconds=0"]
    done = run("steps.py", f"--out={tmp_path}", f"--graphs={tmp_path}", *what)
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


@pytest.mark.full
def test_the_rewrite_is_timed_alone(tmp_path):
    done = run("rewrite.py", f"--out={tmp_path}", "--only=1k", "--repeat=1")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads((tmp_path / "bench_rewrite.json").read_text()).values()
    assert list(entry) == ["none", "tf amp", "npu, dtypes", "npu", "npu, offline"]
    assert all(0 < figures["seconds"] < 10 for figures in entry.values())


@pytest.mark.parametrize("script", mostly_full(["steps.py", "rewrite.py"], ["rewrite.py"]))
def test_an_unknown_graph_is_named(script):
    done = run(script, "--only=resnet51")
    assert done.returncode == 2
    assert "--only: got 'resnet51', expected some of resnet50, " in done.stderr


def test_an_unknown_mode_is_named():
    done = run("steps.py", "--modes=mixed")
    assert done.returncode == 2
    assert "--modes: precision_mode: got 'mixed', expected one of" in done.stderr


def test_an_unknown_rewrite_to_be_left_out_is_named():
    done = run("steps.py", "--modes=-same_paddin")
    assert done.returncode == 2
    assert "--modes: rewrites: got 'same_paddin'" in done.stderr


@pytest.mark.full
def test_gradients_in_one_buffer_are_timed_next_to_those_one_by_one():
    done = run("combine_grad.py", "--models=small", "--seconds=0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"small +│ 4 +│ \d+\.\d+ +│ \d+\.\d+", done.stdout)


@needs_fused_optimizers
def test_fused_optimizers_are_timed_next_to_those_of_keras():
    done = run("optimizers.py", "--models=small", "--optimizers=Adam", "--seconds=0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"small +│ Adam +│ 4 +│ \d+\.\d+ +│ \d+\.\d+", done.stdout)


# The bytes that a worker sends besides the all-reduces, as a share of them: headers and control
# messages.
OVERHEAD = 0.1


@pytest.mark.full
@needs_cluster_store
def test_workers_are_timed_and_what_they_send_is_counted_twice(tmp_path):
    what = ["--quick", "--only=mlp", "--workers=2"]
    done = run("distributed.py", f"--out={tmp_path}", *what)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "distributed.json").read_text())["mlp"]["2"]

    # Each of two workers sends the reduced tensors once. Biases and the loss keep float32.
    kernels, others = 1024 * 128 + 128 * 128 + 128 * 10, 128 + 128 + 10 + 1
    size, lowered = 4 * (kernels + others), 2 * kernels + 4 * others
    sizes = {"float32": size, "tf amp": size, "npu": size, "npu, lowered": lowered}
    assert {name: figures["graph_bytes"] for name, figures in found.items()} == sizes
    document = (tmp_path / "distributed.md").read_text()
    for name, figures in found.items():
        # The least: other tests may have workers of their own at the same time.
        assert sizes[name] < min(figures["socket_bytes"]) < (1 + OVERHEAD) * sizes[name]
        assert re.search(rf"\| {name} \|.* \| {sizes[name] / 1e6:.2f} \|", document)
        assert figures["faster"] == sorted(figures["faster"])
    # Each contender computes something else.
    assert len({tuple(figures["losses"]) for figures in found.values()}) > 2


@pytest.mark.full
@needs_cluster_store
def test_every_contender_trains_to_the_end_next_to_float32(tmp_path):
    done = run("convergence.py", f"--out={tmp_path}", "--quick", "--workers=2")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "convergence.json").read_text())["2"]

    # Kernels of more than 1024 elements are lowered.
    lowered, others = 9 * 16 * 32 + 128 * 128 + 128 * 10, 9 * 16 + 16 + 32 + 128 + 10
    share = (2 * lowered + 4 * (others + 1)) / (4 * (lowered + others + 1))  # and the loss
    assert {name: figures["bytes"] for name, figures in found.items() if "bytes" in figures} == {
        name: [pytest.approx(share)] for name in found if "lowered" in name
    }
    distances = {name: figures["distance"][0] for name, figures in found.items()}
    assert distances.pop("float32") == 0
    # The contender that rounds least has the least distance; other batches have the largest.
    assert 0 < distances.pop("float32, dealt otherwise") < 1e-5
    assert max(distances, key=distances.get) == "float32, other batches"
    assert min(distances.values()) > 1e-4
    losses = [figures["loss"][0] for figures in found.values()]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=0.05)
    document = (tmp_path / "convergence.md").read_text()
    assert all(f"| {name} |" in document for name in found)


def test_no_worker_runs_on_after_the_time_is_over(tmp_path):
    what = ["--quick", "--only=mlp", "--workers=2", "--timeout=0.5"]
    done = run("distributed.py", f"--out={tmp_path}", *what, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "workers [0, 1] took more than 0.5 s" in done.stderr
    # A worker has the folder of its ledgers among its arguments.
    assert not [line for line in command_lines() if str(tmp_path) in line]


def command_lines():
    """The command line of every process."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            yield path.read_text(errors="replace")


WRONG = {
    "--only=mpl": "--only: got 'mpl', expected some of conv,mlp,embedding",
    "--workers=2,1": "--workers: got '1', expected numbers of at least 2",
    "--steps=1": "--steps: got 1, expected at least 2",
}


@pytest.mark.parametrize("flag", mostly_full(WRONG, ["--workers=2,1"]))
def test_what_cannot_be_measured_of_workers_is_named(flag):
    done = run("distributed.py", flag)
    assert done.returncode == 2
    assert WRONG[flag] in done.stderr


def test_a_batch_that_workers_cannot_share_is_named():
    done = run("convergence.py", "--workers=2,3")
    assert done.returncode == 2
    assert "--workers: got 3, expected divisors of 128" in done.stderr

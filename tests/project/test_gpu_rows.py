"""The benchmark on a GPU: rehearsed on a CPU, and what it says of what it measured."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest
from support import ROOT
from support.tf_versions import needs_functions_by_default, needs_keras_3

pytestmark = [
    needs_functions_by_default,
    pytest.mark.cpu("a rehearsal is for machines without a GPU"),
]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def bench(*flags):
    command = [sys.executable, str(ROOT / "benchmarks/gpu.py"), *map(str, flags)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def figures(ratio, peak=None):
    return {"ratio": ratio, "milliseconds": 10.0, "peak_megabytes": peak, "error": 0.01}


FOUND = {
    "machine": {"gpus": ["H100"], "tensorflow": "2.21.0", "day": "2026-01-01"},
    "rows": {
        "lstm 128 sgd": {
            "contenders": {
                "float32": figures(1.0, 100.0),
                "tf amp": figures(1.5, 50.0),
                "npu fp16": figures(1.4, 60.0),
                "npu bf16": figures(1.2, 60.0),
            },
            "failed": {"keras fp16": "InternalError: first line\nlast line"},
        },
        "lstm 128 inference": {
            "contenders": {"float32": figures(1.0, 9.0), "npu fp16": figures(0.98, 9.0)},
            "failed": {},
        },
    },
    "not_run": ["unet 16 sgd"],
}
KILLED = {"contenders": {}, "failed": {"the process": ""}}


def test_without_a_gpu_it_is_an_error_of_one_line():
    done = bench()
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("make bench-gpu: TensorFlow ")
    assert last.endswith(" sees no GPU here; GPU_FLAGS=--rehearse runs some rows on the CPU")


@needs_keras_3
def test_a_rehearsal_measures_small_rows_and_keeps_each(tmp_path):
    out = tmp_path / "bench.json"
    rows = ["--only=lstm 128 inference", "--only=encoder 32 frozen"]
    named = "all,flatten_mat_muls"
    done = bench("--rehearse", "--seconds=0.1", f"--out={out}", f"--rewrites={named}", *rows)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found = json.loads(out.read_text())
    assert set(found["rows"]) == {"lstm 128 inference", "encoder 32 frozen"}
    assert found["not_run"] == []
    for row in found["rows"].values():
        assert row["failed"] == {}
        assert row["contenders"]["float32"]["ratio"] == 1.0
        for name in ("npu fp16", "npu bf16", f"npu fp16 {named}"):
            assert 0 < row["contenders"][name]["error"] < 0.05, name
    assert "npu fp16 bare" in found["rows"]["encoder 32 frozen"]["contenders"]
    assert "a CPU, as a rehearsal" in done.stdout
    # A second go leaves the file alone, and finds nothing to do.
    again = bench("--rehearse", f"--out={out}", *rows, f"--failed-from={out}")
    assert again.returncode == 2
    assert "no row is left" in again.stderr


@needs_keras_3
@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("{}", "'rows'")])
def test_a_file_that_is_not_of_this_benchmark_is_an_error(tmp_path, text, said):
    path = tmp_path / "there.json"
    if text:
        path.write_text(text)
    done = bench("--rehearse", f"--failed-from={path}")
    assert done.returncode == 2
    assert said in done.stderr
    assert "expected a file of bench-gpu" in done.stderr


@needs_keras_3
def test_unknown_rewrites_are_refused():
    done = bench("--rehearse", "--rewrites=all,flaten_mat_muls")
    assert done.returncode == 2
    assert "did you mean 'flatten_mat_muls'?" in done.stderr


def test_rows_that_failed_or_are_missing_run_again(tmp_path, monkeypatch):
    import gpu

    path = tmp_path / "bench.json"
    path.write_text(json.dumps(FOUND))
    flags = ["gpu.py", "--rehearse", f"--failed-from={path}", "--only=lstm", "--only=unet"]
    monkeypatch.setattr(sys, "argv", flags)
    monkeypatch.setattr(gpu.live_models, "obstacle", lambda: None)
    assert gpu.arguments().names == ["lstm 128 adam", "unet 16 sgd"]


def test_the_table_names_what_is_behind_failed_or_was_not_run(capsys):
    import gpu_table

    assert gpu_table.cells(FOUND)[0][:3] == ["lstm 128 sgd", "10.0", ""]
    assert "1.50 (50%)" in gpu_table.cells(FOUND)[0]
    gpu_table.show(FOUND)
    printed = capsys.readouterr().out
    assert "behind: lstm 128 sgd: tf amp 1.50, ours 1.40" in printed
    assert "behind: lstm 128 inference" not in printed
    assert "failed: lstm 128 sgd: keras fp16: InternalError: first line\nlast line" in printed
    assert "not run: unet 16 sgd" in printed


def test_a_process_that_died_without_a_word_has_a_line():
    import gpu_table

    assert gpu_table.line("unet 16 sgd", KILLED) == "unet 16 sgd: the process failed: "


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "\nstatus -9"),
        ("import time; time.sleep(60)", "no end after 0.01 minutes"),
    ],
)
def test_a_row_whose_process_dies_or_hangs_is_told_of(tmp_path, monkeypatch, script, said):
    import gpu

    path = tmp_path / "row.py"
    path.write_text(script)
    monkeypatch.setattr(gpu, "__file__", str(path))
    minutes = 0.01 if "sleep" in script else 1.0
    options = argparse.Namespace(
        seconds=1, out=tmp_path, rehearse=True, row_minutes=minutes, rewrites=[]
    )
    found = gpu.in_own_process("lstm 128 sgd", options, float("inf"))
    assert found == {"contenders": {}, "failed": {"the process": said}}


def test_only_the_streams_of_a_gpu_count_as_its_time():
    import gpu_profile
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    for plane, line, picoseconds in [
        ("/device:GPU:0", "Stream #13(Compute)", 5_000),
        ("/device:GPU:0", "Stream #14(MemcpyD2H)", 300),
        ("/device:GPU:0", "TensorFlow Ops", 7_000),
        ("/host:CPU", "Stream #13", 9_000),
    ]:
        made = space.planes.add(name=plane).lines.add(name=line)
        made.events.add(duration_ps=picoseconds)
    assert gpu_profile.picoseconds(space) == 5_300

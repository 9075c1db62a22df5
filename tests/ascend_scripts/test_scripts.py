"""The scripts beside this file run as they are, and learn the same in each mode.

They are written as public scripts for Ascend are: a script imports npu_bridge, hccl or npu_device,
takes --precision_mode, trains a small model, and prints "loss NUMBER" last. A new script needs an
entry here only where it differs from the defaults.
"""

from __future__ import annotations

import math
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support import ROOT
from support.tf_versions import needs_of_script
from support.tiers import mostly_full

SCRIPTS = {
    path.stem: path
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))
    if not path.stem.startswith(("test_", "conftest", "_"))
}
FLOAT32 = "force_fp32"
MIXED = ("allow_mix_precision", "allow_mix_precision_bf16")

# How far from float32's the last loss may be, as a share of float32's. Runs are deterministic but
# for the order of sums, and so are their distances: about 0.01 in float16, 0.05 in bfloat16.
DISTANCE = 0.1
# Of scripts that come out further away, by mode, and why.
DISTANCES: dict[tuple[str, str], float] = {}
# The keys of a parameter_map that a script sets though npu_bridge ignores them, too.
IGNORED = {"unet_session": {"autotune_tune_mode"}}

# What would tell a script that it is one of several.
OF_CLUSTERS = ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE", "DEVICE_ID", "TF_CONFIG")
_LOWERED = re.compile(r"npu_precision: lowered (\d+) of \d+ float nodes")
_UNKNOWN = re.compile(r"unknown parameter '([^']*)'")


@pytest.fixture
def run(tmp_path):
    """run(script, mode) -> (the loss, the number of lowered nodes) of a run in an empty folder."""
    clean = {name: value for name, value in os.environ.items() if name not in OF_CLUSTERS}

    def start(name, mode):
        folder = tmp_path / mode
        folder.mkdir()
        command = [sys.executable, "-B", "-m", "npu_precision", str(SCRIPTS[name])]
        process = subprocess.run(
            [*command, f"--precision_mode={mode}"],
            cwd=str(folder),
            env={**clean, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "0"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert process.returncode == 0, f"{mode}: {process.stderr[-4000:]}"
        assert "internal failure" not in process.stderr
        assert set(_UNKNOWN.findall(process.stderr)) == IGNORED.get(name, set())
        last = re.fullmatch(r"loss (\S+)", process.stdout.splitlines()[-1])
        assert last, f"{mode}: the last line is {process.stdout.splitlines()[-1]!r}"
        return float(last.group(1)), sum(map(int, _LOWERED.findall(process.stderr)))

    return start


def params():
    """Every script, with what it needs."""
    return [
        pytest.param(name, id=name, marks=needs_of_script(path.read_text(encoding="utf-8")))
        for name, path in SCRIPTS.items()
    ]


@pytest.mark.parametrize("name", mostly_full(params(), sorted(SCRIPTS)[::3]))
def test_a_script_trains_in_the_mixed_modes_as_in_float32(run, name):
    expected, lowered = run(name, FLOAT32)
    assert math.isfinite(expected)
    assert lowered == 0
    for mode in MIXED:
        loss, lowered = run(name, mode)
        assert lowered > 0, f"{mode} lowers nothing"
        allowed = DISTANCES.get((name, mode), DISTANCE)
        # Not the very number, or else the mode had no effect.
        assert 0 < abs(loss - expected) <= allowed * abs(expected), (mode, loss, expected)


def test_entries_are_about_scripts_that_there_are():
    named = {name for name, _ in DISTANCES} | set(IGNORED)
    assert named <= set(SCRIPTS)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_is_one_for_ascend(name):
    text = SCRIPTS[name].read_text(encoding="utf-8")
    assert re.search(r"^(from|import) (npu_bridge|npu_device)\b", text, re.M)
    assert "npu_precision" not in text

"""make numerics: small programs have the same results in the mixed modes as in float32."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support import ROOT, python_path
from support.tiers import mostly_full

pytest.importorskip("matplotlib", reason="the benchmarks are for the default environment")

# A fast program of each kind: a result, a training, and a loop in a session. Without the rules, the
# first is NaN in bfloat16, another is NaN in both low types, and another does not end.
CHEAP = [
    "attention, tf.where with float32's min",
    "keras BinaryCrossentropy of a Sigmoid and a Reshape",
    "tf.while_loop: total < 400, v1",
]
ROOMS = sorted(
    path.stem[len("programs_") :] for path in (ROOT / "benchmarks/numerics").glob("programs_*.py")
)


def numerics(*flags):
    command = [sys.executable, "-m", "numerics", *flags]
    path = python_path(ROOT / "benchmarks", ROOT)
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("room", mostly_full(["a few", *ROOMS], ["a few"]))
def test_no_mode_breaks_a_program_that_is_not_known_to_break(room, tmp_path):
    file = tmp_path / "found.json"
    few = room == "a few"
    what = [f"--only={name}" for name in CHEAP] if few else [f"--rooms={room}"]
    done = numerics(*what, "--modes=bf16,fp16", f"--json={file}")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = json.loads(file.read_text())
    assert {entry["float32"]["status"] for entry in found.values()} == {"ok"}
    if few:
        assert sorted(found) == sorted(CHEAP)
        assert all(entry["bf16"]["lowered"] for entry in found.values())


def test_a_program_that_nobody_wrote_is_refused():
    done = numerics("--only=no such program")
    assert done.returncode == 1
    assert "no program has that name; --list prints all" in done.stderr

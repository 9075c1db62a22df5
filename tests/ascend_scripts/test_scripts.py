"""The scripts beside this file run unchanged, and reach the same loss in each mode.

They are written like public scripts for Ascend: a script imports npu_bridge, hccl or npu_device,
takes --precision_mode, trains a small model, and prints "loss NUMBER" last. A new script needs an
entry here only if it differs from the defaults.
"""

from __future__ import annotations

import functools
import math
import os
import pathlib
import re

import pytest
from support import ROOT, warm_python
from support.tf_versions import needs_kernels, needs_of_script
from support.tiers import mostly_full

SCRIPTS = {
    path.stem: path
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))
    if not path.stem.startswith(("test_", "conftest", "_"))
}
FLOAT32 = "force_fp32"
MIXED = ("allow_mix_precision", "allow_mix_precision_bf16")

# How far the last loss may be from float32's: a share of it, and an absolute distance for small
# losses. A run is deterministic except for the order of sums. Most runs are within 0.03.
DISTANCE, OF_SMALL_LOSSES = 0.1, 0.02
# Larger shares for some scripts in some modes, and the reason.
DISTANCES = {
    # The loss is 0.15 on 360 digits: two digits make this difference.
    ("resnet_estimator", "allow_mix_precision"): 0.2,
    ("resnet_estimator", "allow_mix_precision_bf16"): 0.2,
}
# Keys of a parameter_map that a script sets although npu_bridge ignores them, too.
IGNORED = {"unet_session": {"autotune_tune_mode"}}
# Marks that a script needs in a mode for anything to be lowered: these have convolutions only.
NEEDS = {
    (name, "allow_mix_precision_bf16"): [needs_kernels("bfloat16", "Conv2D")]
    for name in ("detector_nms_dropout", "unet_session")
}

# Environment variables that would make a script one of several ranks.
OF_CLUSTERS = ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE", "DEVICE_ID", "TF_CONFIG")
_LOWERED = re.compile(r"npu_precision: .*[:;] lowered (\d+) of \d+ float nodes")
_UNKNOWN = re.compile(r"unknown parameter '([^']*)'")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """run(script, mode) -> (loss, number of lowered nodes) of one run in an empty folder."""
    clean = {name: value for name, value in os.environ.items() if name not in OF_CLUSTERS}

    @functools.lru_cache(maxsize=None)
    def start(name, mode):
        command = ["-m", "npu_precision", SCRIPTS[name], f"--precision_mode={mode}"]
        environment = {**clean, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "0"}
        folder = tmp_path_factory.mktemp(name)
        status, stdout, stderr = warm_python.run(command, folder, environment, timeout=300)
        assert status == 0, stderr[-4000:]
        assert "internal failure" not in stderr
        assert set(_UNKNOWN.findall(stderr)) == IGNORED.get(name, set())
        last = stdout.splitlines()[-1]
        loss = re.fullmatch(r"loss (\S+)", last)
        assert loss, f"the last line is {last!r}"
        return float(loss.group(1)), sum(map(int, _LOWERED.findall(stderr)))

    return start


# One script for each way to start: a session, Keras and an estimator.
SCRIPTS_OF_TEST = ["dump_config_session", "keras_fit_npu_device", "resnet_estimator"]


def cases():
    """Every script in every mixed mode, with the marks that it needs."""
    return [
        pytest.param(
            name,
            mode,
            id=f"{name}-{mode}",
            marks=[
                *needs_of_script(path.read_text(encoding="utf-8")),
                *NEEDS.get((name, mode), []),
            ],
        )
        for name, path in SCRIPTS.items()
        for mode in MIXED
    ]


@pytest.mark.parametrize(
    ("name", "mode"),
    mostly_full(cases(), [f"{name}-{MIXED[0]}" for name in SCRIPTS_OF_TEST]),
)
def test_a_script_trains_in_a_mixed_mode_as_in_float32(run, name, mode):
    expected, lowered = run(name, FLOAT32)
    assert math.isfinite(expected)
    assert lowered == 0
    loss, lowered = run(name, mode)
    assert lowered > 0
    # The loss must not be equal to float32's: then the mode had no effect.
    distance = DISTANCES.get((name, mode), DISTANCE)
    assert 0 < abs(loss - expected) <= distance * abs(expected) + OF_SMALL_LOSSES


def test_entries_are_about_scripts_that_there_are():
    assert {name for name, _ in [*DISTANCES, *NEEDS]} | set(IGNORED) <= set(SCRIPTS)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_is_one_for_ascend(name):
    text = SCRIPTS[name].read_text(encoding="utf-8")
    assert re.search(r"^(from|import) (npu_bridge|npu_device)\b", text, re.MULTILINE)
    assert "npu_precision" not in text

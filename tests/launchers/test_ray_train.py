"""The example for Ray Train: its two workers print and lower the right values, and end."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest
from support import ROOT
from support.many_workers import SCRIPT, documented
from support.workers import living, process_session

LAUNCHER = ROOT / "examples" / "ray_train.py"
# Ray gives up on workers that take a minute to start, as they do on a busy machine.
START_SECONDS = 300
TIMEOUT = 600


@pytest.fixture
def run_ray(tmp_path):
    """Runs a launcher, and checks that all its processes end: -> (status, stdout, stderr)."""
    # Not in tmp_path: the paths of Ray's sockets may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        environment = {
            "HOME": str(tmp_path),
            # npu_precision has noted in this cache that its library fits.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": folder,
            "RAY_DEDUP_LOGS": "0",
            "RAY_COLOR_PREFIX": "0",
            # Ray's workers have a niceness of 15: on a busy machine, they would hardly run.
            "RAY_worker_niceness": "0",
            "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(START_SECONDS),
            "TF_CPP_MIN_LOG_LEVEL": "0",
        }

        def run(launcher):
            command = [sys.executable, "-B", str(launcher)]
            files = [tmp_path / "stdout", tmp_path / "stderr"]
            with files[0].open("w") as out, files[1].open("w") as errors, process_session(
                command, env={**os.environ, **environment}, stdout=out, stderr=errors
            ) as process:
                try:
                    status = process.wait(TIMEOUT)
                except subprocess.TimeoutExpired:
                    pytest.fail(f"it took {TIMEOUT} s:\n{files[1].read_text()[-4000:]}")
                # Ray's own processes end by themselves after the launcher.
                deadline = time.monotonic() + 60
                while living(process.pid) and time.monotonic() < deadline:
                    time.sleep(0.1)
                assert living(process.pid) == []
            return (status, *(file.read_text() for file in files))

        yield run


def by_worker(text, pattern):
    """The matches in the output of Ray's workers, by process."""
    found = collections.defaultdict(list)
    for worker, line in re.findall(r"\(RayTrainWorker pid=(\d+)\)\S* (.*)", text):
        found[worker] += re.findall(pattern, line)
    return {worker: lines for worker, lines in found.items() if lines}


def test_both_workers_train_as_the_script_does_alone(run_ray):
    status, printed, errors = run_ray(LAUNCHER)
    assert status == 0, errors[-4000:]
    losses = by_worker(printed, r"step .*")
    assert list(losses.values()) == [documented().splitlines()] * 2
    # The page shows the same.
    page = (ROOT / "docs" / "distributed.md").read_text()
    (line,) = re.findall(r"^lowered .*, all-reduces of .*$", page, re.M)
    lowered = by_worker(errors, r"lowered .*, all-reduces of .*")
    assert lowered == {worker: [line] for worker in losses}


def test_workers_that_differ_in_options_are_told_and_end(run_ray, tmp_path):
    mode = '"allow_mix_precision_bf16"'
    differ = f"""{mode} if '"index": 0' in os.environ["TF_CONFIG"] else "allow_mix_precision" """
    shutil.copy(LAUNCHER, tmp_path)
    (tmp_path / SCRIPT.name).write_text("import os\n" + SCRIPT.read_text().replace(mode, differ))
    status, printed, errors = run_ray(tmp_path / LAUNCHER.name)
    assert status != 0
    assert not by_worker(printed, r"step .*")
    assert "lower_collectives: the workers differ in precision_mode: " in errors

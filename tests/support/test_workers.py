"""Tests of the helper that runs several workers: its results, and that no process is left."""

from __future__ import annotations

import time

import pytest

from support.workers import run_workers

pytestmark = pytest.mark.slow

REPORT = """
import json, os, sys
config = json.loads(os.environ["TF_CONFIG"])
print(config["task"]["index"], len(set(config["cluster"]["worker"])), *sys.argv[1:])
"""


def test_each_worker_has_its_place_in_one_cluster(tmp_path):
    assert run_workers(tmp_path, REPORT, "a", 1, count=3) == [f"{i} 3 a 1\n" for i in range(3)]


SERVERS = """
import json, os, pathlib, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
name = f"{task['type']}{task['index']}"
print(name, flush=True)
pathlib.Path(sys.argv[1], name).write_text(str(os.getpid()))
while task["type"] != "chief" or len(os.listdir(sys.argv[1])) < 4:
    time.sleep(0.01)
"""


def test_servers_are_ended_when_the_chief_has_ended(tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    printed = run_workers(tmp_path, SERVERS, pids, jobs={"chief": 1, "worker": 2, "ps": 1})
    assert printed == ["chief0\n", "worker0\n", "worker1\n", "ps0\n"]
    assert not any(is_running(int(file.read_text())) for file in pids.iterdir())


KILLED = """
import json, os, signal, sys
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
if index == 1 and sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
print("ran", flush=True)
sys.exit("it hurts")
"""


def test_the_others_run_on_where_a_worker_is_to_be_killed(tmp_path):
    assert run_workers(tmp_path, KILLED, "die", killed=1) == ["ran\n", ""]
    with pytest.raises(AssertionError, match="worker 1 was to be killed, and ended with 1"):
        run_workers(tmp_path, KILLED, "live", killed=1)


# The first worker fails or waits; the others wait, each with a child in a group of its own.
WAITING = """
import json, os, pathlib, subprocess, sys, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
child = subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp)
pathlib.Path(sys.argv[1], str(index)).write_text(f"{os.getpid()} {child.pid}")
while len(os.listdir(sys.argv[1])) < 2:
    time.sleep(0.01)
if index == 0 and sys.argv[2] == "fail":
    sys.exit("it hurts")
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("what", "timeout", "message"),
    [
        ("fail", 60, "worker 0 ended with status 1\nworker 0:\nit hurts\n"),
        ("wait", 2, r"workers \[0, 1\] took 2 s"),
    ],
)
def test_nothing_runs_on_after_a_failure_or_when_the_time_is_over(tmp_path, what, timeout, message):
    pids = tmp_path / "pids"
    pids.mkdir()
    with pytest.raises(AssertionError, match=message):
        run_workers(tmp_path, WAITING, pids, what, timeout=timeout)
    left = {int(pid) for file in pids.iterdir() for pid in file.read_text().split()}
    assert len(left) == 4
    deadline = time.monotonic() + 10
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if is_running(pid)}
    assert not left


def is_running(pid):
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ports_that_are_taken_are_chosen_anew(tmp_path):
    script = """
import os, pathlib, sys
if not os.path.exists(sys.argv[1]):
    pathlib.Path(sys.argv[1]).touch()
    sys.exit("E0000 Address already in use")
print("ran")
"""
    assert run_workers(tmp_path, script, tmp_path / "tried", count=1) == ["ran\n"]

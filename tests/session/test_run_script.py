"""`python -m npu_precision SCRIPT ARGUMENTS` runs an unchanged script of npu_bridge."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import ROOT, python_path

SCRIPT = """
import sys

from npu_bridge.npu_init import *
from hccl.manage.api import get_rank_size

import beside

if __name__ == "__main__":
    print(sys.argv, get_rank_size(), beside.NAME, NPUEstimator.__module__)
    sys.exit(3)
"""


@pytest.fixture
def run(tmp_path):
    def start(*arguments):
        command = [sys.executable, "-m", "npu_precision", *arguments]
        variables = {**os.environ, "PYTHONPATH": python_path(ROOT)}
        return subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120
        )

    return start


@pytest.mark.slow
def test_the_script_has_its_names_arguments_folder_and_status(run, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("NAME = 'beside'\n")
    done = run("project/train.py", "--steps", "3")
    assert done.returncode == 3, done.stderr
    expected = "['project/train.py', '--steps', '3'] 1 beside npu_precision.npu_bridge.estimator"
    assert done.stdout.splitlines() == [expected]

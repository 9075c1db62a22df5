"""What kernels share between threads, under ThreadSanitizer.

TensorFlow's own library is not instrumented, so what its mutexes and reference counts order would
be reported too. This is about code that needs neither: sweeps over the parts of an array, and the
store of a flight recorder.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from support import ROOT
from support.compiled import compile_program

KERNELS = [
    *("flight_store.cc", "kept_casts.cc", "tensor_counts.cc"),
    *("low_blocks.cc", "sum_blocks.cc", "update_blocks.cc", "update_plan.cc"),
]
THREAD = ["-fsanitize=thread", "-g1"]


def run(program):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run([str(program)], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def sanitized():
    if "-fsanitize" in os.environ.get("NPU_PRECISION_CXXFLAGS", ""):
        pytest.skip("the other objects have another sanitizer")

    def build(source, folder):
        return compile_program(source, folder, KERNELS, THREAD)

    return build


@pytest.mark.slow  # It starts the compiler.
def test_many_threads_compute_what_one_does(tmp_path):
    process = run(compile_program("threads_driver.cc", tmp_path, KERNELS))
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


@pytest.mark.full
def test_threads_race_nowhere(sanitized, tmp_path):
    process = run(sanitized("threads_driver.cc", tmp_path))
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


@pytest.mark.full
def test_a_race_is_reported(sanitized, tmp_path):
    """Two threads that write one element, where the parts of the driver overlap by one."""
    driver = (ROOT / "tests/cc/threads_driver.cc").read_text()
    wrong = driver.replace("Bound(k), Bound(k + 1)); });", "Bound(k), Bound(k + 1) + (k < 3)); });")
    assert wrong != driver
    source = tmp_path / "racing_driver.cc"
    source.write_text(wrong)
    process = run(sanitized(source, tmp_path))
    assert re.search("WARNING: ThreadSanitizer: data race .*\n(.*\n)*.*RunUpdate", process.stderr)

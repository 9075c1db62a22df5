"""--tier=gpu: refused without a GPU, rehearsed on a CPU."""

from __future__ import annotations

import pytest
import tensorflow as tf

from npu_precision import _tf_compat
from support import gpu, tiers
from support.tf_versions import needs_functions_by_default

TESTS = """
import pytest
from support import gpu
from npu_precision import _tf_compat

@pytest.mark.parametrize("number", range(4))
def test_sees_a_gpu(number): assert _tf_compat.has_gpu()

@pytest.mark.cpu("oneDNN")
def test_of_cpus(): assert not gpu.is_beside_a_gpu()
"""
GOLDEN = """
from support import gpu
from support.devices import decided_for
from npu_precision import _tf_compat

def test_is_decided_for_a_cpu():
    assert gpu.is_beside_a_gpu() and not _tf_compat.has_gpu()
    with decided_for(gpu.device_names()):
        assert _tf_compat.has_gpu()
"""
TF32 = """
import tensorflow as tf

def test_products_are_exact():
    assert not tf.config.experimental.tensor_float_32_execution_enabled()
"""
SLOW = "import pytest\n@pytest.mark.slow\ndef test_x(): pass\n"


@pytest.fixture
def run(pytester, monkeypatch):
    """run(*flags, path=text of a test file, ...) -> pytest's result with the plugins."""
    monkeypatch.setattr(tiers, "_chosen", dict(tiers._chosen))
    monkeypatch.setattr(gpu, "_beside_a_gpu", dict(gpu._beside_a_gpu))
    pytester.makeini("[pytest]\nmarkers =\n  slow\n  full\n  cpu\n")
    plugins = [f"-psupport.{name}" for name in ("gpu", "results", "tiers")]

    def start(*flags, **files):
        for path, text in files.items():
            file = pytester.path / "tests" / (path.replace("__", "/") + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return pytester.runpytest_inprocess(*plugins, "-p", "no:xdist", *flags)

    return start


pytestmark = pytest.mark.cpu("without a GPU it is an error")


def test_without_a_gpu_it_is_an_error_of_one_line(run):
    result = run("--tier=gpu", passes__test_x=TESTS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    assert line.startswith("ERROR: --tier=gpu: TensorFlow ")
    assert line.endswith(" sees no GPU here; --rehearse runs some of its tests on the CPU")


def test_only_that_tier_is_rehearsed(run):
    result = run("--rehearse", passes__test_x=TESTS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --rehearse: got --tier=test, expected gpu"])


def test_a_rehearsal_decides_for_a_gpu_and_skips_what_is_of_cpus(run, pytester):
    result = run("--tier=gpu", "--rehearse=1", session__test_x=TESTS)
    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["devices: *GPU:0", "results: *tests.xml"])
    assert "about CPUs: oneDNN" in (pytester.path / "build/gpu/tests.xml").read_text()


@needs_functions_by_default
def test_beside_a_gpu_float32_is_no_tf32(run, monkeypatch):
    experimental = tf.config.experimental
    before = experimental.tensor_float_32_execution_enabled()
    monkeypatch.setattr(_tf_compat, "has_gpu", lambda: True)
    try:
        experimental.enable_tensor_float_32_execution(True)
        run("--tier=gpu", session__test_x=TF32).assert_outcomes(passed=1)
    finally:
        experimental.enable_tensor_float_32_execution(before)


def test_a_rehearsal_runs_one_in_so_many(run):
    run("--tier=gpu", "--rehearse=2", session__test_x=TESTS).assert_outcomes(
        passed=2, skipped=1, deselected=2
    )


def test_golden_graphs_are_decided_for_a_cpu_and_for_the_gpu_when_asked(run):
    run("--tier=gpu", "--rehearse=1", passes__test_x=GOLDEN).assert_outcomes(passed=1)


def test_slow_rooms_that_compute_on_a_gpu_take_part(run):
    files = {"guard__test_x": SLOW, "session__test_y": SLOW, "models__test_z": "raise Exception"}
    run("--tier=gpu", "--rehearse=1", **files).assert_outcomes(passed=1, deselected=1)


def test_other_tiers_are_as_without_it(run):
    text = TESTS.replace("assert _tf_compat", "assert not _tf_compat")
    run(session__test_x=text).assert_outcomes(passed=5)

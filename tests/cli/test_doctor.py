"""npu-precision doctor: its findings for installations that work and that do not."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from support import ROOT, python_path

from npu_precision import _library_file
from npu_precision.doctor import facts, findings, mode_costs

KEYS = """
    schema works npu_precision python packages tensorflow library libraries report_page cpu
    nvidia_driver gpus onednn costs errors findings
""".split()


def cost(mode, network, ratio, lowered=4):
    return {
        "mode": mode,
        "network": network,
        "lowered": lowered,
        "seconds": ratio / 100,
        "float32_seconds": 1 / 100,
        "ratio": ratio,
    }


# The facts of an installation without faults.
HEALTHY = {
    "npu_precision": {"version": "0.1.0", "folder": "/npu_precision"},
    "python": {"version": "3.11.7", "executable": "/bin/python", "platform": "Linux"},
    "packages": {"numpy": "1.26.4", "protobuf": "4.25.9"},
    "tensorflow": {
        "version": "2.15.1",
        "folder": "/tensorflow",
        "git_version": "v2.15.1",
        "compiler": "clang",
        "build": {"is_cuda_build": True},
    },
    "library": {"path": "/lib/a.so", "minor": "2.15", "given": False, "proved": True},
    "libraries": ["1.15", "2.15"],
    "report_page": {"file": "/lib/report_page.html", "error": None},
    "cpu": {
        "model": "CPU",
        "count": 2,
        "features": dict.fromkeys(facts.CPU_FEATURES, True),
    },
    "nvidia_driver": False,
    "gpus": [],
    "onednn": {
        "included": True,
        "on": True,
        "variable": None,
        "version": "3.2.1",
        "instructions": "Intel AVX-512",
    },
    "costs": [
        cost(mode, network, 0.5) for network in mode_costs.NETWORKS for mode in mode_costs.MODES
    ],
    "errors": [],
}


def with_changes(**changes):
    """HEALTHY with other values; onednn__on=False changes one inside of onednn."""
    result = copy.deepcopy(HEALTHY)
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        if inner:
            result[outer][inner] = value
        else:
            result[outer] = value
    return result


def failed(step, error, missing=None):
    """The facts if a step failed and the later steps did not run."""
    later = {"tensorflow": None, "library": None, "onednn": None, "gpus": None}
    if step not in ("packages", "tensorflow"):
        later = {} if step == "costs" else {"library": None}
    errors = [{"step": step, "error": error, "missing": missing}]
    return with_changes(**later, costs=None, report_page=None, errors=errors)


@pytest.fixture
def doctor(command, monkeypatch):
    """doctor(facts, ...) -> its output for these facts."""

    def run(known, *arguments, status=0):
        monkeypatch.setattr(facts, "collect", lambda measure, debug: known)
        return command("doctor", *arguments, status=status)

    return run


@pytest.fixture
def process(tmp_path):
    """process(..., fake={"tensorflow": text}) -> the finished process; modules are replaced."""

    def run(*arguments, fake=(), **environment):
        for name, text in dict(fake).items():
            (tmp_path / f"{name}.py").write_text(text)
        path = python_path(tmp_path, ROOT)
        return subprocess.run(
            [sys.executable, "-B", "-m", "npu_precision_command", "doctor", *arguments],
            cwd=str(tmp_path),
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def test_a_healthy_installation_has_no_findings(doctor):
    printed = doctor(HEALTHY)
    assert printed.endswith("\nnothing is wrong\n")
    assert "oneDNN         on, 3.2.1, Intel AVX-512\n" in printed
    assert "library        for TensorFlow 2.15, proved, /lib/a.so\n" in printed


@pytest.mark.parametrize(
    ("known", "severity", "what", "fix"),
    [
        pytest.param(
            failed("tensorflow", "ModuleNotFoundError: No module", "tensorflow"),
            "error",
            "TensorFlow is not installed for /bin/python",
            "pip install 'tensorflow==2.15.*'",
            id="no_tensorflow",
        ),
        pytest.param(
            failed("tensorflow", "ImportError: numpy.core.multiarray failed to import"),
            "error",
            "TensorFlow does not import: ImportError: numpy.core",
            "`pip check`",
            id="a_broken_numpy",
        ),
        pytest.param(
            failed("tensorflow", "TypeError: Descriptors cannot be created directly."),
            "error",
            "TensorFlow does not import: TypeError: Descriptors",
            "`pip install 'protobuf<3.21'` (protobuf 4.25.9 is installed)",
            id="protobuf_too_new",
        ),
        pytest.param(
            failed("tensorflow", "TypeError: Descriptors cannot not be created directly."),
            "error",
            "TensorFlow does not import: TypeError: Descriptors",
            "`pip install 'protobuf<3.21'` (protobuf 4.25.9 is installed)",
            id="protobuf_too_new_in_other_words",
        ),
        pytest.param(
            with_changes(tensorflow__version="1.15.5", library__minor="1.15"),
            "warning",
            "TensorFlow 1.15.5 needs protobuf<3.21, and 4.25.9 is installed",
            "`pip install 'protobuf<3.21'`",
            id="protobuf_too_new_and_slow",
        ),
        pytest.param(
            failed("tensorflow", "the process that tried it crashed (SIGILL)"),
            "error",
            "TensorFlow does not import: the process that tried it crashed (SIGILL)",
            "this CPU lacks instructions",
            id="no_avx",
        ),
        pytest.param(
            failed("costs", "the process that tried it crashed (SIGSEGV)"),
            "error",
            "a small network does not run in all modes",
            "--debug",
            id="a_mode_that_crashes",
        ),
        pytest.param(
            with_changes(onednn__on=False, onednn__variable="0"),
            "warning",
            "is switched off (TF_ENABLE_ONEDNN_OPTS=0)",
            "`export TF_ENABLE_ONEDNN_OPTS=1`",
            id="onednn_off",
        ),
        pytest.param(
            with_changes(onednn__on=False, onednn__included=False),
            "note",
            "this TensorFlow comes without oneDNN",
            "TensorFlow 2.9 or newer",
            id="no_onednn",
        ),
        pytest.param(
            with_changes(report_page__error="the page was not built"),
            "warning",
            "`npu-precision report` will not work: the page was not built",
            "`make build`",
            id="no_report_page",
        ),
        pytest.param(
            with_changes(library__minor="2.14"),
            "warning",
            "the library is for TensorFlow 2.14, and tried with 2.15",
            _library_file.REMEDY,
            id="an_untested_library",
        ),
        pytest.param(
            with_changes(library__proved=False, library__given=True),
            "note",
            "not proved in a process of its own, as NPU_PRECISION_LIBRARY names it",
            "npu_precision.offline.self_rewrite",
            id="a_library_that_is_not_proved",
        ),
        pytest.param(
            with_changes(nvidia_driver=True),
            "warning",
            "TensorFlow sees no GPU",
            "`pip install 'tensorflow[and-cuda]==2.15.1'`",
            id="a_hidden_gpu",
        ),
        pytest.param(
            with_changes(
                cpu__features=dict.fromkeys(facts.CPU_FEATURES, False),
                costs=[cost("allow_mix_precision_bf16", "convolutions", 1.84)],
            ),
            "note",
            "allow_mix_precision_bf16 takes 1.8 times (convolutions) as long as float32: this CPU "
            "has neither avx512_bf16 nor amx_bf16",
            "for speed use float32",
            id="a_slow_mode",
        ),
        pytest.param(
            with_changes(
                costs=[
                    cost("allow_mix_precision", "convolutions", 1.3),
                    cost("allow_mix_precision_bf16", "matrix products", 0.95),
                    cost("allow_mix_precision_bf16", "convolutions", 0.6),
                ],
            ),
            "note",
            "allow_mix_precision takes 1.3 times (convolutions) as long as float32",
            "for speed use `allow_mix_precision_bf16`, or float32",
            id="a_slow_mode_and_a_fast_one",
        ),
        pytest.param(
            with_changes(costs=[cost("allow_mix_precision_bf16", "convolutions", 1.0, lowered=0)]),
            "note",
            "lowers no convolutions here: there are no bfloat16 kernels",
            "a newer TensorFlow",
            id="a_mode_without_kernels",
        ),
        pytest.param(
            with_changes(cpu__features=dict.fromkeys(facts.CPU_FEATURES, False), costs=None),
            "note",
            "modes that lower to bfloat16 may be slower than float32: this CPU has neither",
            "--no-measure",
            id="no_bfloat16_instructions",
        ),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(doctor, known, severity, what, fix):
    (found,) = findings.findings(known)
    assert found.severity == severity
    assert what in found.what
    assert fix in found.fix
    printed = doctor(known, status=int(severity == "error"))
    assert f"{severity}: {found.what}\n  to do: {found.fix}\n" in printed


@pytest.mark.parametrize(
    ("version", "libraries", "what"),
    [
        ("2.15.1", [], "npu_precision has no library for TensorFlow 2.15.1, nor for any other, in"),
        ("2.99.0", ["2.15"], "TensorFlow 2.99.0 is newer than those that npu_precision has"),
        ("2.14.0", ["2.15"], "npu_precision has no library for TensorFlow 2.14.0, the one that"),
    ],
)
def test_a_library_that_is_missing_is_told_in_the_words_of_the_import(
    tmp_path, version, libraries, what
):
    for minor in libraries:
        (tmp_path / f"{_library_file.PREFIX}{minor}{_library_file.SUFFIX}").touch()
    with pytest.raises(ImportError) as raised:
        _library_file.find(version, tmp_path)
    (found,) = findings.findings(failed("library", f"ImportError: {raised.value}"))
    assert found.what.startswith(what)
    assert found.what[-1].isalnum() or found.what[-1] == ")"
    assert not found.what.endswith(" or")
    assert found.fix == _library_file.REMEDY


def test_the_worst_comes_first():
    known = with_changes(onednn__on=False, library__proved=False)
    known["errors"] = [{"step": "costs", "error": "?", "missing": None}]
    severities = [found.severity for found in findings.findings(known)]
    assert severities == ["error", "warning", "note"]


def test_a_gpu_is_told_and_the_cpu_no_longer_matters(doctor):
    gpu = {"device": "/physical_device:GPU:0", "name": "H100", "compute_capability": "9.0"}
    known = with_changes(
        gpus=[gpu], costs=None, cpu__features=dict.fromkeys(facts.CPU_FEATURES, False)
    )
    printed = doctor(known)
    assert "/physical_device:GPU:0, H100, compute capability 9.0\n" in printed
    assert printed.endswith("\nnothing is wrong\n")


@pytest.mark.parametrize(("known", "status"), [(HEALTHY, 0), (failed("costs", "?"), 1)])
def test_json_has_the_same_for_bug_reports(doctor, known, status):
    data = json.loads(doctor(known, "--json", status=status))
    assert list(data) == KEYS
    assert data["schema"] == "npu_precision.doctor/1"
    assert data["works"] is (status == 0)
    assert {name: data[name] for name in known} == known
    assert len(data["findings"]) == status


def test_the_features_of_the_cpu_are_those_of_the_system(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: CPU 9\nflags\t\t: fpu avx512_bf16\nflags\t\t: fpu amx_fp16\n")
    known = facts.cpu(info)
    assert known["model"] == "CPU 9"
    assert [name for name, has in known["features"].items() if has] == ["avx512_bf16"]


@pytest.mark.parametrize("text", [None, "Processor : ARM\n"], ids=["no_file", "no_flags"])
def test_a_system_that_tells_no_features_is_no_error(tmp_path, doctor, text):
    info = tmp_path / "cpuinfo"
    if text is not None:
        info.write_text(text)
    known = facts.cpu(info)
    assert known["features"] is None
    assert "CPU " in doctor(with_changes(cpu=known))


def test_modes_are_timed_through_the_optimizer():
    costs = mode_costs.measure(seconds=0)
    pairs = {(each["mode"], each["network"]) for each in costs}
    assert pairs == {(mode, name) for mode in mode_costs.MODES for name in mode_costs.NETWORKS}
    for each in costs:
        assert each["ratio"] == each["seconds"] / each["float32_seconds"] > 0
    assert {each["lowered"] for each in costs if each["mode"] == "allow_mix_precision"} == {4}


def test_without_tensorflow_it_says_so_kindly(process):
    hidden = "raise ModuleNotFoundError('no tensorflow', name='tensorflow')\n"
    done = process(fake={"tensorflow": hidden})
    assert (done.returncode, done.stderr) == (1, "")
    assert f"error: TensorFlow is not installed for {sys.executable}\n  to do: " in done.stdout
    assert "none that can be imported" in done.stdout


def test_a_tensorflow_that_crashes_does_not_crash_the_doctor(process):
    crash = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n"
    done = process("--json", fake={"tensorflow": crash})
    assert (done.returncode, done.stderr) == (1, "")
    data = json.loads(done.stdout)
    assert list(data) == KEYS
    assert data["errors"] == [
        {
            "step": "tensorflow",
            "error": "the process that tried it crashed (SIGILL)",
            "missing": None,
        }
    ]


def test_a_numpy_that_does_not_fit_is_named_with_its_version(process):
    numpy = "__version__ = '2.1.0'\n"
    tensorflow = "raise ImportError('numpy.core.multiarray failed to import')\n"
    done = process(fake={"numpy": numpy, "tensorflow": tensorflow})
    assert done.returncode == 1
    assert "  to do: `pip install 'numpy<2'` (numpy 2.1.0 is installed)\n" in done.stdout


@pytest.mark.parametrize("name", sorted(mode_costs.NETWORKS))
def test_on_a_gpu_the_networks_are_large_enough_to_fill_it(name):
    build, op_type = mode_costs.NETWORKS[name]
    flops = {}
    for on_gpu in (False, True):
        with tf.Graph().as_default() as graph:
            build(on_gpu)
            weights = next(op for op in graph.get_operations() if op.type == op_type)
            places = weights.outputs[0].shape.num_elements()
            terms = weights.inputs[1].shape.num_elements() // weights.inputs[1].shape[-1]
            flops[on_gpu] = 2 * places * int(terms)
    # At 100 TFLOP/s, 10 microseconds and a millisecond.
    assert flops[False] < 1e9
    assert flops[True] > 1e11


def test_without_the_library_it_shows_the_rest(process):
    done = process("--json", NPU_PRECISION_LIBRARY="none.so")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["tensorflow"]["version"]
    assert data["library"] is None
    (found,) = data["findings"][:1]
    assert found["severity"] == "error"
    assert found["what"] == "NPU_PRECISION_LIBRARY names 'none.so', which is not a file"
    assert found["fix"] == _library_file.REMEDY


def test_an_examination_that_is_not_measured_has_no_costs(process):
    done = process("--json", "--no-measure", TF_ENABLE_ONEDNN_OPTS="0")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data["costs"] is None
    assert pathlib.Path(data["library"]["path"]).is_file()
    assert data["onednn"]["on"] is False
    assert data["onednn"]["variable"] == "0"
    switched_off = [each for each in data["findings"] if "switched off" in each["what"]]
    assert bool(switched_off) == data["onednn"]["included"]


@pytest.mark.slow
def test_a_real_examination_ends_well(process):
    done = process()
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nTime per step, as a multiple of float32\n" in done.stdout
    assert "\nallow_mix_precision_bf16 " in done.stdout
    assert "error:" not in done.stdout

"""npu-precision as a process: help, versions, and errors of one line."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import click
import numpy as np
import pytest
from support import ROOT

import npu_precision
import npu_precision_command
from npu_precision.cli import flags, main
from npu_precision.options import FIELD_NAMES


@pytest.fixture
def run(tmp_path):
    def start(*arguments, **environment):
        clean = {name: value for name, value in os.environ.items() if name[:6] != "TF_CPP"}
        return subprocess.run(
            [sys.executable, "-B", "-m", "npu_precision_command", *map(str, arguments)],
            cwd=str(tmp_path),
            env={**clean, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return start


def test_nothing_but_the_result_is_printed(run, model_files):
    process = run("explain", model_files.frozen, "--mode", "allow_mix_precision_bf16")
    assert (process.returncode, process.stderr) == (0, "")
    assert "lowered 3 of 6 float nodes" in process.stdout


def test_an_error_is_one_line_and_status_2(run):
    process = run("explain", "model.pb", "--mode", "force_fp16")
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("npu-precision: no file 'model.pb'; expected a GraphDef")
    assert process.stderr.count("\n") == 1


def test_debug_shows_where_it_happened(run):
    process = run("explain", "model.pb", "--mode", "force_fp16", "--debug")
    assert process.returncode == 2
    assert "Traceback" in process.stderr
    assert "FileNotFoundError: no file 'model.pb'" in process.stderr


def test_the_version_is_the_package_s(run):
    assert run("--version").stdout == f"npu-precision, version {npu_precision.__version__}\n"


# Runs the command, and writes the modules that it imported as the last line of stderr.
NAME_MODULES = """\
import sys
import npu_precision_command
try:
    npu_precision_command.main()
finally:
    print("", *sys.modules, file=sys.stderr)
"""


def imported_by(*arguments):
    process = subprocess.run(
        [sys.executable, "-c", NAME_MODULES, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return set(process.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["--help"], ["-h"], ["--version"], [], ["explian"], ["--unknown"]], ids=" ".join
)
def test_what_needs_no_subcommand_does_not_import_tensorflow(arguments):
    imported = imported_by(*arguments)
    assert "click" in imported
    assert imported & {"tensorflow", "numpy", "rich", "npu_precision"} == set()


def test_a_subcommand_imports_tensorflow_and_no_other_subcommand():
    imported = imported_by("lint", "--help")
    assert "tensorflow" in imported
    subcommands = {f"npu_precision.cli.{name}" for name in npu_precision_command.SUBCOMMANDS}
    assert imported & subcommands == {"npu_precision.cli.lint"}


@pytest.mark.parametrize("name", npu_precision_command.WITHOUT_TENSORFLOW)
def test_a_subcommand_that_works_without_tensorflow_imports_none_of_it(name):
    imported = imported_by(name, "--help")
    assert f"npu_precision.cli.{name}" in imported
    assert imported & {"tensorflow", "numpy", "npu_precision", "npu_precision._library"} == set()


def test_the_list_of_subcommands_names_those_that_there_are():
    modules = [path.stem for path in (ROOT / "npu_precision" / "cli").glob("[!_]*.py")]
    found = [
        getattr(importlib.import_module(f"npu_precision.cli.{name}"), name, None)
        for name in modules
    ]
    commands = {value.name: value for value in found if isinstance(value, click.Command)}
    assert set(commands) == set(npu_precision_command.SUBCOMMANDS)
    assert all(npu_precision_command.subcommand(name) is value for name, value in commands.items())


def test_a_library_that_is_not_there_is_told_in_one_line(run):
    process = run("lint", "--help", NPU_PRECISION_LIBRARY="none.so")
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("npu-precision: NPU_PRECISION_LIBRARY names 'none.so', which")
    assert process.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error(run, model_files):
    command = f"{sys.executable} -m npu_precision_command explain {model_files.lstm} --mode fp16"
    process = subprocess.run(
        ["bash", "-c", f"{command} --json | head -1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.stdout == "{\n"
    assert "npu-precision" not in process.stderr
    assert "Broken" not in process.stderr


def test_every_option_has_a_flag():
    about_a_run = set(flags.WITHOUT_FLAG)
    assert {*flags.FLAGS, "precision_mode", "precision_mode_v2", *about_a_run} == {*FIELD_NAMES}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explian"], "No such command 'explian'"),
        (["explain"], "Missing argument 'MODEL'. See npu-precision explain --help."),
        (["explain", "FROZEN"], "--mode is missing, expected one of force_fp32, "),
        (["explain", "FROZEN", "--mode", "mixed"], "--mode: got 'mixed', expected one of"),
        (["explain", "FROZEN", "--mode", "fp16", "--target", "gpu"], "target: got 'gpu'"),
        (["explain", "FROZEN", "--mode", "fp16", "--mixlist", "no.json"], "'no.json'"),
        (["explain", "FROZEN", "--mode", "fp16", "--fetch", "ouf"], "did you mean 'out'?"),
        (["explain", "FROZEN", "--mode", "fp16", "--fetch", "out:1"], "has 1 output(s)"),
        (["explain", "FROZEN", "--mode", "fp16", "--op-library", "a.so"], "'a.so' does not load"),
        (["explain", "FROZEN", "--options", "no.json"], "no.json: No such file or directory"),
        (["explain", "FROZEN", "--options", "TEXT"], "TEXT: Expecting value: line 1 column 1"),
        (["explain", "FROZEN", "--options", "LIST"], "expected a JSON object of options"),
        (["explain", "FROZEN", "--options", "TYPO"], "did you mean 'precision_mode'?"),
        (["explain", "FROZEN", "--mode", "bf16"], "did you mean 'allow_mix_precision_bf16'?"),
        (["explain", "FROZEN", "--mode", "mixed_bfloat"], "did you mean 'mixed_bfloat16'?"),
        (["explain", "FROZEN", "--mode", "fp16", "--diff", "no.json"], "no.json: No such file"),
        (
            ["explain", "FROZEN", "--mode", "fp16", "--node", "x", "--diff", "LIST"],
            "one of the two",
        ),
        (["explain", "FOLDER", "--mode", "fp16"], "is no model; expected a GraphDef"),
    ],
)
def test_a_mistake_is_told_in_one_line(arguments, message, command, model_files, tmp_path):
    files = {"TEXT": "mode: fp16", "LIST": "[]", "TYPO": '{"precison_mode": "fp16"}'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    places = {
        "FROZEN": model_files.frozen,
        "FOLDER": str(tmp_path),
        **{name: str(tmp_path / name) for name in files},
    }
    text = command(*(places.get(argument, argument) for argument in arguments), status=2)
    assert message.replace("TEXT", places["TEXT"]) in text
    assert text.startswith("npu-precision: ")
    assert text.count("\n") == 1


def test_flags_come_on_top_of_the_file_of_options(command, model_files, tmp_path):
    options = tmp_path / "options.json"
    options.write_text('{"precision_mode": "force_fp16", "target": "ascend910"}')
    text = command("explain", model_files.frozen, "--options", options)
    assert "precision_mode force_fp16, target ascend910" in text
    text = command("explain", model_files.frozen, "--options", options, "--mode", "mixed_float16")
    assert "precision_mode_v2 mixed_float16, target ascend910" in text


def test_an_error_of_our_own_says_so(command, model_files, monkeypatch):
    def fails(*arguments):
        raise KeyError("surprise")

    monkeypatch.setattr("npu_precision.explain.explanation.explain", fails)
    text = command("explain", model_files.frozen, "--mode", "fp16", status=2)
    assert text == (
        "npu-precision: internal error: KeyError: 'surprise'. It is not your fault; --debug shows "
        "where it happened\n"
    )


def test_an_interrupted_command_says_so(command, model_files, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("npu_precision.explain.explanation.explain", interrupted)
    assert main.main(["explain", model_files.frozen, "--mode", "fp16"]) == main.INTERRUPTED
    assert capsys.readouterr().err.strip().startswith("npu-precision: interrupted")


def test_without_arguments_it_shows_its_help(run):
    process = run()
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == run("--help").stdout
    assert "\n  explain " in process.stdout


def test_a_closed_stdout_is_no_error(run, model_files):
    command = [sys.executable, "-m", "npu_precision_command", "explain", model_files.frozen]
    process = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *command, "--mode", "fp16"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert (process.returncode, process.stderr) == (0, "")


# TensorFlow turns an exception in a function that it calls into an UnknownError.
@pytest.mark.parametrize("calls", ["terminate()", "tf.numpy_function(terminate, [], [])"])
def test_a_command_that_is_ended_leaves_nothing_behind(calls, model_files, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import os, signal\n"
        "import tensorflow as tf\n"
        "def terminate():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "def batches():\n"
        f"    {calls}\n"
        "    yield {'x': [[0.0] * 8] * 4}\n"
    )
    arguments = ["compare", model_files.frozen, "--mode", "fp16", "--inputs-from", "slow:batches"]
    process = subprocess.run(
        [sys.executable, "-B", "-m", "npu_precision_command", *arguments, "--csv", "tensors.csv"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert process.returncode == 143
    assert "npu-precision:" not in process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["slow.py"]


def test_every_command_counts_the_same_float_nodes_and_says_of_which_graph(
    command, model_files, arrays, tmp_path
):
    """Only nodes that compute are counted: not the placeholder and the constant."""
    said = "2 of 2 matrix and convolution ops in bfloat16; lowered 3 of 6 float nodes, "
    counted, frozen = (
        f"\nthe model as it is: {said}",
        f"the frozen graph, functions inlined, variables as constants: {said}",
    )
    asked = (model_files.frozen, "--mode", "allow_mix_precision_bf16")
    inputs = ("--inputs", arrays(x=np.ones([4, 8], np.float32)))
    assert counted in command("explain", *asked)
    assert counted in command("report", *asked, "--tensorboard", tmp_path / "logs")
    assert counted in command("convert", *asked, "-o", tmp_path / "low.pb")
    tuned = command("tune", *asked, *inputs, "--max-error", "1", "-o", tmp_path / "m.json")
    assert frozen in tuned

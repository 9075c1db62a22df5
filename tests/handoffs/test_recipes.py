"""docs/hand-offs.md: its blocks, run in the order of the page, print the output that it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from support import ROOT
from support.strict_zip import strict_zip
from support.tf_versions import needs_outputs_of_the_docs
from support.tiers import mostly_full

pytestmark = needs_outputs_of_the_docs
# A block: its section, the file name above it, its language, its text, and its output.
BLOCK = re.compile(
    r"^## ([^\n]*)$|(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?",
    re.M | re.S,
)
# An error; on another processor, only its order of magnitude is the same.
ERROR = re.compile(r"\d\.\de[+-]\d\d")


def blocks(sections):
    """The blocks above all sections, and the blocks of the given sections."""
    found, section = [], ""
    for heading, file, kind, text, printed in BLOCK.findall(
        (ROOT / "docs" / "hand-offs.md").read_text()
    ):
        section = heading or section
        if not heading and (not section or section in sections):
            found.append((file, kind, text, printed))
    return found


def python(folder, *arguments):
    """Runs Python in a folder; returns its output."""
    process = subprocess.run(
        [sys.executable, "-B", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return process.stdout


def assert_same_but_errors(printed, said):
    assert ERROR.sub("#", printed) == ERROR.sub("#", said)
    for now, then in strict_zip(ERROR.findall(printed), ERROR.findall(said)):
        assert float(now) <= 10 * float(then)


def run(sections, folder):
    """Runs the blocks of some sections and compares their output; returns how many it ran."""
    ran = 0
    for file, kind, text, said in blocks(sections):
        if file:
            (folder / file).write_text(text)
        elif kind == "python":
            assert_same_but_errors(python(folder, "-c", text), said)
            ran += 1
        elif kind == "console":
            command, shown = text.split("\n", 1)
            program, *arguments = shlex.split(command[len("$ ") :])
            assert program == "npu-precision"
            assert python(folder, "-m", "npu_precision_command", *arguments) == shown
            ran += 1
    return ran


@pytest.mark.parametrize(
    "section", mostly_full(["TensorFlow Lite", "TensorFlow Serving"], ["TensorFlow Serving"])
)
def test_a_recipe_of_tensorflow_prints_what_the_page_says(section, tmp_path):
    assert run([section], tmp_path) == 3


def test_the_recipe_of_onnx_runtime_prints_what_the_page_says(tmp_path, handoffs):
    assert run(["ONNX Runtime"], tmp_path) == 4


def test_the_recipes_that_take_a_list_print_what_the_page_says(tmp_path, handoffs):
    import openvino

    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("OpenVINO computes in bfloat16 only on a CPU with instructions for it")
    assert run(["TensorRT and OpenVINO: a list of nodes"], tmp_path) == 5

"""docs/cli.md is true: its commands, run in the order of the page, print what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from support import ROOT
from support.report_files import needs_page
from support.strict_zip import strict_zip
from support.tf_versions import needs_outputs_of_the_docs

# The file that stands over a block, or nothing; its language, and its text.
BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
# How a block shows that the command before ends with another status than 0.
STATUS = re.compile(r"^\$ echo \$\?\n(\d)\n\Z", re.M)
# A measured number, which another processor may round otherwise.
MEASURED = re.compile(r"\d\.\de[+-]\d\d|0\.\d{5,}")


def blocks():
    return BLOCK.findall((ROOT / "docs" / "cli.md").read_text())


def assert_same_but_measured(printed, shown):
    assert MEASURED.sub("#", printed) == MEASURED.sub("#", shown)
    for now, then in strict_zip(MEASURED.findall(printed), MEASURED.findall(shown)):
        assert float(now) == pytest.approx(float(then), rel=0.5, abs=1e-7)


@needs_outputs_of_the_docs
@needs_page
def test_the_commands_print_what_the_page_says(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}

    def python(*arguments, status=0):
        process = subprocess.run(
            [sys.executable, "-B", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert process.returncode == status, process.stderr[-2000:]
        return "".join(f"{line.rstrip()}\n" for line in process.stdout.splitlines())

    found = blocks()
    assert sum(kind == "console" for _, kind, _ in found) >= 6
    written = set()
    for name, kind, text in found:
        if kind == "python" and not name:
            python("-c", text)
        if kind in ("python", "text") and name:
            (tmp_path / name).write_text(text)
        if kind == "json":
            assert name, f"no file over the block {text}"
            if name in written:
                assert text == (tmp_path / name).read_text()
            else:
                (tmp_path / name).write_text(text)
        if kind != "console":
            continue
        ends = STATUS.search(text)
        command, shown = STATUS.sub("", text).split("\n", 1)
        program, *arguments = shlex.split(command[len("$ ") :])
        assert program == "npu-precision"
        printed = python(
            "-m", "npu_precision_command", *arguments, status=int(ends.group(1)) if ends else 0
        )
        assert_same_but_measured(printed, shown)
        written.update(re.findall(r"-o (\S+)", command))


def test_every_subcommand_and_flag_of_its_own_is_on_the_page(command):
    page = (ROOT / "docs" / "cli.md").read_text()
    listed = re.findall(r"^  (\w+)  ", command("--help").partition("Commands:")[2], re.M)
    assert len(listed) >= 4
    options = (ROOT / "docs" / "options.md").read_text()
    for name in listed:
        assert f"\n## {name}: " in page
        for flag in re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", command(name, "--help"), re.M):
            known = flag in ("debug", "help") or f"`{flag.replace('-', '_')}`" in options
            assert known or f"--{flag}" in page, (name, flag)

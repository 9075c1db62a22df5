"""Runs the blocks of a page in their order, and compares what the commands print with the page."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from support import ROOT, warm_python
from support.strict_zip import strict_zip

# A block: the file name above it, if there is one, its language, and its text.
BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
# A block's way to show that the command before ends with a status other than 0.
STATUS = re.compile(r"^\$ echo \$\?\n(\d)\n\Z", re.M)
# A measured number, which another processor may round otherwise.
MEASURED = re.compile(r"\d\.\de[+-]\d\d|0\.\d{5,}")
# A line that stands for any number of others.
LEFT_OUT = "..."


def assert_same_but_measured(printed: str, shown: str) -> None:
    """Compares what a command printed with what a page shows."""
    if LEFT_OUT in shown.splitlines():
        printed = _without_left_out(printed.splitlines(), shown.splitlines())
    assert MEASURED.sub("#", printed) == MEASURED.sub("#", shown)
    for now, then in strict_zip(MEASURED.findall(printed), MEASURED.findall(shown)):
        assert float(now) == pytest.approx(float(then), rel=0.5, abs=1e-7)


def _without_left_out(printed: list[str], shown: list[str]) -> str:
    """The printed lines, with LEFT_OUT in place of those that the page leaves out."""
    kept, rest = [], list(printed)
    skips = False
    for line in shown:
        if line == LEFT_OUT:
            kept.append(line)
            skips = True
            continue
        wanted = MEASURED.sub("#", line)
        while skips and rest and MEASURED.sub("#", rest[0]) != wanted:
            rest.pop(0)
        kept += rest[:1]
        rest = rest[1:]
        skips = False
    return "".join(f"{line}\n" for line in (kept if skips else [*kept, *rest]))


def run_page(page: str, folder, compares: bool = True) -> int:
    """Runs a page of the documentation in a folder; returns how many commands it shows.

    Args:
        page: the path of the page.
        folder: the folder.
        compares: whether the commands have to print what the page shows. They have to succeed in
            any case.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}

    def python(*arguments, status=0):
        ended, stdout, stderr = warm_python.run(arguments, folder, environment, timeout=300)
        assert ended == status, stderr[-2000:]
        return "".join(f"{line.rstrip()}\n" for line in stdout.splitlines())

    commands = 0
    written = set()
    for name, kind, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "python" and not name:
            python("-c", text)
        if kind in ("python", "text") and name:
            (folder / name).write_text(text)
        if kind == "json":
            assert name, f"no file over the block {text}"
            if name in written:
                assert not compares or text == (folder / name).read_text()
            else:
                (folder / name).write_text(text)
        if kind != "console":
            continue
        commands += 1
        ends = STATUS.search(text)
        command, shown = STATUS.sub("", text).split("\n", 1)
        program, *arguments = shlex.split(command[len("$ ") :])
        start = {"npu-precision": ["-m", "npu_precision_command"], "python": []}[program]
        printed = python(*start, *arguments, status=int(ends.group(1)) if ends else 0)
        if compares:
            assert_same_but_measured(printed, shown)
        written.update(re.findall(r"-o (\S+)", command))
    return commands

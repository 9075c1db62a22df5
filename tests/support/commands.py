"""Fixtures: the command npu-precision in this process, and the files that it reads."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from support.overflowing import EMULATED, OVERFLOW, normal
from support.text_graph import read_graph


@pytest.fixture
def command(capsys):
    """Runs npu-precision in this process: command("explain", ...) -> its output.

    command(..., status=2) returns the error message instead.
    """
    # Only here: few tests need the modules of the command.
    from npu_precision.cli import main as cli

    def run(*arguments, status=0):
        assert cli.main([str(argument) for argument in arguments]) == status
        printed = capsys.readouterr()
        return printed.err if status == 2 else printed.out

    return run


@pytest.fixture
def lint(command, tmp_path):
    """lint(text, ...) -> the lines about "m.json", without the name of its folder.

    The first line, which says as what the file was read, is left out.
    """

    def run(text, *arguments, status=0):
        (tmp_path / "m.json").write_text(text)
        printed = command("lint", tmp_path / "m.json", *arguments, status=status)
        first, *lines = printed.replace(f"{tmp_path}{os.sep}", "").splitlines()
        assert first.startswith("m.json: read as ")
        return lines

    return run


@pytest.fixture
def arrays(tmp_path):
    """arrays(x=...) -> the path of an .npz file."""

    def write(**values):
        path = tmp_path / "inputs.npz"
        np.savez(str(path), **values)
        return str(path)

    return write


@pytest.fixture
def graph_file(tmp_path):
    """graph_file(text) -> the path of a GraphDef."""

    def write(text):
        path = tmp_path / "graph.pb"
        path.write_bytes(read_graph(text).SerializeToString())
        return str(path)

    return write


@pytest.fixture
def overflow(graph_file, arrays):
    """The arguments of a command: a model that overflows in one op, and its inputs."""
    return (graph_file(OVERFLOW), "--inputs", arrays(x=normal(8, 8), factor=6e4 * normal(8, 8)))


@pytest.fixture
def tune(command, tmp_path):
    """tune(model, "--inputs", ...) -> (the JSON that is printed, the mixlist that is written)."""

    def run(*arguments, options=EMULATED):
        file = tmp_path / "mixlist.json"
        printed = json.loads(command("tune", *arguments, *options, "-o", file, "--json"))
        return printed, json.loads(file.read_text())

    return run

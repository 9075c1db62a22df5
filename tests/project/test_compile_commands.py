"""compile_commands.json, which clangd and clang-tidy read, has the commands of the build."""

import json
import pathlib
import shlex
import subprocess

import pytest
from support import ROOT
from support.build_project import BuildProject, write

NAME = "compile_commands.json"
# A compiler that logs its command, and compiles.
COMPILER = """\
#!/bin/sh
echo "$0 $*" >> {log}
exec g++ "$@"
"""


@pytest.fixture
def project(tmp_path):
    return BuildProject(tmp_path)


def entries(folder):
    return json.loads((folder / NAME).read_text())


def test_each_source_has_a_command_with_the_flags_of_the_build(project):
    log = project.folder / "compiler.log"
    compiler = write(project.folder / "compiler", COMPILER.format(log=log))
    compiler.chmod(0o755)
    assert project.build(CXX=str(compiler))[0] == 0

    # The compiler writes under a temporary name, which is then changed.
    used = [line.replace(".o.partial", ".o") for line in log.read_text().splitlines()]
    header, *compiled, linked = used
    assert " -x c++-header " in header
    assert " -shared " in linked
    written = entries(project.folder)
    flags = {line.partition(" -MMD ")[0] for line in compiled}
    sources = [entry["file"] for entry in written]
    alone = [shlex.split(entry["command"]) for entry in written]
    assert {" ".join(command[:-3]) for command in alone} == flags
    assert [command[-3] for command in alone] == sources
    assert sources[0].endswith("/embedded_configs.cc")
    assert sources[1:] == ["cc/major.cc", "graph_passes/one.cc"]
    assert {entry["directory"] for entry in written} == {str(project.folder)}


def test_a_recorded_command_compiles_the_source_alone(project):
    assert project.build()[0] == 0
    for entry in entries(project.folder):
        made = pathlib.Path(entry["directory"], entry["output"])
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(entry["command"], shell=True, cwd=entry["directory"], check=True)
        assert made.read_bytes().startswith(b"\x7fELF")


def test_file_is_written_only_if_a_command_changed(project):
    database = project.folder / NAME
    assert project.build()[0] == 0
    former = database.stat()
    assert project.build()[0] == 0
    assert database.stat().st_mtime_ns == former.st_mtime_ns
    assert database.stat().st_ino == former.st_ino

    assert project.build(NPU_PRECISION_CXXFLAGS="-g")[0] == 0
    assert all(" -g " in entry["command"] for entry in entries(project.folder))
    assert not list(project.folder.rglob(f"{NAME}.partial"))


def test_build_elsewhere_leaves_the_file_of_the_source_tree(project):
    assert project.build()[0] == 0
    former = (project.folder / NAME).read_bytes()
    sanitized = {"NPU_PRECISION_CXXFLAGS": "-g", "NPU_PRECISION_BUILD": "build/sanitize"}
    assert project.build("--build-lib", "build/sanitize", **sanitized)[0] == 0
    assert (project.folder / NAME).read_bytes() == former
    assert all(
        " -g " in entry["command"] for entry in entries(project.folder / "build/sanitize/tf-2.99.0")
    )


@pytest.mark.skipif(not (ROOT / NAME).exists(), reason="the library was not built in place")
def test_each_source_of_the_library_is_in_the_file():
    written = {entry["file"] for entry in entries(ROOT)}
    for folder in ("graph_passes", "cc"):
        for path in (ROOT / folder).rglob("*.cc"):
            assert str(path.relative_to(ROOT)) in written, "run `make build`"

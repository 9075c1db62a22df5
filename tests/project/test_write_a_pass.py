"""docs/write-a-pass.md: the names in it exist, and its pass builds and passes its tests."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from support import ROOT
from support.compiled import compile_copy

PAGE = (ROOT / "docs/write-a-pass.md").read_text(encoding="utf-8")
# `FILE`: or `FILE`, above `TEXT`: and a block. A text with backquotes is in several backquotes.
EDIT = re.compile(
    r"^`([\w/.-]+)`(?:, above (?P<ticks>`+) ?(.+?) ?(?P=ticks))?:\n\n```\w+\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
EDITS = [(file, above, text) for file, _, above, text in EDIT.findall(PAGE)]
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def add_the_pass(folder):
    """Makes the changes of the page in a copy of the project."""
    for name, above, text in EDITS:
        path = folder / name
        if not above:
            assert not path.exists(), f"{name} is no new file"
            path.write_text(text, encoding="utf-8")
            continue
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        found = [n for n, line in enumerate(lines) if line.lstrip().startswith(above)]
        assert len(found) == 1, f"{len(found)} lines of {name} begin with {above}"
        lines.insert(found[0], text)
        path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture
def changed_files(tmp_path):
    """The files that the page writes or changes, in a folder of their own, with the pass."""
    for name, above, _ in EDITS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if above:
            shutil.copy(str(ROOT / name), str(tmp_path / name))
    add_the_pass(tmp_path)
    return tmp_path


def test_each_block_of_code_goes_into_a_file(changed_files):
    assert len(EDITS) == len(re.findall(r"^```(?:cpp|python|text)$", PAGE, re.MULTILINE))
    for name, _, text in EDITS:
        assert text in (changed_files / name).read_text(encoding="utf-8")


def test_code_is_formatted_and_free_of_complaints(changed_files):
    tools = pathlib.Path(sys.executable).parent
    if not (tools / "clang-format").exists() or not (tools / "ruff").exists():
        pytest.skip("needs the linters")
    for name in ("pyproject.toml", ".clang-format"):
        shutil.copy(str(ROOT / name), str(changed_files / name))
    python = sorted({name for name, _, _ in EDITS if name.endswith(".py")})
    cxx = sorted({name for name, _, _ in EDITS if name.endswith((".h", ".cc"))})
    for command in (
        # To check the order of imports, ruff would need the whole package.
        ["ruff", "check", "--no-cache", "--ignore=I001", *python],
        ["ruff", "format", "--no-cache", "--check", *python],
        ["clang-format", "--dry-run", "-Werror", *cxx],
    ):
        subprocess.run([str(tools / command[0]), *command[1:]], cwd=str(changed_files), check=True)


def test_what_the_page_names_exists():
    new = {name for name, above, _ in EDITS if not above}
    paths = re.findall(r"(?:`|=)((?:[\w.-]+/)+[\w.-]*|\w+\.(?:py|md))`", PROSE)
    assert len(paths) >= 15
    assert [path for path in paths if path not in new and not (ROOT / path).exists()] == []
    targets = set(re.findall(r"`make ([a-z-]+)", PROSE))
    assert targets <= set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert f'"{re.findall(r" (--dump-[a-z]+)", PAGE)[0]}"' in read("npu_precision/cli/flags.py")


def first_column(heading):
    """The names in backquotes that begin the rows of a table."""
    (rows,) = re.findall(rf"^\| {heading} \|.*\n\| --- .*\n((?:\|.*\n)*)", PROSE, re.MULTILINE)
    return re.findall(r"^\| `(\w+)(?:\(\))?` \|", rows, re.MULTILINE)


def test_tables_are_about_the_headers_as_they_are():
    table = read("graph_passes/pass_table.h")
    (fields,) = re.findall(r"^struct Pass \{\n(.*?)^\};", table, re.MULTILINE | re.DOTALL)
    declared = re.findall(r"^  (?:const )?[\w:*]+ \(?\*?(\w+)[;)]", fields, re.MULTILINE)
    columns = first_column("column")
    assert len(columns) >= 7
    assert columns == declared
    state = read("graph_passes/rewrite/pass_state.h")
    members = first_column("member")
    assert len(members) >= 6
    for name in members:
        assert re.search(rf"[ *]{name}(\(\)|;)", state), name
    assert "`Status X(PassState* state, bool* changed)`" in PROSE
    assert "tensorflow::Status (*run)(PassState* state, bool* changed);" in table


@pytest.mark.full
def test_the_pass_builds_and_all_tests_that_the_page_names_pass(tmp_path):
    copy, library = tmp_path / "project", tmp_path / "library.so"
    made = shutil.ignore_patterns(".*", "__pycache__", "_lib", "bazel-*", "build", "node_modules")
    shutil.copytree(str(ROOT), str(copy), ignore=made)
    add_the_pass(copy)
    compile_copy(copy, library)
    tests = re.findall(r"`make test PYTEST_FLAGS=(\S+)`", PROSE)
    assert len(tests) == 2
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests],
        cwd=str(copy),
        env={**os.environ, "NPU_PRECISION_LIBRARY": str(library), "PYTHONPATH": str(copy)},
        check=True,
    )

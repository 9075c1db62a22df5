"""The names that C++ and Python share are written once, in C++, and read through the library."""

from __future__ import annotations

import ast

import pytest
from support import ROOT

from npu_precision import _library

DESCRIBED = _library.describe()
SHARED = {
    *DESCRIBED["marks"].values(),
    DESCRIBED["optimizer"],
    DESCRIBED["error_op"],
    DESCRIBED["ledger_schema"],
    DESCRIBED["renamed_suffix"],
}
SOURCES = sorted((ROOT / "npu_precision").rglob("*.py"))


def literals(path):
    """The strings of a file but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        value = node.value if hasattr(node, "value") else getattr(node, "s", None)  # Python 3.7
        if isinstance(value, str) and id(node) not in docstrings:
            yield value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_python_repeats_no_shared_name(path):
    assert not SHARED & {*literals(path)}


def test_the_check_sees_a_name_that_is_repeated(tmp_path):
    source = tmp_path / "x.py"
    source.write_text('"""_keep_dtype"""\nMARK = "_keep_dtype"\n')
    assert list(literals(source)) == ["_keep_dtype"]
    assert SHARED & set(literals(source))


@pytest.mark.parametrize("name", sorted(SHARED))
def test_cxx_writes_a_shared_name_in_one_place(name):
    files = [
        path.name
        for folder in ("graph_passes", "cc")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".cc", ".h")
        if f'"{name}"' in path.read_text(encoding="utf-8")
    ]
    assert len(files) == 1


def test_words_of_ledgers_are_those_of_the_optimizer():
    assert DESCRIBED["decisions"] == ["lowered", "raised", "kept"]

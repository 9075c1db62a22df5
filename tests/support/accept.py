"""pytest --accept: writes the texts that rewrites gave into the tests, to be reviewed as a diff.

A golden text is a string literal in the file of its test. Where such a text differs, the test still
fails; its message says that the file has the new text now. A text that is computed, or that stands
in the file several times, is left to the author.
"""

from __future__ import annotations

import ast
import sys
import textwrap

import pytest

_active = {"path": None}


def pytest_addoption(parser):
    """Adds --accept."""
    parser.addoption("--accept", action="store_true", help="write new golden texts into the tests")


def pytest_configure(config):
    """Refuses several processes: each would write its own version of a file."""
    if config.getoption("accept") and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--accept: got -n as well, expected one process: add -n 0")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Knows the file of the test that runs."""
    _active["path"] = item.path if item.config.getoption("accept") else None
    yield
    _active["path"] = None


def accept(expected, got, lines_of):
    """Puts `got` in the place of the literal `expected`, if --accept asks for that.

    Args:
        expected: the text that the test gave.
        got: the text that there is now.
        lines_of: what two literals of the same text have in common.

    Returns:
        What was done, in words; "" without --accept.
    """
    path = _active["path"]
    if path is None:
        return ""
    if sys.version_info < (3, 8):
        return "not accepted: Python 3.7 does not say where a literal ends; use the default one"
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    places = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in parts
        and lines_of(node.value) == lines_of(expected)
    ]
    if len(places) != 1:
        found = f"stands there {len(places)} times" if places else "is not written out there"
        return f"not accepted: the text {found}, so change {path.name} by hand"
    path.write_text(_with_literal(source, places[0], lines_of(got)), encoding="utf-8")
    return f"accepted: {path.name} has the new text; look at the diff, and run the test again"


def _with_literal(source, node, text):
    lines = source.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    first = next((line for line in node.value.splitlines() if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    body = textwrap.indent("\n".join([*text, ""]), margin)
    return (before + f'"""\n{body}{margin}"""'.encode() + after).decode()

"""Results in JUnit's XML after each test, and a second run of what failed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from support import ROOT, python_path

# The last test reads what is there of the others, and sees the file as a killed process leaves it.
TESTS = """
import pathlib
import sys
from xml.etree import ElementTree

import pytest

def test_good(): pass

@pytest.mark.parametrize("text", ["a/b", "<&>"])
def test_bad(text): raise ValueError("not \\x1b XML, " + text)

@pytest.fixture
def broken(): raise OSError("no disk")

def test_without_its_fixture(broken): pass

@pytest.mark.skip(reason="too <cold>")
def test_not_now(): pass

def test_of_what_is_there():
    cases = list(ElementTree.parse("there.xml").iter("testcase"))
    assert [case.get("name") for case in cases][-1] == "test_not_now"
    assert len(cases) == 5
"""
FAILED = {"test_bad[a/b]", "test_bad[<&>]", "test_without_its_fixture"}


@pytest.fixture
def run(pytester):
    """run(*flags) -> pytest's result for TESTS with the plugin."""
    pytester.makepyfile(TESTS)
    return lambda *flags: pytester.runpytest_inprocess(
        "-p", "support.results", "-p", "no:xdist", *flags
    )


def by_name(path):
    cases = ElementTree.parse(str(path)).iter("testcase")
    return {case.get("name"): [child.tag for child in case] for case in cases}


def test_each_test_is_in_the_file_once_it_has_run(run, pytester):
    result = run("--results=there.xml")
    result.assert_outcomes(passed=2, failed=2, errors=1, skipped=1)
    result.stdout.fnmatch_lines(["results: there.xml"])
    assert by_name(pytester.path / "there.xml") == {
        "test_good": [],
        "test_bad[a/b]": ["failure"],
        "test_bad[<&>]": ["failure"],
        "test_without_its_fixture": ["error"],
        "test_not_now": ["skipped"],
        "test_of_what_is_there": [],
    }
    text = (pytester.path / "there.xml").read_text()
    assert "ValueError: not ? XML, &lt;&amp;&gt;" in text
    assert 'message="Skipped: too &lt;cold&gt;"' in text


def test_earlier_results_stay_as_they_are(run, pytester):
    run("--results=there.xml")
    before = (pytester.path / "there.xml").read_bytes()
    run("--results=there.xml", "--only=good").stdout.fnmatch_lines(["results: there-2.xml"])
    assert (pytester.path / "there.xml").read_bytes() == before
    assert set(by_name(pytester.path / "there-2.xml")) == {"test_good"}


def test_a_second_run_is_of_what_failed(run, pytester):
    run("--results=there.xml")
    run("--failed-from=there.xml", "--results=again.xml").assert_outcomes(
        failed=2, errors=1, deselected=3
    )
    assert set(by_name(pytester.path / "again.xml")) == FAILED
    run("--failed-from=there.xml", "--only=<&", "--only=fixture").assert_outcomes(
        failed=1, errors=1, deselected=4
    )


@pytest.mark.slow
def test_a_second_run_is_of_what_a_killed_one_did_not_reach_too(run, pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", python_path(ROOT / "tests", ROOT))
    pytester.makepyfile(
        test_killed="""
        import os
        def test_first(): pass
        def test_second(): os._exit(9)
        def test_third(): pass
    """
    )
    flags = ["-p", "support.results", "-p", "no:xdist", "test_killed.py"]
    assert pytester.runpytest_subprocess(*flags, "--results=there.xml").ret == 9
    assert by_name(pytester.path / "there.xml") == {"test_first": []}
    again = pytester.runpytest_inprocess(*flags, "--failed-from=there.xml", "--collect-only", "-q")
    again.stdout.fnmatch_lines(["test_killed.py::test_second", "test_killed.py::test_third"])
    again.stdout.no_fnmatch_line("*test_first")


def test_a_file_that_cannot_be_imported_is_told_of(run, pytester):
    pytester.makepyfile(test_broken="import nothing_of_this_name")
    run("--results=there.xml", "test_broken.py").assert_outcomes(errors=1)
    assert by_name(pytester.path / "there.xml") == {"": ["error"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("no XML", "syntax error: line 1, column 0, expected a file of --results"),
    ],
)
def test_a_file_of_something_else_is_an_error(run, pytester, text, said):
    if text:
        (pytester.path / "there.xml").write_text(text)
    result = run("--failed-from=there.xml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --failed-from=there.xml: *{said}*"])

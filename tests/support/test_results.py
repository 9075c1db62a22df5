"""Results in JUnit's XML after each test, and a second run of what failed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("no XML", "syntax error: line 1, column 0, expected a file of --results"),
        ("<testsuites/>", "no test failed there"),
    ],
)
def test_a_file_that_names_no_failure_is_an_error(run, pytester, text, said):
    if text:
        (pytester.path / "there.xml").write_text(text)
    result = run("--failed-from=there.xml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --failed-from=there.xml: *{said}*"])

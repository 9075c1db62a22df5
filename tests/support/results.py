"""pytest --results FILE: JUnit XML that is complete after each test, whatever ends the run.

pytest's own --junitxml writes its file when a run ends. On a machine that is lent for minutes, a
run that is cut off must keep what it has, and a second one run the others:

    pytest --results build/gpu/tests.xml
    pytest --failed-from build/gpu/tests.xml --only session/
"""

from __future__ import annotations

import pathlib
import re
from xml.etree import ElementTree

import pytest

from support.free_path import free_path

_HEAD = b'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="pytest">\n'
_TAIL = b"</testsuite></testsuites>\n"
# What XML cannot hold, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FAILED = ("failure", "error")
_PATH = pytest.StashKey()


def done_in(path: pathlib.Path) -> set[str]:
    """The ids of the tests that passed or were skipped, by a file of --results."""
    try:
        cases = ElementTree.parse(str(path)).iter("testcase")
    except (OSError, ElementTree.ParseError) as error:
        raise pytest.UsageError(
            f"--failed-from={path}: {error}, expected a file of --results"
        ) from error
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if all(case.find(kind) is None for kind in _FAILED)
    }


class Results:
    """Writes a file of results.

    Args:
        path: a file that is not there yet.
    """

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self._file.write(_HEAD + _TAIL)
        self._file.flush()
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report):
        """Writes the test, once it is torn down or its process has died."""
        reports = self._reports.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when not in ("setup", "call"):
            self._write(report.nodeid, self._reports.pop(report.nodeid))

    def _write(self, nodeid, reports):
        file, _, name = nodeid.partition("::")
        seconds = sum(report.duration for report in reports)
        case = ElementTree.Element("testcase", classname=file, name=name, time=f"{seconds:.3f}")
        for report in reports:
            if report.failed:
                kind = "failure" if report.when in ("call", "???") else "error"
                ElementTree.SubElement(case, kind).text = _text(report)
            elif report.skipped:
                ElementTree.SubElement(case, "skipped", message=_text(report))
        self._append(case)

    def _append(self, case):
        self._file.seek(-len(_TAIL), 2)
        self._file.write(ElementTree.tostring(case) + b"\n" + _TAIL)
        self._file.flush()

    def pytest_collectreport(self, report):
        """Writes a file whose tests cannot be collected."""
        if report.failed:
            case = ElementTree.Element("testcase", classname=report.nodeid, name="", time="0")
            ElementTree.SubElement(case, "error").text = _text(report)
            self._append(case)

    def pytest_unconfigure(self):
        """Closes the file."""
        self._file.close()


def _text(report):
    # What is skipped has a file, a line and the reason.
    told = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longreprtext
    return _NOT_XML.sub("?", told)


def pytest_addoption(parser):
    """Adds --results, --failed-from and --only."""
    parser.addoption("--results", type=pathlib.Path, help="write JUnit XML after each test")
    parser.addoption(
        "--failed-from", type=pathlib.Path, help="run what failed or did not run, by such a file"
    )
    parser.addoption(
        "--only", action="append", help="run tests with this text in their ids; again, too"
    )


def pytest_configure(config):
    """Begins the file, in the process that has the reports of all workers."""
    results, earlier = config.getoption("results"), config.getoption("failed_from")
    if earlier:
        done_in(earlier)  # An error in the file is one of the command line.
    if results and not hasattr(config, "workerinput"):
        path = free_path(results)
        config.pluginmanager.register(Results(path), "results")
        config.stash[_PATH] = path


def pytest_terminal_summary(terminalreporter, config):
    """Says where the results are."""
    if _PATH in config.stash:
        terminalreporter.write_line(f"results: {config.stash[_PATH]}")


def pytest_collection_modifyitems(config, items):
    """Deselects the tests that --failed-from and --only leave out."""
    earlier, texts = config.getoption("failed_from"), config.getoption("only") or [""]
    done = done_in(earlier) if earlier else set()
    kept, left_out = [], []
    for item in items:
        is_wanted = item.nodeid not in done and any(text in item.nodeid for text in texts)
        (kept if is_wanted else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept

"""The seconds of tests: printed by room, recorded by file, compared with budgets and records."""

from __future__ import annotations

import json

import pytest
from support import ROOT, seconds, tiers

TEST = "def test_x(): pass\n"


@pytest.fixture
def run(pytester):
    """run(*flags) -> the result of a run with a test in each of two rooms."""
    for room in ("lists", "passes"):
        file = pytester.path / "tests" / room / f"test_in_{room}.py"
        file.parent.mkdir(parents=True)
        file.write_text(TEST)

    def start(*flags):
        plugins = "-p", "support.tiers", "-p", "support.seconds", "-p", "no:xdist"
        pytester.makeini("[pytest]\nmarkers =\n  slow\n  full\n")
        return pytester.runpytest_inprocess(*plugins, *flags)

    return start


def test_a_run_ends_with_the_seconds_of_each_room(run):
    run().stdout.fnmatch_lines_random(
        [
            f"* s *1 tests  passes: * %, budget {seconds.BUDGETS['passes']} %",
            f"tier test: * minutes; on two quiet cores it may take {tiers.TIERS['test'][2]}",
        ]
    )


def test_the_seconds_of_files_are_recorded_if_that_is_asked_for(run, monkeypatch, tmp_path):
    monkeypatch.setattr(seconds, "RECORD", tmp_path / "seconds.json")
    run()
    assert not seconds.RECORD.exists()
    run("--record-seconds")
    files = ["tests/lists/test_in_lists.py", "tests/passes/test_in_passes.py"]
    assert list(json.loads(seconds.RECORD.read_text())) == files


def test_a_run_of_some_files_leaves_the_record_of_the_others(run, monkeypatch, tmp_path):
    monkeypatch.setattr(seconds, "RECORD", tmp_path / "seconds.json")
    seconds.RECORD.write_text('{"tests/passes/test_in_passes.py": 7.5, "tests/gone.py": 1}')
    run("--record-seconds", "tests/lists")
    found = json.loads(seconds.RECORD.read_text())
    assert list(found) == ["tests/lists/test_in_lists.py", "tests/passes/test_in_passes.py"]
    assert found["tests/passes/test_in_passes.py"] == 7.5


def test_each_file_is_recorded_and_its_room_has_a_budget():
    """`make test PYTEST_FLAGS="-n 2 --dist worksteal --record-seconds"` records a new file."""
    recorded = json.loads(seconds.RECORD.read_text())
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")}
    assert sorted(recorded) == sorted(files)
    assert set(seconds.in_rooms(recorded)) == set(seconds.BUDGETS)
    assert seconds.too_slow(recorded, recorded) == []


def test_a_room_over_its_budget_and_a_file_over_three_times_its_share_are_named(monkeypatch):
    monkeypatch.setattr(seconds, "BUDGETS", {"a": 50, "b": 90})
    recorded = {"tests/a/test_1.py": 10, "tests/a/test_2.py": 5, "tests/b/test_3.py": 85}
    assert seconds.too_slow({file: 2 * spent for file, spent in recorded.items()}, recorded) == []
    now = {"tests/a/test_1.py": 36, "tests/a/test_2.py": 15, "tests/b/test_3.py": 49}
    assert seconds.too_slow(now, recorded) == [
        "a took 51.0 % of all, and its budget is 50 %",
        "tests/a/test_1.py took 36.0 % of all, and 10.0 % when it was recorded",
    ]

"""The seconds that tests take, by room: printed at the end of a run, next to the room's budget.

Budgets are shares of the whole, since machines differ. tests/seconds.json has the seconds of each
file in the run that recorded the file last: `make test PYTEST_FLAGS="-n 2 --dist worksteal
--record-seconds"`. The end of a whole run names the rooms over their budgets, and the files that
take three times their recorded share. No test fails by the clock.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import time

import pytest

from support.tiers import TIERS, room_of

RECORD = pathlib.Path(__file__).parents[1] / "seconds.json"
# By room, the share of a run of `make test` that it may take, in percent: a quarter more than it
# took when it was set, and at least two.
BUDGETS = {
    "accuracy": 2,
    "amp": 12,
    "ascend_scripts": 3,
    "cli": 14,
    "control_flow": 4,
    "distribute": 11,
    "dumps": 2,
    "explain": 2,
    "flight": 2,
    "guard": 4,
    "handoffs": 2,
    "hccl": 2,
    "launch": 6,
    "launchers": 2,
    "lists": 2,
    "loss_scaling": 12,
    "models": 11,
    "mutate": 2,
    "npu_bridge": 3,
    "npu_device": 3,
    "offline": 2,
    "page": 5,
    "passes": 10,
    "project": 15,
    "random": 7,
    "session": 4,
    "support": 2,
    "training": 8,
    "tuning": 3,
}
# The most that a file may take: this many times its recorded share, or this many percent of all.
MOST_SHARES, SMALL = 3, 1

_BEGIN = pytest.StashKey()


def pytest_addoption(parser):
    """Adds --record-seconds."""
    parser.addoption(
        "--record-seconds", action="store_true", help=f"write the seconds of files to {RECORD.name}"
    )


def pytest_configure(config):
    """Notes when the run begins."""
    config.stash[_BEGIN] = time.monotonic()


def pytest_terminal_summary(terminalreporter, config):
    """Prints the seconds of each room, where there are several."""
    seconds, tests = collections.Counter(), collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.split("::")[0]
                seconds[file] += report.duration
                tests[room_of(file)] += report.when == "call"
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if config.getoption("record_seconds"):
        _record({**recorded, **seconds}, config.rootpath)
    by_room = in_rooms(seconds)
    if len(by_room) < 2:
        return
    tier, minutes = config.getoption("tier"), TIERS[config.getoption("tier")][2]
    total = sum(seconds.values()) or 1
    terminalreporter.section("seconds by room")
    for room, spent in by_room.most_common():
        budget = BUDGETS.get(room)
        within = "" if budget is None else f", budget {budget} %"
        terminalreporter.write_line(
            f"{spent:8.1f} s  {tests[room]:5} tests  {room}: {100 * spent / total:.0f} %{within}"
        )
    took = (time.monotonic() - config.stash[_BEGIN]) / 60
    terminalreporter.write_line(
        f"tier {tier}: {took:.1f} minutes; on two quiet cores it may take {minutes}"
    )
    if tier == "test" and seconds.keys() >= recorded.keys():
        for line in too_slow(seconds, recorded):
            terminalreporter.write_line(line)


def _record(seconds, root):
    """Writes the seconds of the files that still exist."""
    found = {
        file: round(spent, 1) for file, spent in sorted(seconds.items()) if (root / file).exists()
    }
    partial = RECORD.with_name(f"{RECORD.name}.partial")
    partial.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    os.replace(partial, RECORD)


def in_rooms(seconds):
    """The seconds of each room, from those of the files."""
    rooms = collections.Counter()
    for file, spent in seconds.items():
        rooms[room_of(file)] += spent
    return rooms


def too_slow(seconds, recorded):
    """A line for each room over its budget, and for each file over three times its share.

    Args:
        seconds: by file, those of a run.
        recorded: by file, those of an earlier run, perhaps on another machine.
    """
    total, earlier = sum(seconds.values()) or 1, sum(recorded.values()) or 1
    lines = [
        f"{room} took {100 * spent / total:.1f} % of all, and its budget is {BUDGETS[room]} %"
        for room, spent in in_rooms(seconds).items()
        if 100 * spent > BUDGETS.get(room, 100) * total
    ]
    for file, spent in seconds.items():
        share, usual = 100 * spent / total, 100 * recorded.get(file, 0) / earlier
        if share > max(MOST_SHARES * usual, SMALL):
            lines.append(
                f"{file} took {share:.1f} % of all, and {usual:.1f} % when it was recorded"
            )
    return lines

"""The seconds that tests take, by room: printed at the end of a run, next to the room's budget.

Budgets are shares of the whole, since machines differ. tests/seconds.json has the seconds of each
file in one run on a quiet machine: `make test PYTEST_FLAGS="-n 2 --dist worksteal
--record-seconds"` writes it. A test holds it to the budgets; no test looks at the clock.
"""

from __future__ import annotations

import collections
import json
import pathlib
import time

import pytest

from support.tiers import TIERS, room_of

RECORD = pathlib.Path(__file__).parents[1] / "seconds.json"
# By room, its share of a run of `make test`, in percent.
BUDGETS = {
    "project": 13,
}
# A file may take so many times what the files of its room take on average. A file of less than so
# many percent of all is not worth a look.
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
    if config.getoption("record_seconds"):
        found = {file: round(spent, 1) for file, spent in sorted(seconds.items())}
        RECORD.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


def in_rooms(seconds):
    """The seconds of each room, from those of the files."""
    rooms = collections.Counter()
    for file, spent in seconds.items():
        rooms[room_of(file)] += spent
    return rooms


def too_slow(seconds, budgets):
    """A line for each room over its budget, and for each file over three times its share of it.

    Args:
        seconds: by file.
        budgets: as BUDGETS.
    """
    rooms, total = in_rooms(seconds), sum(seconds.values())
    files = collections.Counter(map(room_of, seconds))
    lines = [
        f"{room} takes {100 * spent / total:.1f} % of all, and its budget is {budgets[room]} %"
        for room, spent in rooms.items()
        if 100 * spent > budgets[room] * total
    ]
    for file, spent in seconds.items():
        room = room_of(file)
        most = max(MOST_SHARES * budgets[room] / files[room], SMALL)
        if 100 * spent > most * total:
            share = 100 * spent / total
            lines.append(f"{file} takes {share:.1f} % of all, and its room allows {most:.1f} %")
    return lines

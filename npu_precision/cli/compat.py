"""npu-precision compat: checks which names of Ascend's packages in scripts exist here."""

from __future__ import annotations

import dataclasses
import json

import click
import rich.console

import npu_precision_command
from npu_precision.cli import printing
from npu_precision.compat import coverage, project, table
from npu_precision.compat.coverage import Counted
from npu_precision.compat.script import Found

SCHEMA = "npu_precision.compat/1"
# The words for one name and for several, by status, most urgent first.
_SUMMARIES = {
    table.UNREADABLE: ("cannot be read", "cannot be read"),
    table.ERROR: ("1 name is an error", "{} names are errors"),
    table.MISSING: ("1 name is missing", "{} names are missing"),
    table.NEEDS_TF1: ("1 needs TensorFlow 1.15", "{} need TensorFlow 1.15"),
    table.WARNING: ("1 is ignored with a warning", "{} are ignored with a warning"),
    table.NO_EFFECT: ("1 has no effect", "{} have no effect"),
    table.RUNS: ("1 runs", "{} run"),
}
_ORDER = list(_SUMMARIES)
# The statuses of names that a script may use unchanged, for lists of names.
_COVERED = (table.RUNS, table.NO_EFFECT, table.WARNING)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE_OR_FOLDER...")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@npu_precision_command.debug_flag
def compat(paths: tuple[str, ...], as_json: bool) -> int:
    """Shows what scripts for Ascend find here: what runs, has no effect, or is missing.

    A FILE is a Python script, or a list of names with counts (.txt or .csv). Scripts are read and
    never run; a list gives the coverage. A FOLDER stands for all scripts in it. The command works
    without TensorFlow. The exit status is 1 if something keeps a script from running.
    """
    with printing.busy("reading"):
        examined = project.examine(paths, table.shipped())
    statuses = [each.status for found in examined.scripts.values() for each in found]
    statuses += [each.status for found in examined.lists.values() for each in found]
    runs = not set(statuses) & set(table.FAILING)
    if as_json:
        data = {
            "schema": SCHEMA,
            "runs": runs,
            "scripts": [
                {"path": path, "found": [dataclasses.asdict(each) for each in found]}
                for path, found in examined.scripts.items()
            ],
            "lists": [
                {
                    "path": path,
                    "coverage": _coverage(found),
                    "names": [dataclasses.asdict(each) for each in found],
                }
                for path, found in examined.lists.items()
            ],
        }
        click.echo(json.dumps(data, indent=1))
        return int(not runs)
    out = printing.console()
    _print_scripts(out, examined.scripts)
    for path, counted in examined.lists.items():
        _print_list(out, path, counted)
    return int(not runs)


def _print_scripts(out: rich.console.Console, scripts: dict[str, list[Found]]) -> None:
    using = {path: found for path, found in scripts.items() if found}
    for path, found in using.items():
        lines: dict[tuple[str, str, str], list[int]] = {}
        for each in found:
            lines.setdefault((each.status, each.name, each.note), []).append(each.line)
        counts = [status for status, _, _ in lines]
        said = [_SUMMARIES[each][counts.count(each) > 1] for each in _ORDER if each in counts]
        amounts = [counts.count(each) for each in _ORDER if each in counts]
        summary = ", ".join(text.format(count) for text, count in zip(said, amounts))
        printing.say(out, f"{path}: {summary}", "bold")
        for key in sorted(lines, key=lambda key: (_ORDER.index(key[0]), lines[key])):
            status, name, note = key
            first, *others = lines[key]
            also = f" (also {', '.join(map(str, others))})" if others else ""
            style = "red" if status in table.FAILING else None
            text = f"  {path}:{first}: {status}: {_with_note(name, note)}{also}"
            printing.say(out, text, style)
    if len(scripts) > 1:
        failing = sum(any(e.status in table.FAILING for e in found) for found in using.values())
        printing.say(
            out,
            f"{len(scripts)} scripts, {len(using)} of which use names of Ascend; "
            f"{failing} will not run as they are",
        )
    elif scripts and not using:
        printing.say(out, f"{next(iter(scripts))}: uses no name of npu_bridge, npu_device or hccl")


def _print_list(out: rich.console.Console, path: str, found: list[Counted]) -> None:
    covered = _coverage(found)
    names = "{names} of {all_names} names ({share_of_names:.1%})".format(**covered)
    uses = "{uses} of {all_uses} uses ({share_of_uses:.1%})".format(**covered)
    printing.say(out, f"{path}: {names} are here, and {uses}", "bold")
    columns = [("uses", True), ("what happens", False), ("name", False)]
    rows = [(each.count, each.status, _with_note(each.name, each.note)) for each in found]
    printing.show(out, printing.table("", columns, rows))


def _coverage(found: list[Counted]) -> dict[str, float]:
    names, uses = coverage.share(found, _COVERED)
    all_names, all_uses = coverage.share(found, table.STATUSES)
    return {
        "names": names,
        "all_names": all_names,
        "share_of_names": names / max(1, all_names),
        "uses": uses,
        "all_uses": all_uses,
        "share_of_uses": uses / max(1, all_uses),
    }


def _with_note(name: str, note: str) -> str:
    return f"{name}; {note}" if note else name

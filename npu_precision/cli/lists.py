"""npu-precision lists: shows the built-in lists of a target, and writes them as ops-info files."""

from __future__ import annotations

import collections
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from npu_precision import _library, outputs
from npu_precision.cli import flags, printing

SCHEMA = "npu_precision.lists/1"
_LISTS = ("white", "black", "gray")
_MOST_NAMES = 4


@click.command()
@click.option(
    "--target",
    default="host",
    show_default=True,
    metavar="|".join(_library.describe()["targets"]),
    help="The device whose lists are shown.",
)
@click.option(
    "--op",
    metavar="RE",
    help="Show only ops with a name, TensorFlow's or Ascend's, that contains a match.",
)
@click.option("--export", metavar="FOLDER", help="Write the lists into FOLDER, as ops-info files.")
@click.option("--force", is_flag=True, help="With --export: replace existing files.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def lists(target: str, op: str | None, export: str | None, force: bool, as_json: bool) -> None:
    """Shows the white, black and gray list of a target, and the dtypes of each op.

    --export writes files in the format of CANN's ops-info. Edit them, and give the folder as
    ops_info_dir, which replaces these lists, or as ops_info_overlay, which is applied after them.
    """
    if force and export is None:
        raise click.UsageError("--force goes with --export.")
    known = _library.lists(target)
    pattern = _pattern(op)
    found = {name: _matching(ops, pattern) for name, ops in known["folders"].items()}
    folders = {name: ops for name, ops in found.items() if ops}
    if not folders:
        raise ValueError(f"--op: no op of the lists of {target} has {op!r} in its name")
    written = [] if export is None else _export(target, folders, pathlib.Path(export), force)
    if as_json:
        data = {"schema": SCHEMA, **known, "folders": folders, "written": written}
        click.echo(json.dumps(data, indent=1))
        return
    out = printing.console()
    for file in written:
        printing.say(out, f"written: {file}")
    if export is None:
        for folder, ops in folders.items():
            printing.say(out, _heading(known, folder, ops), "bold")
            printing.show(out, _table(known, ops))
            for line in _reasons(ops):
                printing.say(out, line)


def _pattern(op: str | None) -> re.Pattern[str]:
    try:
        return re.compile(op or "")
    except re.error as error:
        raise ValueError(f"--op: {op!r} is not a regular expression: {error}") from error


def _matching(
    ops: Mapping[str, Mapping[str, Any]], pattern: re.Pattern[str]
) -> dict[str, Mapping[str, Any]]:
    """The ops that have the pattern in a name, in the order of their names."""
    return {
        name: ops[name]
        for name in sorted(ops)
        if any(pattern.search(each) for each in (name, *ops[name]["ascend"]))
    }


def _heading(known: Mapping[str, Any], folder: str, ops: Mapping[str, Mapping[str, Any]]) -> str:
    where = f"{known['target']}/{folder}" if folder else known["target"]
    if known["lists_of"]:
        where += f" (on top of {known['lists_of']})"
    counts = collections.Counter(row["list"] for row in ops.values())
    return f"{where}: {', '.join(f'{counts[color]} {color}' for color in _LISTS if counts[color])}"


def _table(known: Mapping[str, Any], ops: Mapping[str, Mapping[str, Any]]) -> Any:
    # Where a target may compute in all dtypes, the kernels decide.
    otherwise = known["dtype"] if known["dtype"].count(",") < 2 else ""
    columns = (("op", False), ("list", False), ("dtypes", False), ("Ascend's names", False))
    rows = [
        (name, ops[name]["list"], _dtypes(ops[name]["entry"]) or otherwise, _names(ops[name]))
        for color in _LISTS
        for name in ops
        if ops[name]["list"] == color
    ]
    return printing.table("", columns, rows)


def _reasons(ops: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why ops are on their list: a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, row in ops.items():
        if row["why"]:
            by_reason.setdefault(row["why"], []).append(name)
    return [f"why {_few(names)}: {why}" for why, names in by_reason.items()]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _dtypes(entry: Mapping[str, Any]) -> str:
    """The restrictions of an entry, arguments of the same dtypes together."""
    by_dtype: dict[str, list[str]] = {}
    for key, value in entry.items():
        if "dtype" in value:
            by_dtype.setdefault(value["dtype"], []).append(key)
    return "; ".join(f"{dtype} ({', '.join(keys)})" for dtype, keys in by_dtype.items())


def _names(row: Mapping[str, Any]) -> str:
    if row["tensorflow"]:
        return ", ".join(row["ascend"])
    return "not in this TensorFlow"


def _export(
    target: str,
    folders: Mapping[str, Mapping[str, Mapping[str, Any]]],
    folder: pathlib.Path,
    force: bool,
) -> list[str]:
    """Writes one file for each folder; returns their names."""
    files = {folder / name / f"aic-{target}-ops-info.json": ops for name, ops in folders.items()}
    for file in files:
        if file.exists() and not force:
            raise FileExistsError(f"output {str(file)!r} exists; --force replaces it")
    for file, ops in files.items():
        with outputs.new_file(file, force) as partial:
            partial.write_text(_ops_info(ops), encoding="utf-8")
    return [str(file) for file in files]


def _ops_info(ops: Mapping[str, Mapping[str, Any]]) -> str:
    """A file in CANN's format, with a line for each op.

    Ops of other TensorFlows than this one are left out: lint would not know them.
    """
    of_ascend = _library.describe()["ascend_ops"]
    lines = [
        f"  {json.dumps(name)}: {json.dumps(row['entry'])}"
        for name, row in ops.items()
        if row["tensorflow"] or name in of_ascend
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"

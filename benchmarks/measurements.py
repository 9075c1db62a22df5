"""The measurements that the documents show: a file in docs/measurements/ for each table.

    make bench SUITE=distributed BENCH_FLAGS="--steps 12 --write"

A suite writes its rows in the place of those that it measured again, with the command and the
machine. `make reference` brings the files into the documents.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shlex
import sys
from collections.abc import Sequence

import report
import tensorflow as tf

_SESSION = "NPU_PRECISION_BENCH_SESSION"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "measurements"


def of_cpu(field: str) -> str:
    """A field of the first core in /proc/cpuinfo, or ""."""
    cpu_info = pathlib.Path("/proc/cpuinfo")
    for line in cpu_info.read_text().splitlines() if cpu_info.exists() else []:
        if line.partition(":")[0].strip() == field:
            return line.partition(":")[2].strip()
    return ""


def bfloat16() -> list[str]:
    """The CPU's instructions for bfloat16."""
    return sorted(set(of_cpu("flags").split()) & {"amx_bf16", "avx512_bf16"})


def machine() -> str:
    """The machine in words, as a document gives it."""
    cpu = of_cpu("model name") or platform.processor()
    return f"{os.cpu_count()} threads of an {cpu} with {', '.join(bfloat16()) or 'no bfloat16'}"


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Adds --write."""
    parser.add_argument(
        "--write", action="store_true", help="write the rows into docs/measurements/"
    )


def command(verb: str, variable: str) -> str:
    """The command that runs this process: `make VERB VARIABLE="FLAGS"`, or that of its session.

    A session of nox gives its own in the environment, and says by --out where results go.
    """
    flags = [flag for flag in sys.argv[1:] if flag != "--write"]
    if _SESSION in os.environ:
        given = [flag for flag in flags if not flag.startswith("--out=")]
        return f"{os.environ[_SESSION]} {shlex.join(given)}"
    return f"make {verb} {variable}={shlex.quote(shlex.join(flags))}" if flags else f"make {verb}"


def write(
    name: str, command: str, columns: report.Columns, rows: Sequence[Sequence[str]], keys: int = 1
) -> pathlib.Path:
    """Writes rows into the file of a table.

    Args:
        name: the file, without its ending.
        command: what was run.
        columns: the headings.
        rows: the cells. A row takes the place of one with the same keys; rows that were not
            measured stay.
        keys: how many cells at the beginning of a row say what it is about. An empty cell is as in
            the row before.

    Returns:
        The file.

    Raises:
        ValueError: rows of other columns would have to stay.
    """
    path = FOLDER / f"{name}.json"
    run = {"command": command, "machine": machine(), "tensorflow": tf.__version__}
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": [], "columns": {}}
    kept = [(known["runs"][number], cells) for number, cells in known["rows"]]
    found = dict(_by_key(kept, keys))
    # Peers that take part change the order of the columns.
    order = list(known["columns"] if known["columns"] == dict(columns) else columns)
    by_heading = [dict(zip(columns, row)) for row in rows]
    ordered = [(run, [cells[heading] for heading in order]) for cells in by_heading]
    new = dict(_by_key(ordered, keys))
    if known["columns"] != dict(columns) and not new.keys() >= found.keys():
        raise ValueError(
            f"{path.name}: got the columns {', '.join(columns)}, and it has rows of other columns "
            f"that were not measured: {', '.join(known['columns'])}; measure all of it"
        )
    found.update(new)
    runs: list[dict] = []
    numbered = []
    for of_run, cells in found.values():
        if of_run not in runs:
            runs.append(of_run)
        numbered.append([runs.index(of_run), cells])
    sides = {heading: columns[heading] for heading in order}
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(_text({"columns": sides, "runs": runs, "rows": numbered}), "utf-8")
    os.replace(partial, path)
    return path


def _by_key(rows, keys: int):
    last: list[str] = []
    for run, cells in rows:
        last = [cell or earlier for cell, earlier in zip(cells, last or [""] * keys)][:keys]
        yield tuple(last), (run, cells)


def _text(table: dict) -> str:
    """JSON with a line for each row, so that a diff shows what was measured again."""
    parts = {
        key: [json.dumps(each, ensure_ascii=False) for each in table[key]]
        for key in ("runs", "rows")
    }
    lines = ["{", f'"columns": {json.dumps(table["columns"])},']
    lines += ['"runs": [', ",\n".join(parts["runs"]), "],"]
    lines += ['"rows": [', ",\n".join(parts["rows"]), "]", "}"]
    return "\n".join(lines) + "\n"

"""Runs the corpus, and prints or writes the table: `make numerics`.

    make numerics NUMERICS_FLAGS="--only attention --modes bf16,fp16"
    make numerics NUMERICS_FLAGS=--write
    make numerics NUMERICS_FLAGS="--compiled --modes bf16,fp16"

Every program runs in float32 and in each mode, from the same values. A program that a mode breaks
stays in the table, with the fault in bold. The status is 1 if a mode breaks a program and known.py
does not list it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import measurements  # noqa: E402
import report  # noqa: E402

from numerics import blame, contender, known, measure, program, table  # noqa: E402


def flags() -> argparse.Namespace:
    """The flags of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", help="part of the names of programs; again, too")
    parser.add_argument("--rooms", default="", help="files of programs, as losses,loops")
    parser.add_argument("--modes", default=",".join(contender.NAMES), help="contenders, by commas")
    measurements.add_flag(parser)
    parser.add_argument("--json", type=pathlib.Path, help="write what was found into a file")
    parser.add_argument("--found", type=pathlib.Path, help="measure nothing; read such a file")
    parser.add_argument("--compiled", action="store_true", help="let XLA compile the programs")
    parser.add_argument("--blame", action="store_true", help="find the lowered ops that break it")
    parser.add_argument("--list", action="store_true", help="print the names of the programs")
    return parser.parse_args()


def main() -> int:
    """Returns 1 if one of our modes breaks a program."""
    chosen = flags()
    programs = [
        found
        for found in program.corpus().values()
        if any(part in found.name for part in chosen.only or [""])
        and (not chosen.rooms or found.room in chosen.rooms.split(","))
    ]
    if chosen.list:
        print("\n".join(found.name for found in programs))
        return 0
    if not programs:
        sys.exit(f"--only={chosen.only}: no program has that name; --list prints all")
    names = [name for name in chosen.modes.split(",") if name != contender.FLOAT32]
    unknown = set(names) - set(contender.ALL)
    if unknown:
        sys.exit(f"--modes: got {', '.join(unknown)}, expected {', '.join(contender.ALL)}")
    if chosen.found:
        found = json.loads(chosen.found.read_text(encoding="utf-8"))
    else:
        found = measured(programs, names, chosen.blame, chosen.compiled)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    shown = [contender.FLOAT32, *names]
    columns, rows = table.columns(shown), table.rows(found, shown)
    report.show(report.grid(columns, rows))
    if chosen.write:
        command = measurements.command("numerics", "NUMERICS_FLAGS")
        suite = "numerics-compiled" if chosen.compiled else "numerics"
        print(measurements.write(suite, command, columns, rows, keys=2))
    expected = {**known.BROKEN, **(known.COMPILED if chosen.compiled else {})}
    return conclusion(found, [name for name in names if name in OURS], expected)


def conclusion(found: dict, modes: list[str], expected: dict[str, tuple[str, ...]]) -> int:
    """Prints the programs that our modes break; returns 1 if one is not expected to."""
    broken = {
        name: ",".join(mode for mode in modes if entry[mode]["status"] not in measure.GOOD)
        for name, entry in found.items()
    }
    new = {
        name: which
        for name, which in broken.items()
        if not set(filter(None, which.split(","))) <= set(expected.get(name, ()))
    }
    print(f"{len(found)} programs, of which our modes break {sum(map(bool, broken.values()))}")
    print("not known before:", "; ".join(f"{name} ({new[name]})" for name in new) or "none")
    return 1 if new else 0


OURS = tuple(contender.MODES)


def measured(
    programs: list[program.Program], names: list[str], blames: bool, compiled: bool
) -> dict:
    """The verdict of each contender, by program; with XLA, of programs that it compiles."""
    workers = measure.Workers(compiled)
    found = {}
    try:
        for one in programs:
            reference = workers.run(contender.FLOAT32, one.name, one.seconds)
            if compiled and "values" not in reference:
                print(f"{one.name}: is not compiled", flush=True)
                continue
            found[one.name] = verdicts(workers, one, names, blames, reference)
            print_line(one.name, found[one.name])
    finally:
        workers.close()
    return found


def verdicts(
    workers: measure.Workers,
    one: program.Program,
    names: list[str],
    blames: bool,
    reference: dict,
) -> dict:
    """The verdicts on a program, by contender; reference is float32's reply."""
    entry: dict = {"room": one.room, "kind": one.kind}
    entry[contender.FLOAT32] = dataclasses.asdict(measure.judge(reference, reference, 0.0))
    for name in names:
        low = contender.LOW[name]
        reply = workers.run(name, one.name, one.seconds)
        verdict = measure.judge(reply, reference, one.tolerance[low])
        entry[name] = dataclasses.asdict(verdict)
        if blames and not verdict.is_good and name in OURS:
            causes = blame.to_blame(workers, one, name, verdict, reference, low)
            entry[name]["blame"] = causes
    return entry


def print_line(name: str, entry: dict) -> None:
    """Prints the line of a program as soon as it is measured."""
    cells = [f"{key} {table.cell(v)}" for key, v in entry.items() if isinstance(v, dict)]
    causes = [f"{k}: {v['blame']}" for k, v in entry.items() if "blame" in v]
    print(f"{name}: {'; '.join(cells)} {' '.join(causes)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

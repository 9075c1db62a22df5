"""Shows that tests notice when a line is wrong.

    make mutate [MUTATE_FLAGS="--only fold_batch_norms"]

goes through a list of mutations. A mutation is one line made wrong, with the tests that must
notice. First, all these tests run on a copy of the working tree, where they must pass. Then each
mutation in turn is made in another copy, which is built again if the line is C++. At least one of
the mutation's tests must fail there. The status is 0 if all mutations are noticed. The copies are
deleted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import queue
import shutil
import sys
import tempfile
import time

from mutate.copies import MutateError, build, copy_project, link_project, replace, run_tests
from mutate.list_of_mutations import MUTATIONS
from mutate.mutation import ROOT, Mutation

NOTICED, NOT_NOTICED, STALE, NO_ANSWER = (
    "noticed",
    "NOT NOTICED",
    "NO LONGER APPLIES",
    "NO ANSWER",
)
# pytest's status if tests failed. Other statuses mean that pytest could not run them.
FAILED = 1
# A mutation may leave a name unused: that is no error. A compiler flag in place of this line would
# change all commands, and setup.py would compile everything again.
ALLOW_UNUSED = '#pragma GCC diagnostic warning "-Wunused"\n'


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate", allow_abbrev=False)
    parser.add_argument("--only", metavar="TEXT", default="", help="those with this in their name")
    parser.add_argument("--list", action="store_true", help="print what there is, and do nothing")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help="how many are tried at once")
    parser.add_argument("--verbose", action="store_true", help="print what pytest prints")
    arguments = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if arguments.only in mutation.name]
    if not chosen:
        parser.error(f"--only: {why_none(arguments.only)}")
    if arguments.list:
        for mutation in chosen:
            print(f"{mutation.name}: {mutation.breaks}")
        return 0
    with tempfile.TemporaryDirectory(prefix="npu_precision_mutate_") as folder:
        try:
            return mutate(chosen, pathlib.Path(folder), arguments.jobs, arguments.verbose)
        except MutateError as error:
            print(f"\nmake mutate: {error}", file=sys.stderr)
    return 2


def why_none(name: str) -> str:
    """Why no mutation has this in its name: its file has none, or there is no such file."""
    files = {
        path.stem
        for folder in ("graph_passes", "cc", "npu_precision")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".cc", ".py")
    }
    if name in files:
        return f"{name} has no mutations; CONTRIBUTING.md says how to add some"
    known = sorted({mutation.name.partition("/")[0] for mutation in MUTATIONS} | files)
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"no mutation has {name!r} in its name, and no file is named so{meant}"


def mutate(chosen: list[Mutation], folder: pathlib.Path, jobs: int, verbose: bool) -> int:
    """Runs all steps in a folder; returns the status.

    Raises:
        MutateError: the working tree does not build, or its tests fail as it is.
    """
    begin = time.monotonic()
    original = folder / "original"
    copy_project(ROOT, original)
    build(original)
    tests = sorted({test for mutation in chosen for test in mutation.tests})
    print(f"{len(chosen)} mutations, {len(tests)} tests, which pass as it is ...", flush=True)
    status, printed = run_tests(original, tests)
    if status != 0:
        raise MutateError(f"they do not:\n{printed[-6000:]}")

    places: queue.Queue[pathlib.Path] = queue.Queue()
    for number in range(jobs):
        places.put(folder / f"copy{number}")

    def one(mutation: Mutation) -> tuple[str, str]:
        place = places.get()
        try:
            return outcome_of(mutation, original, place)
        finally:
            shutil.rmtree(str(place), ignore_errors=True)
            places.put(place)

    outcomes: dict[str, list[str]] = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for mutation, (outcome, told) in zip(chosen, pool.map(one, chosen)):
            outcomes.setdefault(outcome, []).append(mutation.name)
            print(f"{outcome:18}{mutation.name:40}{mutation.breaks}", flush=True)
            if verbose or outcome != NOTICED:
                print(told, flush=True)
    minutes = (time.monotonic() - begin) / 60
    counts = ", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items())
    print(f"{len(chosen)} mutations in {minutes:.1f} minutes: {counts}")
    return 0 if set(outcomes) == {NOTICED} else 1


def outcome_of(mutation: Mutation, original: pathlib.Path, place: pathlib.Path) -> tuple[str, str]:
    """Tests a mutation in a copy of its own; returns the outcome and the output behind it."""
    problem = mutation.problem(original)
    if problem is not None:
        return STALE, problem
    link_project(original, place)
    path = place / mutation.file
    mutated = path.read_text(encoding="utf-8").replace(mutation.old, mutation.new)
    replace(path, ALLOW_UNUSED + mutated if mutation.is_cxx else mutated)
    if mutation.is_cxx:
        try:
            build(place)
        except MutateError as error:
            return NO_ANSWER, str(error)
    status, printed = run_tests(place, list(mutation.tests), "-x")
    if status == 0:
        return NOT_NOTICED, "all of these pass: " + ", ".join(mutation.tests)
    # A negative status means that a signal ended the process: it crashed.
    return (NOTICED if status == FAILED or status < 0 else NO_ANSWER), printed[-6000:]


if __name__ == "__main__":
    sys.exit(main())

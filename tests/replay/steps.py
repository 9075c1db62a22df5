"""The steps of `make replay`, from two builds to the report."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from replay import record_rewrites
from replay.builds import build, build_commit, library_in
from replay.commits import ROOT
from replay.compare import report
from replay.corpus import Corpus
from replay.processes import ReplayError, end_of, run
from replay.rewrite_sides import TESTS, Side, rewrite_sides, shares

FROZEN_GRAPHS = ROOT / "build" / "benchmarks" / "graphs"


def replay(
    commit: str, arguments: argparse.Namespace, added: dict[str, bool], folder: pathlib.Path
) -> int:
    """Runs all steps in a folder; returns the status."""
    home = (arguments.keep or folder).resolve() / f"{commit[:12]}-tf-{tf.__version__}"
    with timed("building the working tree"):
        tree = Side("the working tree", build(ROOT, folder / "tree"), folder / "tree")
    built = unless_kept(
        home / "library",
        f"building {arguments.reference} ({commit[:12]})",
        lambda new: build_commit(commit, new),
    )
    kind = "-quick" if arguments.quick else ""
    corpus = Corpus(
        unless_kept(
            home / f"corpus{kind}",
            "making the corpus",
            lambda new: make_corpus(new, tree.library, arguments.quick, folder),
        )
    )
    cases = list(corpus.cases())
    kind += "".join(f"-{name}-{value}" for name, value in sorted(added.items()))
    results = home / f"results{kind}-{shares()}"
    reference = Side(arguments.reference, library_in(built), results, added)
    complete = results / "complete"
    with timed(f"rewriting {len(cases)} times"):
        rewrite_sides(corpus.folder, [tree] if complete.exists() else [reference, tree])
    complete.touch()
    return report(cases, reference, tree)


def unless_kept(
    folder: pathlib.Path, what: str, make: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """The folder, as an earlier run left it, or filled now."""
    if folder.exists():
        print(f"{what}: kept", flush=True)
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(str(partial), ignore_errors=True)
    partial.mkdir(parents=True)
    with timed(what):
        make(partial)
    partial.rename(folder)
    return folder


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints a step and how long it took."""
    print(f"{what} ...", end=" ", flush=True)
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def make_corpus(
    corpus: pathlib.Path, library: pathlib.Path, quick: bool, folder: pathlib.Path
) -> None:
    """Records the rewrites of tests, and fills the corpus with them and the other graphs.

    Raises:
        ReplayError: the working tree's code fails.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, TESTS, ROOT / "benchmarks"])),
        "NPU_PRECISION_LIBRARY": str(library),
    }
    recorded, log = folder / "recorded", folder / "corpus.log"
    record_tests(recorded, environment, log)
    command = [sys.executable, "-m", "replay.make_corpus", str(corpus), str(FROZEN_GRAPHS)]
    command += [*map(str, sorted(recorded.iterdir())), *["--quick"] * quick]
    if run(command, log, ROOT, environment) != 0:
        raise ReplayError(f"the corpus cannot be made:\n{end_of(log)}")


def record_tests(folder: pathlib.Path, environment: dict[str, str], log: pathlib.Path) -> None:
    """Runs the tests of text graphs and records their rewrites; some tests may fail.

    Raises:
        ReplayError: pytest cannot run them.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "replay.record_rewrites"]
    command += ["-p", "no:cacheprovider", "-n", str(os.cpu_count()), "--dist", "worksteal"]
    command += map(str, files_of_text_graphs())
    environment = {**environment, record_rewrites.FOLDER_VARIABLE: str(folder)}
    status = run(command, log, ROOT, environment)
    if status > 1:
        raise ReplayError(f"the tests do not run:\n{end_of(log)}")
    if status == 1:
        print(f"({end_of(log).splitlines()[-1]})", end=" ", flush=True)


def files_of_text_graphs() -> list[pathlib.Path]:
    """The tests that check rewrites of text graphs; random graphs are added separately."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("test_*.py"))}
    return [
        path
        for path, text in texts.items()
        if "check_rewrite(" in text and "hypothesis" not in text
    ]

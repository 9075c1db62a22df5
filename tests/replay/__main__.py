"""Shows whether the working tree rewrites graphs as a commit does, byte for byte.

    make replay REF=commit [REPLAY_FLAGS="--quick --keep DIR"]

builds the optimizer of the commit and that of the working tree, makes a corpus with the working
tree's code, has each library rewrite it in processes of its own, and compares GraphDefs and
ledgers. The status is 0 if all are the same, 1 if any differ, 2 if there is no answer.
Only the working tree's own objects and the frozen graphs of the benchmarks are kept, both under
build/. --keep also keeps the commit's library, the corpus, and the results of that library. Later
runs with the same commit then only do the working tree's part, on the same graphs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import tensorflow as tf

from replay import record_rewrites
from replay.builds import ROOT, build, build_commit, commit_of, library_in
from replay.compare import report
from replay.corpus import Corpus
from replay.processes import ReplayError, end_of, run
from replay.rewrite_sides import TESTS, Side, rewrite_sides, shares

FROZEN_GRAPHS = ROOT / "build" / "benchmarks" / "graphs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make replay", allow_abbrev=False)
    parser.add_argument("reference", metavar="REF", help="the commit to compare with")
    parser.add_argument(
        "--quick", action="store_true", help="leave out the graphs of the benchmarks"
    )
    parser.add_argument(
        "--keep",
        type=pathlib.Path,
        metavar="DIR",
        help="keep there what a run with the same commit can use again",
    )
    parser.add_argument(
        "--reference-option",
        action="append",
        default=[],
        metavar="NAME=true|false",
        help="set an option that only the commit has",
    )
    arguments = parser.parse_args()
    given = [option.partition("=") for option in arguments.reference_option]
    for name, _, value in given:
        if value not in ("true", "false"):
            parser.error(f"--reference-option: got {name}={value}, expected true or false")
    added = {name: value == "true" for name, _, value in given}
    # An interrupt: temporary files go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="npu_precision_replay_") as folder:
            return replay(arguments, added, pathlib.Path(folder))
    except ReplayError as error:
        print(f"\nmake replay: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nmake replay: interrupted", file=sys.stderr)
    return 2


def replay(arguments: argparse.Namespace, added: dict[str, bool], folder: pathlib.Path) -> int:
    """Runs all steps in a folder; returns the status."""
    commit = commit_of(arguments.reference)
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


if __name__ == "__main__":
    sys.exit(main())

"""Proves that the working tree rewrites graphs as a commit does, byte for byte.

    make replay REF=commit [REPLAY_FLAGS="--quick --keep-build DIR"]

builds the optimizer of the commit and that of the working tree, makes a corpus with the working
tree's code, has each library rewrite it in processes of its own, and compares GraphDefs and
ledgers. The status is 0 where all are the same, 1 where any differ, 2 where it could not be done.
Nothing is kept but the working tree's own objects and the frozen graphs of the benchmarks, both
under build/.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from replay import builds, record_rewrites  # noqa: E402
from replay.compare import differences, same  # noqa: E402
from replay.corpus import Case, Corpus  # noqa: E402

ROOT = builds.ROOT
FROZEN_GRAPHS = ROOT / "build" / "benchmarks" / "graphs"
SHOWN_CASES = 10
NAMED_CASES = 50
MOST_CRASHES = 20


class ReplayError(Exception):
    """Why the sides could not be compared."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make replay", allow_abbrev=False)
    parser.add_argument("reference", metavar="REF", help="the commit to compare with")
    parser.add_argument(
        "--quick", action="store_true", help="leave out the graphs of the benchmarks"
    )
    parser.add_argument(
        "--keep-build", type=pathlib.Path, metavar="DIR", help="keep libraries of commits there"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # So that what is temporary goes.
    try:
        with tempfile.TemporaryDirectory(prefix="npu_precision_replay_") as folder:
            return replay(arguments, pathlib.Path(folder))
    except (builds.BuildError, ReplayError) as error:
        print(f"make replay: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 2


def replay(arguments: argparse.Namespace, folder: pathlib.Path) -> int:
    """Does it all in a folder; returns the status."""
    commit = builds.commit_of(arguments.reference)
    with timed("build the working tree"):
        tree = builds.build(ROOT, folder / "tree", folder / "tree.log")
    with timed(f"build {commit[:12]}"):
        (folder / "reference").mkdir()
        reference = builds.build_commit(commit, folder / "reference", arguments.keep_build)
    corpus = Corpus(folder / "corpus")
    with timed("make the corpus"):
        make_corpus(corpus, tree, folder, arguments.quick)
    cases = list(corpus.cases())
    with timed(f"rewrite {len(cases)} cases on each side"):
        rewrite(corpus, cases, {"reference": reference, "tree": tree}, folder)
    return report(cases, folder, arguments.reference)


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Prints what is done, and how long it took."""
    print(f"{what} ...", end=" ", flush=True)
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def make_corpus(corpus: Corpus, library: pathlib.Path, folder: pathlib.Path, quick: bool) -> None:
    """Records the tests of text graphs, and adds the other graphs."""
    recorded = folder / "recorded"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)]),
        "NPU_PRECISION_LIBRARY": str(library),
        record_rewrites.FOLDER_VARIABLE: str(recorded),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "replay.record_rewrites"]
    command += ["-n", str(os.cpu_count()), "--dist", "worksteal", "-p", "no:cacheprovider"]
    tests = subprocess.run(
        [*command, *map(str, files_of_text_graphs())],
        cwd=str(ROOT),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if tests.returncode > 1:
        raise ReplayError(f"the tests cannot be recorded:\n{tests.stdout[-4000:]}{tests.stderr}")
    if tests.returncode:
        print(f"(some tests fail: {tests.stdout.splitlines()[-1]})", end=" ", flush=True)
    command = [sys.executable, str(TESTS / "replay" / "make_corpus.py"), str(corpus.folder)]
    command += [str(FROZEN_GRAPHS), *map(str, sorted(recorded.iterdir()))]
    process = subprocess.run(
        command + ["--quick"] * quick,
        cwd=str(ROOT),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise ReplayError(f"the corpus cannot be made:\n{process.stderr[-4000:]}")


def files_of_text_graphs() -> list[pathlib.Path]:
    """The tests that check rewrites of text graphs; random graphs have a part of their own."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "check_rewrite import check_rewrite" in text and "hypothesis" not in text:
            found.append(path)
    return found


def rewrite(
    corpus: Corpus, cases: list[Case], libraries: dict[str, pathlib.Path], folder: pathlib.Path
) -> None:
    """Writes results of each side, with a process per core over all.

    Where a process dies, the case that it was at has that for its result, and the next goes on.
    """
    step = shares()
    script = str(TESTS / "replay" / "rewrite_corpus.py")
    waiting = [(side, first, first) for first in range(step) for side in libraries]
    crashes = collections.Counter()
    running: dict[tuple[str, int], tuple[subprocess.Popen[str], pathlib.Path]] = {}
    try:
        for side, share, _ in waiting:
            running[side, share] = start(
                script, libraries[side], corpus, folder, side, share, share
            )
        while running:
            for (side, share), (process, errors) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[side, share]
                if process.returncode == 0:
                    continue
                results = results_file(folder, side, share)
                done = len(results.read_text().splitlines()) if results.exists() else 0
                crashes[side] += 1
                last = errors.read_text(errors="replace")[-2000:]
                if crashes[side] > MOST_CRASHES or process.returncode == 1:
                    raise ReplayError(f"{side}: the rewriting process fails:\n{last}")
                crash = {"error": f"the process died: {process.returncode}"}
                with results.open("a") as file:
                    file.write(json.dumps({**crash, "ledgers": {}, "unknown": []}) + "\n")
                following = share + (done + 1) * step
                running[side, share] = start(
                    script, libraries[side], corpus, folder, side, share, following
                )
            time.sleep(0.2)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()


def shares() -> int:
    """In how many parts each side does the cases."""
    return max(1, (os.cpu_count() or 1) // 2)


def start(
    script: str,
    library: pathlib.Path,
    corpus: Corpus,
    folder: pathlib.Path,
    side: str,
    share: int,
    first: int,
) -> tuple[subprocess.Popen[str], pathlib.Path]:
    """A process that rewrites a share from case `first` on, and the file with what it complains."""
    errors = folder / f"{side}.{share}.errors"
    command = [sys.executable, script, str(library), str(corpus.folder)]
    command += [str(results_file(folder, side, share)), str(first), str(shares())]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    with errors.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, text=True)
    return process, errors


def results_file(folder: pathlib.Path, side: str, share: int) -> pathlib.Path:
    return folder / f"{side}.{share}.jsonl"


def report(cases: list[Case], folder: pathlib.Path, reference: str) -> int:
    """Prints what differs; returns the status."""
    unknown = {"reference": collections.Counter(), "tree": collections.Counter()}
    differing = []
    for share in range(shares()):
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(results_file(folder, side, share).open()) for side in unknown
            ]
            rows = zip(*files)
            for case, lines in itertools.zip_longest(cases[share :: shares()], rows):
                sides = [json.loads(line) for line in lines]
                for side, result in zip(unknown, sides):
                    unknown[side].update(result["unknown"])
                if not same(*sides):
                    shown = len(differing) < SHOWN_CASES
                    differing.append((case, differences(*sides) if shown else []))
    for case, lines in differing[:NAMED_CASES]:
        print("\n".join([f"\n{case.described()}", *lines]))
    if len(differing) > NAMED_CASES:
        print(f"\n... and {len(differing) - NAMED_CASES} more")
    for side, whose in (("reference", reference), ("tree", "the working tree")):
        for name, count in sorted(unknown[side].items()):
            print(f"{whose} does not know {name}, which {count} cases set: left out there")
    graphs = len({case.graph for case in cases})
    print(
        f"{graphs} graphs, {len(cases)} rewrites on each side: "
        f"{len(cases) - len(differing)} identical, {len(differing)} differing"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

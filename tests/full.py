"""`make test-full`: the checks that take too long for every change, in parts of under an hour.

    make test-full                          the parts that have not passed yet for this commit
    make test-full PARTS=sanitize,tf115     these, whether they have passed or not

build/test-full/COMMIT.json remembers what has passed, with the seconds and the seed. A working tree
with changes is tested too, but what passes there is remembered for no commit. Each run takes new
seeds for the random corpora; SEED=NUMBER repeats a run.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import secrets
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEMORY = ROOT / "build" / "test-full"
LIMIT = 60  # Minutes of a part, on two quiet cores.
WORKERS = ["-n", "2", "--dist", "worksteal"]
# A missing Python would skip its session, and look like a pass.
NOX = [str(pathlib.Path(sys.executable).with_name("nox")), "--error-on-missing-interpreters"]

# By part: its purpose and its command. {pytest} stands for the flags of pytest.
PARTS = {
    "tf215": (
        "every test on the default TensorFlow, the page in the oldest browser and a recent one",
        [sys.executable, "-m", "pytest", "{pytest}"],
    ),
    "tf115": ("every test on TensorFlow 1.15", [*NOX, "-s", "tf115", "--", "{pytest}"]),
    "tf221": ("every test on TensorFlow 2.21", [*NOX, "-s", "tf221", "--", "{pytest}"]),
    "launchers": (
        "the script of many workers under Ray Train, and a manifest for Kubeflow",
        [*NOX, "-s", "launchers", "--", "{pytest}"],
    ),
    "handoffs": (
        "lowered models in ONNX Runtime, OpenVINO and TensorFlow Lite",
        [*NOX, "-s", "handoffs", "--", "{pytest}"],
    ),
    "backends": (
        "decisions in Keras on JAX and PyTorch, and in AutoCast",
        [*NOX, "-s", "backends", "--", "{pytest}"],
    ),
    "sanitize": (
        "the tests of the C++ code under AddressSanitizer and UndefinedBehaviorSanitizer",
        [sys.executable, "tests/sanitize.py", "{pytest}"],
    ),
    "mutate": ("that tests notice each line of a list that is made wrong", ["make", "mutate"]),
    "bazel": ("the library and the driver of the tests, built by Bazel", ["make", "bazel-build"]),
}


def git(*arguments: str) -> str:
    """Runs git and returns its output."""
    return subprocess.check_output(["git", *arguments], cwd=str(ROOT), universal_newlines=True)


def state() -> tuple[str, bool]:
    """The commit, and whether the working tree is the commit's."""
    return git("rev-parse", "HEAD").strip(), not git("status", "--porcelain").strip()


def passed(commit: str) -> dict[str, dict[str, float]]:
    """The seconds and the seed of each part that has passed for the commit, by its name."""
    file = MEMORY / f"{commit}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def remember(commit: str, part: str, seconds: float, seed: int) -> None:
    """Adds a part to those that have passed."""
    MEMORY.mkdir(parents=True, exist_ok=True)
    known = {**passed(commit), part: {"seconds": round(seconds), "seed": seed}}
    # The file is complete or absent, even if this process is interrupted.
    written = MEMORY / f"{commit}.json.part"
    written.write_text(json.dumps(known, indent=1) + "\n")
    os.replace(str(written), str(MEMORY / f"{commit}.json"))


def run(part: str, seed: int) -> tuple[bool, float]:
    """Runs a part; returns whether it passed, and its seconds."""
    flags = ["--tier=full", f"--hypothesis-seed={seed}", *WORKERS]
    command = []
    for word in PARTS[part][1]:
        command += flags if word == "{pytest}" else [word]
    print(f"== {part}: {PARTS[part][0]}\n{' '.join(command)}", flush=True)
    begin = time.monotonic()
    status = subprocess.run(command, cwd=str(ROOT)).returncode
    return status == 0, time.monotonic() - begin


def table(commit: str, clean: bool, ran: dict[str, tuple[bool, float]]) -> str:
    """A table of the parts: passed, failed or not run."""
    known = passed(commit)
    lines = [f"make test-full for {commit[:12]}" + ("" if clean else ", with changes")]
    for part, (what, _) in PARTS.items():
        if part in ran:
            told = f"{'passed' if ran[part][0] else 'FAILED':8}{ran[part][1] / 60:6.1f} min"
        elif part in known:
            told = f"{'passed':8}{known[part]['seconds'] / 60:6.1f} min"
        else:
            told = f"{'not run':8}{'':10}"
        lines.append(f"  {part:10}{told}  {what}")
    return "\n".join([*lines, f"A part may take {LIMIT} minutes on two quiet cores."])


def main() -> int:
    """Runs the parts; the status is 0 if all of those have passed."""
    parser = argparse.ArgumentParser(
        prog="make test-full",
        usage="make test-full [PARTS=PART,...] [SEED=NUMBER]",
        description=__doc__.partition("\n")[0],
    )
    parser.add_argument("--parts", default="", help=f"separated by commas: {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, help="of the random corpora; new if not given")
    parser.add_argument("--check", action="store_true", help="look at the arguments, and end")
    arguments = parser.parse_args()
    named = [part for part in arguments.parts.split(",") if part]
    unknown = sorted(set(named) - set(PARTS))
    if unknown:
        parser.error(f"PARTS: unknown part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if arguments.check:
        return 0

    commit, clean = state()
    known = passed(commit) if clean else {}
    ran = {}
    for part in named or [part for part in PARTS if part not in known]:
        seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
        ran[part] = run(part, seed)
        # Edits or commits made meanwhile may not have been tested.
        if ran[part][0] and clean and state() == (commit, True):
            remember(commit, part, ran[part][1], seed)
    print(table(commit, clean, ran))
    return 0 if all(good for good, _ in ran.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

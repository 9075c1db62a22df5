"""Shows whether the working tree rewrites graphs as a commit does, byte for byte.

    make replay REF=COMMIT [REPLAY_FLAGS="--quick --keep DIR"]

builds the optimizer of the commit and that of the working tree, makes a corpus with the working
tree's code, has each library rewrite it in processes of its own, and compares GraphDefs and
ledgers. The status is 0 if all are the same, 1 if any differ, 2 if they cannot be compared.
Only the working tree's own objects and the frozen graphs of the benchmarks are kept, both under
build/. --keep also keeps the commit's library, the corpus, and the results of that library. Later
runs with the same commit then only do the working tree's part, on the same graphs.
"""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
import tempfile

from replay.commits import commit_of
from replay.processes import ReplayError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make replay",
        usage='make replay REF=COMMIT [REPLAY_FLAGS="FLAG ..."]',
        allow_abbrev=False,
    )
    parser.add_argument("reference", metavar="COMMIT", nargs="?", help="the one to compare with")
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
    if arguments.reference is None:
        parser.error("REF: got none, expected a branch, a tag or a hash, as in REF=main")
    given = [option.partition("=") for option in arguments.reference_option]
    for name, _, value in given:
        if value not in ("true", "false"):
            parser.error(f"--reference-option: got {name}={value}, expected true or false")
    added = {name: value == "true" for name, _, value in given}
    # An interrupt: temporary files go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        commit = commit_of(arguments.reference)
        # This imports TensorFlow, which takes a while; a mistake in REF is reported before.
        from replay.steps import replay

        with tempfile.TemporaryDirectory(prefix="npu_precision_replay_") as folder:
            return replay(commit, arguments, added, pathlib.Path(folder))
    except ReplayError as error:
        print(f"\nmake replay: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nmake replay: interrupted", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

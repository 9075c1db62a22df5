"""A process that runs programs under one contender: one JSON line in, one out, for each.

A program that crashes the process or never ends does not affect the others.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import sys
import tempfile
import time


def lowered(folder: str) -> dict[str, list[str]]:
    """The names of the lowered nodes, by op type, from the ledgers of a program."""
    import npu_precision

    found = collections.defaultdict(list)
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        ledger = npu_precision.Ledger.from_json(path.read_text(encoding="utf-8"))
        for node in ledger.nodes:
            if node.decision == "lowered":
                found[node.op].append(node.name)
    return found


def answer(programs: dict, contender: str, request: dict) -> dict:
    """Runs the requested program; returns the reply."""
    from numerics import contender as contenders
    from numerics import runs

    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, object] = {}
        if contender in contenders.MODES:
            options = {"report_dir": folder}
            if request.get("edits"):
                options["mixlist_edits"] = json.dumps(request["edits"])
        try:
            program = programs[request["program"]]
            outcome = runs.run(program, contender, request["compiled"], **options)
        except runs.DoesNotApply:
            return {"does_not_apply": True}
        except Exception as error:  # It goes into the table.
            return {"error": f"{type(error).__name__}: {error}"}
        return {
            "values": outcome.values,
            "start": outcome.start,
            "lowered": lowered(folder),
            "seconds": time.perf_counter() - begin,
        }


def main(contender: str) -> None:
    """Answers requests until standard input ends. TensorFlow's output goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from numerics.program import corpus

    programs = corpus()
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        reply = answer(programs, contender, json.loads(line))
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Times steps on a GPU next to TF32, TensorFlow's mixed precision and Keras': `make bench-gpu`.

    make bench-gpu
    make bench-gpu GPU_FLAGS="--only encoder --seconds 10"
    make bench-gpu GPU_FLAGS="--failed-from build/gpu/bench.json"
    make bench-gpu GPU_FLAGS=--rehearse

All contenders of a row take turns in one process. Rows are built and traced side by side, and
measured one after the other; what is built meanwhile may disturb a round or two, and not a median.
The file has each row once it is measured: a run that is cut off keeps what it has.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Several rows are on the GPU, one of them at work.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import gpu_rows  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_table  # noqa: E402
import live_models  # noqa: E402
import tensorflow as tf  # noqa: E402
from support.free_path import free_path  # noqa: E402

from npu_precision.options import PrecisionOptions  # noqa: E402

NAMES = {row.name: row for row in gpu_rows.ROWS}
# What comes before a row's turn, such as tracing, takes longer than the turn.
_AT_ONCE = 4
_TAIL = 2000
# A rehearsal takes one row of each kind that needs no minutes of XLA.
_REHEARSED = ("lstm 128 inference", "lstm 128 adam", "encoder 32 frozen", "unet 16 sgd")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-gpu",
        description=__doc__.partition("\n")[0],
        epilog=f"The rows, in their order: {'; '.join(NAMES)}.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only", action="append", help="part of the names of rows, such as sgd; again, too"
    )
    parser.add_argument(
        "--failed-from",
        type=pathlib.Path,
        help="the rows that such a file lacks, or where one failed",
    )
    parser.add_argument(
        "--rewrites",
        action="append",
        default=[],
        help="also time float16 with this option, such as all,flatten_mat_muls: what is named runs "
        "on GPUs, too; again, too",
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of rounds, for each row; 8")
    parser.add_argument("--minutes", type=float, default=4.5, help="begin no row after them; 4.5")
    parser.add_argument("--row-minutes", type=float, default=4.0, help="end a row after them; 4")
    parser.add_argument("--rehearse", action="store_true", help="few rows, small, on the CPU")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "gpu" / "bench.json")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # the process of a row
    options = parser.parse_args()
    for text in options.rewrites:
        _check_rewrites(parser, text)
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if not has_gpu and not options.rehearse:
        parser.exit(
            1,
            f"make bench-gpu: TensorFlow {tf.__version__} sees no GPU here; GPU_FLAGS=--rehearse "
            "runs some rows on the CPU\n",
        )
    obstacle = live_models.obstacle()
    if obstacle:
        parser.exit(1, f"make bench-gpu: {obstacle}\n")
    options.names = [
        name
        for name in (_REHEARSED if options.rehearse else NAMES)
        if any(part in name for part in options.only or [""])
    ]
    if options.failed_from:
        options.names = [name for name in options.names if not _is_good(parser, options, name)]
    if not options.names:
        given = f"--only={options.only}" if options.only else f"--failed-from={options.failed_from}"
        parser.error(f"{given}: no row is left: none has that in its name, or all are measured")
    return options


def _check_rewrites(parser: argparse.ArgumentParser, text: str) -> None:
    try:
        PrecisionOptions("allow_mix_precision", rewrites=text)
    except ValueError as error:
        parser.error(f"--rewrites: {error}")


def _is_good(parser: argparse.ArgumentParser, options: argparse.Namespace, name: str) -> bool:
    try:
        earlier = json.loads(options.failed_from.read_text())["rows"]
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"--failed-from={options.failed_from}: {error}, expected a file of bench-gpu")
    return name in earlier and not earlier[name]["failed"]


def machine() -> dict[str, object]:
    """The GPU and the versions that the figures depend on."""
    details = [
        tf.config.experimental.get_device_details(device)
        for device in tf.config.list_physical_devices("GPU")
    ]
    return {
        "gpus": [detail.get("device_name") for detail in details],
        "compute_capability": [detail.get("compute_capability") for detail in details],
        "cores": os.cpu_count(),
        "tensorflow": tf.__version__,
        "day": time.strftime("%Y-%m-%d"),
        "flags": sys.argv[1:],
    }


def entry(row: gpu_rows.Row, options: argparse.Namespace) -> dict[str, object]:
    """The figures of a row, in the process of this row."""
    begin = time.perf_counter()
    made = gpu_steps.steps(row, options.rehearse, options.rewrites)
    for step in made.values():
        step.prepare()
    prepared = time.perf_counter() - begin
    with open(options.out.with_suffix(".turn"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        begin = time.perf_counter()
        figures, failed = gpu_steps.measured(made, options.seconds)
    return {
        "contenders": {name: dataclasses.asdict(each) for name, each in figures.items()},
        "failed": failed,
        "prepared_seconds": prepared,
        "measured_seconds": time.perf_counter() - begin,
    }


def in_own_process(name: str, options: argparse.Namespace, end: float) -> dict[str, object] | None:
    """The entry of a row; None if it would begin too late."""
    if time.monotonic() > end:
        return None
    command = [sys.executable, __file__, f"--row={name}", f"--seconds={options.seconds}"]
    command += [f"--out={options.out}", *(["--rehearse"] if options.rehearse else [])]
    command += [f"--rewrites={text}" for text in options.rewrites]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60 * options.row_minutes
        )
    except subprocess.TimeoutExpired:
        return _of_failed(f"no end after {options.row_minutes} minutes")
    if done.returncode:
        return _of_failed(f"{done.stderr[-_TAIL:]}\nstatus {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def _of_failed(error: str) -> dict[str, object]:
    return {"contenders": {}, "failed": {"the process": error}}


def main() -> int:
    """Returns 1 if a contender failed, or a row was not measured."""
    options = arguments()
    # Functions of the same text, one for each contender, look like a function that is traced anew.
    tf.get_logger().setLevel("ERROR")
    if options.row:
        print(json.dumps(entry(NAMES[options.row], options)))
        return 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out = free_path(options.out)
    found = {"machine": machine(), "rows": {}, "not_run": []}
    end = time.monotonic() + 60 * options.minutes
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(in_own_process, name, options, end): name for name in options.names}
        for future in concurrent.futures.as_completed(running):
            name, result = running[future], future.result()
            if result is None:
                found["not_run"].append(name)
                continue
            found["rows"][name] = result
            unfinished = options.out.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(found, indent=1) + "\n")
            unfinished.rename(options.out)
            print(gpu_table.line(name, result), flush=True)
    with contextlib.suppress(FileNotFoundError):  # No row had its turn.
        options.out.with_suffix(".turn").unlink()
    gpu_table.show(found)
    print(options.out)
    return int(bool(found["not_run"]) or any(row["failed"] for row in found["rows"].values()))


if __name__ == "__main__":
    sys.exit(main())

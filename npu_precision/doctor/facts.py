"""Collects the facts about an installation, from the system and from a process with TensorFlow.

This file, findings.py and cli/doctor.py are imported where TensorFlow may be missing: they import
nothing that needs it.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from npu_precision import _library_file, _version
from npu_precision.doctor import examination

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# The instructions, as /proc/cpuinfo calls them, with which a CPU computes in the low types.
CPU_FEATURES = ("avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16")
ONEDNN_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
_SECONDS = 300
_ONEDNN_SAYS = {"version": r"info,oneDNN v(\S+)", "instructions": r"info,cpu,isa:(.*)"}


def collect(measure: bool, debug: bool) -> dict[str, Any]:
    """Returns all facts, ready for JSON.

    Args:
        measure: whether to time the modes.
        debug: whether to let TensorFlow log to stderr.
    """
    steps = [step for step in examination.STEPS if measure or step != "costs"]
    examined, errors, printed = examine(steps, debug)
    tensorflow = examined.get("tensorflow")
    onednn = None
    gpus = None
    if tensorflow is not None:
        gpus = tensorflow.pop("gpus")
        onednn = {**tensorflow.pop("onednn"), "variable": os.environ.get(ONEDNN_VARIABLE)}
        for key, pattern in _ONEDNN_SAYS.items():
            match = re.search(pattern, printed)
            onednn[key] = match and match.group(1)
    return {
        "npu_precision": {"version": _version.__version__, "folder": str(PACKAGE)},
        "python": {
            "version": platform.python_version(),
            "executable": sys.executable,
            "platform": platform.platform(),
        },
        "packages": examined.get("packages"),
        "tensorflow": tensorflow,
        "library": _library(examined.get("library"), tensorflow),
        "libraries": [
            f"{major}.{minor}"
            for major, minor in sorted(_library_file.libraries_in(PACKAGE / "_lib"))
        ],
        "report_page": examined.get("report_page"),
        "cpu": cpu(),
        "nvidia_driver": pathlib.Path("/proc/driver/nvidia/version").exists(),
        "gpus": gpus,
        "onednn": onednn,
        "costs": examined.get("costs"),
        "errors": errors,
    }


def cpu(info: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> dict[str, Any]:
    """The CPU; its "features" are None if the system does not list them."""
    try:
        text = info.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    known = flags and flags.group(1).split()
    return {
        "model": model.group(1) if model else platform.machine(),
        "count": os.cpu_count(),
        "features": known and {name: name in known for name in CPU_FEATURES},
    }


def examine(steps: Sequence[str], debug: bool) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Runs examination.py in a process of its own.

    Returns:
        The facts by step; the failed step, as [{"step", "error", "missing"}] or []; and the output
        of the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "examined"
        file.touch()
        environment = {
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # Other processes may use the memory of a GPU.
            **os.environ,
            "ONEDNN_VERBOSE": "1",
            "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        }
        if debug:
            environment["TF_CPP_MIN_LOG_LEVEL"] = "0"
        try:
            process = subprocess.run(
                [sys.executable, str(PACKAGE / "doctor" / "examination.py"), str(file), *steps],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if debug else subprocess.DEVNULL,
                timeout=_SECONDS,
                text=True,
                errors="replace",
            )
            ended, printed = _how_it_ended(process.returncode), process.stdout
        except subprocess.TimeoutExpired:
            ended, printed = f"no end after {_SECONDS} s", ""
        done = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    errors = [each for each in done if "error" in each]
    if len(done) < len(steps) and not errors:
        errors = [{"step": steps[len(done)], "error": ended, "missing": None}]
    return {each["step"]: each["result"] for each in done if "result" in each}, errors, printed


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"the process that tried it ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the process that tried it crashed ({name})"


def _library(
    loaded: dict[str, Any] | None, tensorflow: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The loaded library: "path", "minor", "proved", and whether a variable has "given" it."""
    if loaded is None or tensorflow is None:
        return None
    path = pathlib.Path(loaded["path"])
    minor = path.name[len(_library_file.PREFIX) : -len(_library_file.SUFFIX)]
    return {
        "path": str(path),
        "minor": minor if path.name.startswith(_library_file.PREFIX) else None,
        "given": bool(os.environ.get(_library_file.PATH_VARIABLE)),
        "proved": _library_file.is_proved(path, tensorflow["version"], tensorflow["folder"]),
    }

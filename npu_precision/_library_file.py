"""Finds the library for a TensorFlow, and proves once that the two work together.

A wheel has a library for each minor version of TensorFlow that it supports. Within a minor version
TensorFlow keeps its binary interface, but other builds of it (of a distribution, with patches) may
not. So the first import of an installation makes another process rewrite a small graph: a crash
happens there, and not here.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable

PREFIX, SUFFIX = "npu_optimizer.tf-", ".so"
# Build systems that keep the library elsewhere (Bazel) set this variable to its path.
PATH_VARIABLE = "NPU_PRECISION_LIBRARY"
_UNTESTED_VARIABLE = "NPU_PRECISION_ALLOW_UNTESTED"
MISFIT = "It was probably built for another TensorFlow"
REMEDY = (
    "build it for this TensorFlow with `make build` in a checkout, or with "
    "`pip install --no-build-isolation --force-reinstall --no-deps --no-binary npu-precision "
    "npu-precision`"
)
_SELF_REWRITE_SECONDS = 300


def minor_of(version: str) -> tuple[int, int]:
    """Parses a version: "2.15.1" and "2.15.0-rc1" give (2, 15).

    Raises:
        ImportError: the text does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ImportError(f"got TensorFlow {version!r}, expected a version like 2.15.1")
    return int(match.group(1)), int(match.group(2))


def libraries_in(folder: pathlib.Path) -> dict[tuple[int, int], pathlib.Path]:
    """The paths of the libraries, by the minor version of TensorFlow that each is built for."""
    return {
        minor_of(file.name[len(PREFIX) : -len(SUFFIX)]): file
        for file in folder.glob(f"{PREFIX}*{SUFFIX}")
    }


def find(version: str, folder: pathlib.Path) -> pathlib.Path:
    """The path of the library for a TensorFlow.

    Args:
        version: the version of TensorFlow, as 2.15.1.
        folder: holds libraries for one or more minor versions.

    Raises:
        ImportError: there is none; the text says what to do about it.
    """
    libraries = libraries_in(folder)
    wanted = minor_of(version)
    if wanted in libraries:
        return libraries[wanted]
    if not libraries:
        raise ImportError(
            f"npu_precision has no library for TensorFlow {version}, nor for any other, in "
            f"{folder}: {REMEDY}."
        )
    if os.environ.get(_UNTESTED_VARIABLE) == "1":
        return libraries[_nearest(wanted, libraries)]
    known = ", ".join(f"{major}.{minor}" for major, minor in sorted(libraries))
    if wanted > max(libraries):
        raise ImportError(
            f"TensorFlow {version} is newer than those that npu_precision has libraries for "
            f"({known}): install one of these, or set {_UNTESTED_VARIABLE}=1 to try the nearest "
            f"library, or {REMEDY}."
        )
    raise ImportError(
        f"npu_precision has no library for TensorFlow {version}, the one that is imported here "
        f"(there are those for {known}, in {folder}): install one of these, or {REMEDY}."
    )


def _nearest(wanted: tuple[int, int], known: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The newest version that is older than the wanted one, or else the oldest."""
    return max([each for each in known if each < wanted], default=min(known))


def prove(library: pathlib.Path, version: str, tensorflow: str) -> None:
    """Has another process rewrite a small graph with the library, once per installation.

    Args:
        library: the path of the library.
        version: the version of TensorFlow, as 2.15.1.
        tensorflow: the folder that TensorFlow is imported from.

    Raises:
        ImportError: the process failed or crashed.
    """
    if not os.path.basename(sys.executable or "").startswith("python"):
        return  # A program embeds this Python, and would be started again.
    if is_proved(library, version, tensorflow):
        return
    _run_self_rewrite(library, version)
    for file in _proofs(library, version, tensorflow):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            return
        except OSError:
            continue


def is_proved(library: pathlib.Path, version: str, tensorflow: str) -> bool:
    """Whether prove() has succeeded with the same arguments."""
    return any(file.exists() for file in _proofs(library, version, tensorflow))


def _proofs(library: pathlib.Path, version: str, tensorflow: str) -> list[pathlib.Path]:
    """The files that record a proof. One is enough, because the first may not be writable."""
    # Not beside the library: pip would leave the files and their folder behind when it uninstalls.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    stat = library.stat()
    what = f"{library} {stat.st_size} {stat.st_mtime_ns} {version} {tensorflow}"
    name = f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.proved"
    return [
        pathlib.Path(folder, "npu_precision", name) for folder in (cache, tempfile.gettempdir())
    ]


def _run_self_rewrite(library: pathlib.Path, version: str) -> None:
    environment = {
        **os.environ,
        PATH_VARIABLE: str(library),
        "PYTHONPATH": os.pathsep.join(os.path.abspath(folder) for folder in sys.path),
        "CUDA_VISIBLE_DEVICES": "",  # This process needs the memory of the GPU.
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    try:
        process = subprocess.run(
            [sys.executable, "-m", "npu_precision.offline.self_rewrite"],
            cwd=str(library.parent),  # Python looks for modules in this folder, which has none.
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SELF_REWRITE_SECONDS,
            text=True,
        )
    except subprocess.TimeoutExpired:
        why = f"no end after {_SELF_REWRITE_SECONDS} s"
    else:
        if process.returncode == 0:
            return
        lines = process.stdout.strip().splitlines()
        why = f"signal {-process.returncode}" if process.returncode < 0 else (lines or ["?"])[-1]
        why = why.partition(f". {MISFIT}")[0].partition(f"; {REMEDY}")[0]  # Said below.
    raise ImportError(
        f"{library} does not work with TensorFlow {version}: a small graph could not be rewritten "
        f"in a process of its own ({why}). Install another TensorFlow, or {REMEDY}."
    )

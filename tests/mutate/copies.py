"""Copies of the project, in which files may be broken."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import tensorflow as tf

BUILD = f"build/tf-{tf.__version__}"
LIBRARY = f"{BUILD}/npu_optimizer.tf-{'.'.join(tf.__version__.split('.')[:2])}.so"


class MutateError(Exception):
    """The mutations cannot be tested, for the reason in the message."""


def copy_project(root: pathlib.Path, copy: pathlib.Path) -> None:
    """Copies the files that git does not ignore, as they are now, and the objects of the build."""
    names = subprocess.check_output(
        ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    )
    for name in filter(None, names.decode().split("\0")):
        if (root / name).is_file():  # A file may be deleted and the deletion not yet committed.
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(root / name), str(copy / name))
    if (root / BUILD).exists():
        shutil.copytree(str(root / BUILD), str(copy / BUILD))
        _move_commands(root, copy)


def link_project(original: pathlib.Path, copy: pathlib.Path) -> None:
    """Copies by hard links. Replace a file of the copy; do not write to it in place."""
    shutil.copytree(str(original), str(copy), copy_function=os.link)
    _move_commands(original, copy)


def _move_commands(original: pathlib.Path, copy: pathlib.Path) -> None:
    """Puts the copy's build folder into the recorded compile commands.

    setup.py takes objects for current only if their commands, which name folders, are the same. The
    environment, which may be in the original, is that of the copy too.
    """
    for path in (copy / BUILD).rglob("*.command"):
        text = path.read_text().replace(f" {original}/build/", f" {copy}/build/")
        path.unlink()
        path.write_text(text)


def replace(path: pathlib.Path, text: str) -> None:
    """Replaces a file, because writing in place would change the files that are linked to it."""
    path.unlink()
    path.write_text(text, encoding="utf-8")


def build(copy: pathlib.Path) -> None:
    """Builds the library; compiles only the sources that changed since the objects were made.

    Raises:
        MutateError: it does not build.
    """
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", "build/lib"]
    environment = {
        **os.environ,
        "NPU_PRECISION_BUILD": "build",
        "NPU_PRECISION_NODE": str(copy / "no_node"),  # Without the reports' page.
    }
    process = _run(command, copy, environment)
    if process.returncode != 0:
        raise MutateError(f"it does not build:\n{process.stdout[-3000:]}")


def run_tests(copy: pathlib.Path, tests: list[str], *flags: str) -> tuple[int, str]:
    """Runs tests in a copy; returns pytest's status and output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
    command += [f"tests/{test}" for test in tests]
    environment = {
        **os.environ,
        "NPU_PRECISION_LIBRARY": str(copy / LIBRARY),
        "PYTHONPATH": str(copy),
        # Python does not read a source again if its second and size are those in the .pyc file.
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    process = _run(command, copy, environment)
    return process.returncode, process.stdout


def _run(
    command: list[str], folder: pathlib.Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=str(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )

"""The package on every TensorFlow that it supports: `make test-all`, or `nox -s tf115`.

A session makes an environment from requirements/*.lock, builds the library for its TensorFlow (they
live side by side in npu_precision/_lib/) and runs the tests. Which tests a version cannot run, and
why, the tests themselves say: tests/tf_versions.py. A Python that is not found skips its session.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import nox

# By session: the files in requirements/, and a Python that TensorFlow has wheels for.
ENVIRONMENTS = {
    "tf115": ("tf1.15", "3.7"),
    "tf215": ("tf2.15", "3.11"),
    "tf221": ("tf2.21", "3.11"),
}

nox.needs_version = ">=2025.2.9"
nox.options.sessions = list(ENVIRONMENTS)
nox.options.default_venv_backend = "venv"  # virtualenv no longer makes environments for Python 3.7.
nox.options.reuse_venv = "yes"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False  # On CI, nox's own default is True.


def interpreter(version: str) -> str:
    """This Python, or one on PATH or among pyenv's; else a name that nox will not find."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    installed = sorted(
        (root / "versions").glob(f"{version}.*/bin/python"),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.parts[-3])],
        reverse=True,
    )
    for candidate in (sys.executable, shutil.which(f"python{version}"), *map(str, installed)):
        # pyenv's own python3.7 is on PATH, and fails, where no 3.7 is selected.
        if candidate and _runs(candidate, version):
            return candidate
    return f"python{version}"


def _runs(python: str, version: str) -> bool:
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    result = subprocess.run(
        [python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return result.returncode == 0 and result.stdout.strip() == version


def _install(session: nox.Session, *arguments: str) -> None:
    session.run("python", "-m", "pip", "--disable-pip-version-check", "install", *arguments)


def _test(session: nox.Session, requirements: str) -> None:
    # The lock is complete, so pip has nothing to resolve.
    _install(session, "--quiet", "--no-deps", "-r", f"requirements/{requirements}.lock")
    session.run("python", "setup.py", "--quiet", "build_ext", "--inplace")
    # The long tests are a few: a worker that is done takes from the other.
    flags = session.posargs or ["-n", "2", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", *flags)


def _lock(session: nox.Session, requirements: str) -> None:
    _install(session, "-r", f"requirements/{requirements}.in")
    freeze = ["python", "-m", "pip", "freeze", "--all", "--exclude", "pip"]
    packages = session.run(*freeze, silent=True, stderr=subprocess.DEVNULL)
    heading = f"# Written by 'make lock' from {requirements}.in: the reasons are there.\n"
    pathlib.Path(f"requirements/{requirements}.lock").write_text(heading + packages)


for _name, (_requirements, _version) in ENVIRONMENTS.items():
    _python = interpreter(_version)
    for _session_name, _function, _reuse in (
        (_name, _test, True),
        (f"lock-{_name}", _lock, False),
    ):
        nox.session(
            lambda session, function=_function, requirements=_requirements: function(
                session, requirements
            ),
            name=_session_name,
            python=_python,
            reuse_venv=_reuse,
        )

"""The package on every TensorFlow that it supports: `make test-all`, or `nox -s tf115`.

`make wheel` and `make test-wheel` are the sessions library-2.17 and the like, wheel, and
try-wheel-2.17-py3.12: see wheels/minors.py.

A session makes an environment from requirements/*.lock, builds the library for its TensorFlow (they
live side by side in npu_precision/_lib/) and runs the tests. Which tests a version cannot run, and
why, the tests themselves say: tests/support/tf_versions.py. A Python that is not found skips its
session.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import nox

sys.path.append(str(pathlib.Path(__file__).parent))
from wheels.minors import MINORS

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


@functools.lru_cache(maxsize=None)
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


def _install_locked(session: nox.Session, requirements: str) -> None:
    # The lock is complete, so pip has nothing to resolve.
    _install(session, "--quiet", "--no-deps", "-r", f"requirements/{requirements}.lock")


def _build(session: nox.Session) -> None:
    session.run("python", "setup.py", "--quiet", "build_ext", "--inplace")


def _test(session: nox.Session, requirements: str) -> None:
    _install_locked(session, requirements)
    _build(session)
    # The long tests are a few: a worker that is done takes from the other.
    flags = session.posargs or ["-n", "2", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", *flags)


def _test_room(session: nox.Session, requirements: str) -> None:
    """After `make build`: the TensorFlow is the default one's, and so is the library."""
    _install_locked(session, requirements)
    session.run("python", "-m", "pytest", f"tests/{session.name}", *session.posargs)


def _test_backends(session: nox.Session, requirements: str) -> None:
    _install_locked(session, requirements)
    _build(session)
    files = (
        "handoffs/test_keras_backends.py",
        "handoffs/test_autocast_list.py",
        "launch/test_notebook.py",
    )
    session.run("python", "-m", "pytest", *(f"tests/{file}" for file in files), *session.posargs)


def _build_docs(session: nox.Session, requirements: str) -> None:
    _install_locked(session, requirements)
    # The theme advertises its successor.
    environment = {"NO_MKDOCS_2_WARNING": "1"}
    session.run("mkdocs", "build", "--strict", *session.posargs, env=environment)


def _bench(session: nox.Session, requirements: str) -> None:
    """The suite that is named first, as in `nox -s bench-tf221 -- gpu_decisions`; else steps."""
    _install_locked(session, requirements)
    _build(session)
    if session.posargs[:1] == ["gpu_decisions"]:
        session.run("python", "benchmarks/gpu_decisions.py", *session.posargs[1:])
        return
    # Keras 3 has no layers of TensorFlow 1.
    environment = {
        "TF_USE_LEGACY_KERAS": "1",
        "PYTHONPATH": ".",
        "NPU_PRECISION_BENCH_SESSION": f".venv/bin/nox -s {session.name} --",
    }
    out = pathlib.Path("build") / "benchmarks" / session.name
    session.run("python", "benchmarks/steps.py", f"--out={out}", *session.posargs, env=environment)


WHEEL = pathlib.Path("build") / "wheel"
LIBRARIES = WHEEL / "libraries"
MOST_BYTES = 20_000_000
# They come with TensorFlow, which loads the library.
OF_TENSORFLOW = (
    "libtensorflow_framework.so.2",
    "libtensorflow_framework.so.1",
    "libtensorflow_cc.so.2",
    "_pywrap_tensorflow_internal.so",
)


def _build_library(session: nox.Session, minor: str) -> None:
    _install(session, "--quiet", *MINORS[minor].packages, "setuptools>=61,<77", "wheel")
    folder = WHEEL / f"tf-{minor}"
    environment = {
        "NPU_PRECISION_MANYLINUX": "1",
        "NPU_PRECISION_BUILD": str(WHEEL / "objects"),
        "NPU_PRECISION_NODE": os.devnull,  # The page is built once, for the wheel.
    }
    build = ("setup.py", "--quiet", "build_ext", f"--build-lib={folder}")
    session.run("python", *build, env=environment)
    (library,) = folder.rglob(f"npu_optimizer.tf-{minor}.so")
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    shutil.copy2(library, LIBRARIES)
    shutil.rmtree(folder)
    _delete_environment(session)


def _delete_environment(session: nox.Session) -> None:
    """Each is a gigabyte and more."""
    shutil.rmtree(session.virtualenv.location)


def _build_wheel(session: nox.Session, requirements: str) -> None:
    """Packs what the sessions library-... have built."""
    _install_locked(session, requirements)
    dist = WHEEL / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    environment = {"NPU_PRECISION_LIBRARIES": str(LIBRARIES)}
    session.run(
        "python", "setup.py", "--quiet", "bdist_wheel", f"--dist-dir={dist}", env=environment
    )
    (plain,) = dist.glob("*.whl")
    excludes = [f"--exclude={name}" for name in OF_TENSORFLOW]
    platform = ("--plat=manylinux_2_28_x86_64", "--only-plat", "--wheel-dir=dist")
    for old in pathlib.Path("dist").glob("npu_precision-*.whl"):
        old.unlink()
    session.run("auditwheel", "repair", *excludes, *platform, str(plain))
    (wheel,) = pathlib.Path("dist").glob("npu_precision-*.whl")
    size = wheel.stat().st_size
    if size >= MOST_BYTES:
        session.error(f"{wheel} is of {size} bytes, expected less than {MOST_BYTES}")
    session.log(f"{wheel}: {size / 1e6:.1f} MB")


def _try_wheel(session: nox.Session, minor: str) -> None:
    """Installs the wheel as a user would, and follows the README, where no compiler is."""
    wheels = list(pathlib.Path("dist").glob("npu_precision-*.whl"))
    if len(wheels) != 1:
        session.error(f"dist: found {len(wheels)} wheels, expected one; run `make wheel`")
    packages = (*MINORS[minor].packages, "scikit-learn")  # The README's scripts need the latter.
    _install(session, "--quiet", *packages, str(wheels[0].resolve()))
    results = (WHEEL / "results").resolve()
    results.mkdir(parents=True, exist_ok=True)
    script = pathlib.Path("wheels", "try_out.py").resolve()
    python = pathlib.Path(session.bin, "python").resolve().parent
    session.chdir(session.create_tmp())  # Not where the package's sources are.
    session.run(
        os.path.join(session.bin, "python"),
        str(script),
        str(results / f"{session.name}.json"),
        env={"PATH": str(python / "nothing")},
        external=True,
    )
    session.chdir(pathlib.Path(__file__).parent)
    _delete_environment(session)


def _lock(session: nox.Session, requirements: str) -> None:
    _install(session, "-r", f"requirements/{requirements}.in")
    freeze = ["python", "-m", "pip", "freeze", "--all", "--exclude", "pip"]
    packages = session.run(*freeze, silent=True, stderr=subprocess.DEVNULL)
    heading = f"# Written by 'make lock' from {requirements}.in: the reasons are there.\n"
    pathlib.Path(f"requirements/{requirements}.lock").write_text(heading + packages)


# By session: what it does, its files in requirements/, its Python, and whether its environment is
# kept. Those that lock resolve anew.
_SESSIONS = {
    **{name: (_test, *environment, True) for name, environment in ENVIRONMENTS.items()},
    "bench-tf219": (_bench, "bench-tf2.19", "3.11", True),
    "bench-tf221": (_bench, "bench-tf2.21", "3.11", True),
    "itex": (_install_locked, "itex", "3.11", True),
    "zentf": (_install_locked, "zentf", "3.11", True),
    "launchers": (_test_room, "launchers", "3.11", True),
    "handoffs": (_test_room, "handoffs", "3.11", True),
    "backends": (_test_backends, "backends", "3.11", True),
    "wheel": (_build_wheel, "wheel", "3.11", True),
    "docs": (_build_docs, "docs", "3.11", True),
}
_SESSIONS.update(
    {f"lock-{name}": (_lock, *rest[1:3], False) for name, rest in list(_SESSIONS.items())}
)
for _minor, _where in MINORS.items():
    _SESSIONS[f"library-{_minor}"] = (_build_library, _minor, _where.pythons[0], False)
    for _python in _where.pythons:
        _SESSIONS[f"try-wheel-{_minor}-py{_python}"] = (_try_wheel, _minor, _python, False)

for _name, (_function, _requirements, _version, _reuse) in _SESSIONS.items():
    nox.session(
        lambda session, function=_function, requirements=_requirements: function(
            session, requirements
        ),
        name=_name,
        python=interpreter(_version),
        reuse_venv=_reuse,
    )

"""Applies a precision mode to any program, once it imports TensorFlow.

A Python process that has NPU_PRECISION_MODE in its environment runs this at its start: where a
wheel of this project is installed, by npu_precision.pth; and if `python -m npu_precision` started
it, by the sitecustomize.py in npu_precision/launch/site. Most processes never import TensorFlow, so
nothing of the package is imported before.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from typing import Any

# What docs/any-script.md describes. npu_precision.launch.settings reads them.
VARIABLES = (
    "NPU_PRECISION_MODE",
    "NPU_PRECISION_MIXLIST",
    "NPU_PRECISION_REPORT_DIR",
    "NPU_PRECISION_HEALED",
    "NPU_PRECISION_RECORD",
    "NPU_PRECISION_TIME",
    "NPU_PRECISION_OPTIONS",
)
_PREFIX = "NPU_PRECISION_"
# For the processes of one run: a trial (npu_precision.launch.trial), and the number of the process
# that `python -m npu_precision` became. Those that it starts have their own number.
TRIAL, LAUNCHED_PID = f"{_PREFIX}TRIAL", f"{_PREFIX}LAUNCHED_PID"
# Variables for other purposes: the library, and this project's own build, tests and benchmarks.
_OTHERS = (
    "ALLOW_UNTESTED",
    "BENCH_SESSION",
    "BUILD",
    "CXXFLAGS",
    "LAUNCHED_PID",
    "LIBRARIES",
    "LIBRARY",
    "MANYLINUX",
    "PIPELINE_DRIVER",
    "REPLAY_RECORD",
    "TRIAL",
)
_PACKAGE = "npu_precision"
_TENSORFLOW = "tensorflow"
# The packages that tf.keras may be; before TensorFlow 2.6, it is part of TensorFlow.
KERAS = ("keras", "tf_keras")
# The names under which scripts for Ascend import what this project stands in for.
_ASCEND = ("npu_bridge", "hccl", "npu_device")
# Whether the package, which imports TensorFlow, has to apply what the environment says.
_waits_for_package = False


def install() -> None:
    """Lets the first import of TensorFlow apply what the environment says, if it says anything."""
    is_wanted = any(map(is_of_a_run, os.environ)) or TRIAL in os.environ
    if is_wanted and not any(isinstance(finder, _BeforeAscend) for finder in sys.meta_path):
        after_import(_TENSORFLOW, _apply_or_wait)
        for name in KERAS:  # It may import TensorFlow, which is then there before it.
            sys.meta_path.insert(0, _After(name))
        sys.meta_path.append(_BeforeAscend())


def is_of_a_run(name: str) -> bool:
    """Whether a variable is about how programs run, or may be such a one that is misspelt."""
    return name.startswith(_PREFIX) and name[len(_PREFIX) :] not in _OTHERS


def forget() -> None:
    """Leaves this process, and those that it starts, as if the environment said nothing."""
    for name in list(filter(is_of_a_run, os.environ)):
        del os.environ[name]
    ours = (_After, _BeforeAscend)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ours)]


def after_import(name: str, callback: Callable[[], None]) -> None:
    """Calls back once, when a module is there: now, or after its import."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is not None and not getattr(spec, "_initializing", False):
        callback()
        return
    for finder in sys.meta_path:
        if isinstance(finder, _After) and finder.name == name:
            finder.callbacks.append(callback)
            return
    finder = _After(name)
    finder.callbacks.append(callback)
    sys.meta_path.insert(0, finder)


def apply_after_package() -> None:
    """Applies what the environment says, if the package itself imported TensorFlow just now."""
    global _waits_for_package
    if _waits_for_package:
        _waits_for_package = False
        if not _is_launcher():
            _apply()


class _After(importlib.abc.MetaPathFinder):
    """Finds a module as the other finders do, and calls back when it was imported."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.callbacks: list[Callable[[], None]] = []
        self._is_looking = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != self.name or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            for callback in self.callbacks:
                callback()


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, callback: Callable[[], None]) -> None:
        self._loader = loader
        self._callback = callback

    def create_module(self, spec: Any) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._callback()


class _BeforeAscend(importlib.abc.MetaPathFinder):
    """Puts in what stands in for npu_bridge, at its first import, where nothing else is found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name not in _ASCEND:
            return None
        sys.meta_path.remove(self)
        importlib.import_module(_TENSORFLOW)
        if importlib.util.find_spec(_PACKAGE) is None:
            return None
        from npu_precision.npu_bridge.alias import install_as_npu_bridge

        install_as_npu_bridge()
        if name not in sys.modules:  # npu_device is found by a finder of its own.
            return importlib.util.find_spec(name)
        return importlib.util.spec_from_loader(name, _Imported(sys.modules[name]))


class _Imported(importlib.abc.Loader):
    """Loads a module that is there already."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def create_module(self, spec: Any) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _is_launcher() -> bool:
    """Whether this process is `python -m npu_precision`, whose flags come before the environment.

    While Python imports a package for -m, its arguments do not say so yet.
    """
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_get_module_details":
            return str(frame.f_locals.get("mod_name")).split(".")[0] == _PACKAGE
        frame = frame.f_back
    return False


def _apply_or_wait() -> None:
    global _waits_for_package
    spec = getattr(sys.modules.get(_PACKAGE), "__spec__", None)
    _waits_for_package = getattr(spec, "_initializing", False)
    if not _waits_for_package:
        _apply()


def _apply() -> None:
    if importlib.util.find_spec(_PACKAGE) is None:
        names = ", ".join(filter(is_of_a_run, os.environ))
        sys.stderr.write(
            f"npu_precision is not installed for {sys.executable}, so {names} has no effect there\n"
        )
        return
    from npu_precision.launch import applied

    try:
        applied.apply_environment()
    except (OSError, ValueError) as error:
        # A program that does without TensorFlow if its import fails must not go on.
        raise SystemExit(f"npu_precision: {error}") from error

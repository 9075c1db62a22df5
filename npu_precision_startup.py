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
# Whether the package, which imports TensorFlow, has to apply what the environment says.
_waits_for_package = False
_PREFIX = "NPU_PRECISION_"
# Variables for other purposes: the library, and this project's own build, tests and benchmarks.
_OTHERS = (
    "ALLOW_UNTESTED",
    "BENCH_SESSION",
    "BUILD",
    "CXXFLAGS",
    "LIBRARIES",
    "LAUNCHED_PID",
    "LIBRARY",
    "MANYLINUX",
    "PIPELINE_DRIVER",
    "REPLAY_RECORD",
    "TRIAL",
)
# The names under which scripts for Ascend import what this project stands in for.
_ASCEND = ("npu_bridge", "hccl", "npu_device")


def install() -> None:
    """Lets the first import of TensorFlow apply what the environment says, if it says anything."""
    is_wanted = any(map(is_of_a_run, os.environ)) or f"{_PREFIX}TRIAL" in os.environ
    if is_wanted and not is_installed():
        sys.meta_path.insert(0, _AfterTensorFlow())
        sys.meta_path.append(_BeforeAscend())


def is_of_a_run(name: str) -> bool:
    """Whether a variable is about how programs run, or may be such a one that is misspelt."""
    return name.startswith(_PREFIX) and name[len(_PREFIX) :] not in _OTHERS


def forget() -> None:
    """Leaves this process, and those that it starts, as if the environment said nothing."""
    for name in list(filter(is_of_a_run, os.environ)):
        del os.environ[name]
    ours = (_AfterTensorFlow, _BeforeAscend)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ours)]


def is_installed() -> bool:
    """Whether TensorFlow was not imported since install()."""
    return any(isinstance(finder, _AfterTensorFlow) for finder in sys.meta_path)


class _AfterTensorFlow(importlib.abc.MetaPathFinder):
    """Finds TensorFlow once, as the other finders do, and is told when it is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _BeforeAscend(importlib.abc.MetaPathFinder):
    """Imports TensorFlow, and so what stands in for npu_bridge, where nothing else is found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name not in _ASCEND:
            return None
        sys.meta_path.remove(self)
        importlib.import_module("tensorflow")
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


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _apply_or_wait()


def apply_after_package() -> None:
    """Applies what the environment says, if the package itself imported TensorFlow just now."""
    global _waits_for_package
    if _waits_for_package:
        _waits_for_package = False
        _apply()


def _apply_or_wait() -> None:
    global _waits_for_package
    spec = getattr(sys.modules.get("npu_precision"), "__spec__", None)
    _waits_for_package = getattr(spec, "_initializing", False)
    if not _waits_for_package:
        _apply()


def _apply() -> None:
    if importlib.util.find_spec("npu_precision") is None:
        names = ", ".join(filter(is_of_a_run, os.environ))
        sys.stderr.write(
            f"npu_precision is not installed for {sys.executable}, so {names} has no effect there\n"
        )
        return
    from npu_precision.launch import applied

    applied.apply_environment()

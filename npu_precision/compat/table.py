"""The table of names: the status here of each name of npu_bridge, npu_device and hccl.

The table is in names.json. `python -m npu_precision.compat.collect` writes that file, from the
modules that install_as_npu_bridge() installs, the library's parameters, and notes.py.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterable
from typing import Any

from npu_precision import _errors

FILE = pathlib.Path(__file__).with_name("names.json")
TOPS = ("npu_bridge", "npu_device", "hccl")

# The statuses of a name. The last three keep a script from running.
RUNS = "runs"
NO_EFFECT = "no effect"
WARNING = "warning"
NEEDS_TF1 = "needs TensorFlow 1.15"
MISSING = "missing"
ERROR = "error"
UNREADABLE = "unreadable"
STATUSES = (RUNS, NO_EFFECT, WARNING, NEEDS_TF1, MISSING, ERROR, UNREADABLE)
FAILING = (MISSING, ERROR, UNREADABLE)

# An unknown parameter is an error if its name has one of these parts, because it was meant to
# change what is computed.
_PARTS_OF_MODES = ("mixlist", "mix_list", "precision")
# The fields of an AttrValue that a script may write by mistake.
_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "list", "func", "placeholder")


@dataclasses.dataclass(frozen=True)
class Known:
    """The entry of a name: one of STATUSES, and a note: what to write instead, or what to know."""

    status: str
    note: str = ""


class Table:
    """The content of names.json.

    Args:
        data: "modules": the status of each name, by module: "runs"; "no effect"; {"module": its
            path}, for a module; or {"missing": what to write instead}. The name "*" stands for
            those that are not listed. The result of a call counts as a module, as
            "npu_device.global_options()" does.
            "parameters": the AttrValue field of each parameter that has an effect.
            "inert_parameters": the parameters without effect in the optimizer.
            "of_python": the inert parameters that sessions act on, and "arguments_of_python": the
            arguments of NPURunConfig that an NPUEstimator acts on.
            "run_config": the arguments of tf.estimator.RunConfig.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.modules: dict[str, dict[str, Any]] = data["modules"]
        self._types: dict[str, str] = data["parameters"]
        self._inert: list[str] = data["inert_parameters"]
        self._run_config: list[str] = data["run_config"]
        self._of_python: list[str] = data["of_python"]
        self._arguments_of_python: list[str] = data["arguments_of_python"]

    def is_module(self, path: str) -> bool:
        """Whether there is such a module, or such a result of a call."""
        return path in self.modules and not self._is_all_missing(path)

    def public_names(self, module: str) -> list[str]:
        """The names that are listed for a module, missing ones too."""
        found, _ = self._find(module)
        return [name for name in self.modules.get(found, {}) if name != "*"]

    def name(self, path: str) -> Known:
        """The entry of a dotted name that begins with one of TOPS.

        A name behind a class or a function, such as a method, has the entry of the latter.
        """
        module, known = self._find(path)
        if known is not None:
            return known
        if self._is_all_missing(module):
            return Known(MISSING, self.modules[module]["*"]["missing"])
        return Known(RUNS)

    def _find(self, path: str) -> tuple[str, Known | None]:
        """The module that a name leads to, and the entry of a name that is no module."""
        module, *rest = path.split(".")
        if module not in self.modules:
            return module, Known(MISSING)
        for part in rest:
            if f"{module}.{part}" in self.modules:
                module = f"{module}.{part}"
                continue
            entry = self._entry(module, part)
            if isinstance(entry, str):
                return module, Known(entry)
            if "missing" in entry:
                return module, Known(MISSING, entry["missing"])
            module = entry["module"]
        return module, None

    def _entry(self, module: str, part: str) -> Any:
        names = self.modules[module]
        part = part[: -len("()")] if part.endswith("()") else part
        if part in names:
            return names[part]
        near = _hint(part, [name for name in names if not _is_missing(names[name])])
        return {"missing": near or names.get("*", {"missing": ""})["missing"]}

    def _is_all_missing(self, module: str) -> bool:
        return set(self.modules.get(module, {})) == {"*"}

    def parameter(self, key: str, field: str | None = None) -> Known:
        """The status of an entry of a parameter_map, as cc/parameters.cc decides.

        Args:
            key: its key.
            field: the field of its value that is written, if that is known.
        """
        if key in self._types:
            wanted = self._types[key]
            if field in _FIELDS and field != wanted:
                value = 'b"..."' if wanted == "s" else "True"
                return Known(ERROR, f'write parameter_map["{key}"].{wanted} = {value}')
            return Known(RUNS)
        if key in self._of_python:
            return Known(RUNS)
        if key in self._inert:
            return Known(NO_EFFECT)
        known = [*self._inert, *self._types]
        near, hint = _errors.nearest(key, known), _hint(key, known)
        if near in self._types or any(part in key.lower() for part in _PARTS_OF_MODES):
            return Known(ERROR, f"no such parameter; {hint}" if hint else "no such parameter")
        ignored = "npu_bridge knows no such parameter either"
        return Known(WARNING, f"{ignored}; {hint}" if hint else ignored)

    def run_config_argument(self, name: str) -> Known:
        """The status of a keyword argument of NPURunConfig."""
        if name in self._types or name in (*self._run_config, *self._arguments_of_python):
            return Known(RUNS)
        if name in self._inert:
            return Known(NO_EFFECT)
        known = [*self._run_config, *self._types, *self._inert]
        hint = _hint(name, known)
        return Known(ERROR, f"no such argument; {hint}" if hint else "no such argument")


def _hint(given: str, names: Iterable[str]) -> str:
    near = _errors.nearest(given, names)
    return f"did you mean {near!r}?" if near else ""


def _is_missing(entry: Any) -> bool:
    return isinstance(entry, dict) and "missing" in entry


@functools.lru_cache(maxsize=None)
def shipped() -> Table:
    """The table that comes with the package."""
    return Table(json.loads(FILE.read_text(encoding="utf-8")))

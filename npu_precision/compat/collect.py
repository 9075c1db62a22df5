"""Writes the table of names: `python -m npu_precision.compat.collect`.

The names are those of the modules that install_as_npu_bridge() installs. A name has no effect where
the first paragraph of its docstring says so: "no effect", "does nothing" or "accepted so that".
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import types
from typing import Any

from npu_precision import _library, _tf_compat
from npu_precision.compat import notes, table
from npu_precision.npu_bridge import alias

_NO_EFFECT = re.compile(r"no\s+effect|does\s+nothing|accepted\s+so\s+that", re.IGNORECASE)


def collect() -> dict[str, Any]:
    """The content of names.json; see table.Table."""
    modules = _modules()
    by_identity = {id(module): name for name, module in modules.items()}
    result = {name: _names(name, module, by_identity) for name, module in modules.items()}
    for path, effective in notes.RESULTS.items():
        if path.partition(".")[0] in modules:
            _add_fields(path, _result(path), effective, result)
    for name, text in notes.MODULES.items():
        result.setdefault(name, {"*": {"missing": text}})
    for name, instead in notes.NAMES.items():
        for each, text in instead.items():
            result[name].setdefault(each, {"missing": text})
    description = _library.describe()
    return {
        "modules": {name: dict(sorted(result[name].items())) for name in sorted(result)},
        "parameters": dict(description["parameters"]),
        "inert_parameters": list(description["inert_parameters"]),
        "run_config": _run_config_arguments(),
    }


def as_text(data: dict[str, Any]) -> str:
    """The text of names.json."""
    return json.dumps(data, indent=1) + "\n"


def _modules() -> dict[str, types.ModuleType]:
    """By npu_bridge's name, each module that a script can import here."""
    alias.install_as_npu_bridge()
    for name in alias.module_names():
        importlib.import_module(name)
    return {
        name: module
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in table.TOPS and isinstance(module, types.ModuleType)
    }


def _names(name: str, module: types.ModuleType, modules: dict[int, str]) -> dict[str, Any]:
    listed = getattr(module, "__all__", None)
    found: dict[str, Any] = {}
    for each in listed if listed is not None else dir(module):
        value = getattr(module, each)
        # A submodule is found by its own name.
        if each.startswith("_") or f"{name}.{each}" in sys.modules:
            continue
        if isinstance(value, types.ModuleType):
            path = modules.get(id(value), "")
            if path.rpartition(".")[2] == each:
                found[each] = {"module": path}
            elif listed is not None:
                found[each] = table.RUNS
        elif listed is not None or _is_ours(value):
            found[each] = _status(value)
    return found


def _is_ours(value: object) -> bool:
    """Whether a module without __all__ offers the value: a function or class of this package."""
    is_offered = inspect.isclass(value) or inspect.isroutine(value)
    return is_offered and str(getattr(value, "__module__", "")).startswith("npu_precision")


def _status(value: object) -> str:
    is_named = inspect.isclass(value) or inspect.isroutine(value)
    text = (inspect.getdoc(value) or "") if is_named else ""
    return table.NO_EFFECT if _NO_EFFECT.search(text.partition("\n\n")[0]) else table.RUNS


def _result(path: str) -> object:
    module, _, call = path[: -len("()")].rpartition(".")
    return getattr(sys.modules[module], call)()


def _add_fields(
    path: str, value: object, effective: tuple[str, ...], result: dict[str, dict[str, Any]]
) -> None:
    """Adds the fields of options, and of the options that are fields of such."""
    result[path] = {}
    for name in dir(value):
        if name.startswith("_") or inspect.isroutine(getattr(value, name)):
            continue
        field = getattr(value, name)
        if type(field).__module__.startswith("npu_precision"):
            result[path][name] = {"module": f"{path}.{name}"}
            _add_fields(f"{path}.{name}", field, (), result)
        else:
            result[path][name] = table.RUNS if name in effective else table.NO_EFFECT


def _run_config_arguments() -> list[str]:
    signature = inspect.signature(_tf_compat.estimator_class("RunConfig").__init__)
    return [name for name in signature.parameters if name != "self"]


if __name__ == "__main__":
    table.FILE.write_text(as_text(collect()), encoding="utf-8")
    print(f"wrote {table.FILE}")

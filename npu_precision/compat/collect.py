"""Writes the table of names: `python -m npu_precision.compat.collect`.

The names are those of the modules that install_as_npu_bridge() installs. A name has no effect where
the first paragraph of its docstring says so: "no effect", "does nothing", "accepted so that" or
"the log says so".
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import types
from typing import Any

from npu_precision import _library, _rewrites, _tf_compat
from npu_precision.compat import notes, table
from npu_precision.npu_bridge import alias, dump_settings

_NO_EFFECT = re.compile(
    r"no\s+effect|does\s+nothing|accepted\s+so\s+that|log\s+says\s+so", re.IGNORECASE
)


def collect() -> dict[str, Any]:
    """The content of names.json; see table.Table."""
    modules = _modules()
    result = {name: _names(name, modules) for name in modules}
    description = _library.describe()
    parameters = {**description["parameters"], **dict.fromkeys(_rewrites.OLD_NAMES, "b")}
    for path in notes.RESULTS:
        module, _, call = path[: -len("()")].rpartition(".")
        if module in modules:
            options = getattr(modules[module], call)()
            _add_fields(path, options, set(parameters), result)
    for name, text in notes.MODULES.items():
        result.setdefault(name, {"*": {"missing": text}})
    for name, instead in notes.NAMES.items():
        for each, text in instead.items():
            result[name].setdefault(each, {"missing": text})
    for name, other in notes.SAME.items():
        if name in result:
            children = [each for each in result if each.rpartition(".")[0] == other]
            result[name] = {each.rpartition(".")[2]: {"module": each} for each in children}
    return {
        "modules": {name: dict(sorted(result[name].items())) for name in sorted(result)},
        "parameters": dict(sorted(parameters.items())),
        "inert_parameters": list(description["inert_parameters"]),
        "of_python": list(dump_settings.NAMES),
        "arguments_of_python": ["dump_config", "iterations_per_loop"],
        "run_config": _run_config_arguments(),
    }


def as_text(data: dict[str, Any]) -> str:
    """The text of names.json."""
    return json.dumps(data, indent=1) + "\n"


def _modules() -> dict[str, types.ModuleType]:
    """The modules that a script can import here, by Ascend's name."""
    alias.install_as_npu_bridge()
    modules = {name: importlib.import_module(name) for name in alias.module_names()}
    for top in table.TOPS:
        try:
            modules[top] = importlib.import_module(top)
        except ImportError:  # npu_device on TensorFlow 1.
            continue
        _add_listed(top, modules)
    return {name: modules[name] for name in sorted(modules)}


def _add_listed(name: str, modules: dict[str, types.ModuleType]) -> None:
    """Adds the submodules in a package's __all__, and their submodules."""
    if name in notes.SAME:
        return
    for each in getattr(modules[name], "__all__", ()):
        if isinstance(getattr(modules[name], each), types.ModuleType) and each != "tf":
            path = f"{name}.{each}"
            if path not in modules and hasattr(modules[name], "__path__"):
                modules[path] = getattr(modules[name], each)
                _add_listed(path, modules)


def _names(name: str, modules: dict[str, types.ModuleType]) -> dict[str, Any]:
    module = modules[name]
    listed = getattr(module, "__all__", None)
    found: dict[str, Any] = {}
    for each in listed if listed is not None else dir(module):
        value = getattr(module, each)
        # A submodule is found by its own name.
        if each.startswith("_") or f"{name}.{each}" in modules:
            continue
        if isinstance(value, types.ModuleType):
            paths = [path for path in modules if path.rpartition(".")[2] == each]
            same = [path for path in paths if modules[path] is value]
            if same:
                found[each] = {"module": same[0]}
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
    if _NO_EFFECT.search(text.partition("\n\n")[0]):
        return table.NO_EFFECT
    return table.NO_EFFECT if getattr(value, "__name__", "") in notes.NO_EFFECT else table.RUNS


def _add_fields(
    path: str, value: object, effective: set[str], result: dict[str, dict[str, Any]]
) -> None:
    """Adds the fields of options, and of the groups of options in them."""
    result[path] = {}
    for name in dir(value):
        if name.startswith("_") or inspect.isroutine(getattr(value, name)):
            continue
        field = getattr(value, name)
        if type(field).__module__.startswith("npu_precision"):
            result[path][name] = {"module": f"{path}.{name}"}
            _add_fields(f"{path}.{name}", field, effective, result)
        else:
            result[path][name] = table.RUNS if name in effective else table.NO_EFFECT


def _run_config_arguments() -> list[str]:
    signature = inspect.signature(_tf_compat.estimator_class("RunConfig").__init__)
    return [name for name in signature.parameters if name != "self"]


if __name__ == "__main__":
    table.FILE.write_text(as_text(collect()), encoding="utf-8")
    print(f"wrote {table.FILE}")

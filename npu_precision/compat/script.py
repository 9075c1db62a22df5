"""Finds the names of npu_bridge, npu_device and hccl in a Python script, which is never run.

Names are followed from import lines through attributes, calls and plain assignments, in the whole
file at once: a name stands for one thing in all of its functions.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import warnings
from typing import Any

from npu_precision.compat import table
from npu_precision.compat.table import Known, Table

_STAR_TF = "npu_bridge.npu_init.tf"
_CONTRIB = "tensorflow.contrib"
_RUN_CONFIG = "NPURunConfig"
# Syntax that only Python 2 has, such as a print statement.
_PYTHON_2 = re.compile(
    rb"^[ \t]*(?:print[ \t]+[^\s(=]|exec[ \t]+[\w'\"]|raise[ \t]+[\w.]+[ \t]*,"
    rb"|except[ \t]+[\w.]+[ \t]*,[ \t]*\w+[ \t]*:)",
    re.MULTILINE,
)
# A script without any of these words uses no name.
_MENTIONED = (b"npu_bridge", b"npu_device", b"hccl", b"parameter_map", b"contrib", b"NPURunConfig")


@dataclasses.dataclass(frozen=True)
class Found:
    """One use of a name.

    Attributes:
        line: where it is, from 1.
        name: the dotted name; 'parameter_map["x"]'; or "NPURunConfig(x)" for an argument.
        status: one of table.STATUSES.
        note: what to write instead, or what to know.
    """

    line: int
    name: str
    status: str
    note: str = ""


def scan(content: bytes, names: Table) -> list[Found]:
    """The names that a script uses, by line.

    A script that is not of this Python's syntax has one entry, which is UNREADABLE.

    Args:
        content: the script.
        names: the table of names.
    """
    is_old = _PYTHON_2.search(content) is not None
    if not is_old and not any(word in content for word in _MENTIONED):
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # About escapes in strings.
            tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        if is_old or isinstance(error, TabError):
            return [Found(line, "Python 2", table.UNREADABLE, "run 2to3 -w on it first")]
        reason = getattr(error, "msg", None) or str(error)
        return [Found(line, "syntax error", table.UNREADABLE, reason)]
    found = _Reader(names, tree).found()
    return sorted(set(found), key=lambda each: (each.line, each.name))


class _Reader:
    """Reads one script."""

    def __init__(self, names: Table, tree: ast.AST) -> None:
        self._names = names
        self._nodes = list(ast.walk(tree))
        self._bound: dict[str, str] = {}  # The dotted names, by name in the script.
        self._stars: list[str] = []
        self._found: list[Found] = []
        # Names that the script itself binds: they hide those of a star import.
        self._own = {
            node.id
            for node in self._nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in self._nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._own.add(node.name)
            elif isinstance(node, ast.arg):
                self._own.add(node.arg)

    def found(self) -> list[Found]:
        """All uses, in no order."""
        for node in self._nodes:
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                self._import_from(node)
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                self._alias(node)
        inner = self._parts_of_chains()
        for node in self._nodes:
            if isinstance(node, (ast.Attribute, ast.Call, ast.Name)) and id(node) not in inner:
                self._use(node)
            if isinstance(node, ast.Call):
                self._arguments(node)
        self._parameters()
        return self._found

    # Imports.

    def _import(self, node: ast.Import) -> None:
        for name in node.names:
            top = name.name.partition(".")[0]
            self._own.add(name.asname or top)
            if top not in (*table.TOPS, "tensorflow"):
                continue
            self._bound[name.asname or top] = name.name if name.asname else top
            self._record(name.name, node.lineno)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        is_ours = module.partition(".")[0] in (*table.TOPS, "tensorflow")
        for name in node.names:
            if name.name != "*":
                self._own.add(name.asname or name.name)
            if not is_ours:
                continue
            path = f"{module}.{name.name}"
            if name.name == "*":
                self._star(module, node.lineno)
                continue
            self._bound[name.asname or name.name] = path
            self._record(path, node.lineno)

    def _star(self, module: str, line: int) -> None:
        if module.startswith("tensorflow"):
            self._record(module, line)
            return
        known = self._names.name(module)
        self._add(line, f"{module}.*", known)
        if known.status != table.MISSING:
            self._stars.append(module)

    def _alias(self, node: ast.Assign) -> None:
        """`options = npu.global_options()`, and the like."""
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Name):
            return
        path = self._path(node.value)
        if path is None or target.id in self._bound:
            return
        if not path.endswith("()") or self._names.is_module(path):
            self._bound[target.id] = path

    # Uses.

    def _path(self, node: ast.AST) -> str | None:
        """The dotted name that an expression stands for, with "()" for a call."""
        if isinstance(node, ast.Name):
            return self._path_of_name(node.id)
        if isinstance(node, (ast.Attribute, ast.Call)):
            base = self._path(node.value if isinstance(node, ast.Attribute) else node.func)
            if base is None:
                return None
            return f"{base}.{node.attr}" if isinstance(node, ast.Attribute) else f"{base}()"
        return None

    def _path_of_name(self, name: str) -> str | None:
        if name in self._bound:
            return self._bound[name]
        if name in self._own:
            return None
        for module in self._stars:
            if name in self._names.public_names(module):
                return f"{module}.{name}"
        if self._stars and re.match(r"_?npu|hccl", name, re.IGNORECASE):
            return f"{self._stars[0]}.{name}"
        return None

    def _parts_of_chains(self) -> set[int]:
        """The expressions within a longer chain: the `npu` and `npu.open` of `npu.open()`."""
        inner = set()
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                inner.add(id(node.value))
            elif isinstance(node, ast.Call):
                inner.add(id(node.func))
        return inner

    def _use(self, node: Any) -> None:
        if isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(node, ast.Name):
            return
        path = self._path(node)
        if path is not None:
            self._record(path, node.lineno)

    def _record(self, path: str, line: int) -> None:
        if f"{path}.".startswith(f"{_STAR_TF}."):
            path = "tensorflow" + path[len(_STAR_TF) :]
        if path.startswith("tensorflow"):
            if f"{path}.".startswith(f"{_CONTRIB}."):
                shown = ".".join(path.replace("()", "").split(".")[:4])
                self._add(line, shown, Known(table.NEEDS_TF1))
            return
        self._add(line, path[:-2] if path.endswith("()") else path, self._names.name(path))

    def _arguments(self, node: ast.Call) -> None:
        path = self._path(node.func)
        if path is None or path.rpartition(".")[2] != _RUN_CONFIG:
            return
        for keyword in node.keywords:
            if keyword.arg is not None:
                known = self._names.run_config_argument(keyword.arg)
                self._add(keyword.value.lineno, f"{_RUN_CONFIG}({keyword.arg})", known)

    def _parameters(self) -> None:
        """`custom_op.parameter_map["use_off_line"].b = True`."""
        fields = {
            id(node.value): node.attr for node in self._nodes if isinstance(node, ast.Attribute)
        }
        for node in self._nodes:
            if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
                continue
            key = _text(node.slice)
            if node.value.attr == "parameter_map" and key is not None:
                known = self._names.parameter(key, fields.get(id(node)))
                self._add(node.lineno, f'parameter_map["{key}"]', known)

    def _add(self, line: int, name: str, known: Known) -> None:
        self._found.append(Found(line, name, known.status, known.note))


def _text(index: Any) -> str | None:
    """The text of a subscript, which is wrapped in an Index before Python 3.9."""
    try:
        value = ast.literal_eval(index.value if type(index).__name__ == "Index" else index)
    except ValueError:
        return None
    return value if isinstance(value, str) else None

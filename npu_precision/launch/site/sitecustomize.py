"""Runs npu_precision_startup in the processes that `python -m npu_precision` starts.

Python imports one module of this name, so this one then runs the one that it hides.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent


def _run_hidden() -> None:
    others = [path for path in sys.path if not _is_ours(pathlib.Path(path or ".").resolve())]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _is_ours(folder: pathlib.Path) -> bool:
    """Whether it is this folder, in this installation or in another one."""
    return folder.parts[-3:] == _HERE.parts[-3:]


sys.path.append(str(_HERE.parents[2]))
try:
    import npu_precision_startup

    npu_precision_startup.install()
finally:
    sys.path.pop()
_run_hidden()

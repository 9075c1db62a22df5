"""The import paths that users type, whichever room the code is in."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import re

import pytest
from support.tf_versions import (
    needs_estimator,
    needs_fused_optimizers,
    needs_synchronized_batch_norm,
)

import npu_precision

ROOT = next(path for path in pathlib.Path(__file__).parents if (path / "setup.py").exists())
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
# The module with the code, by public path.
PATHS = {
    "estimator": "npu_bridge.estimator",
    "explanation": "explain.explanation",
    "model_file": "offline.model_file",
    "npu_init": "npu_bridge.npu_init",
    "npu_ops": "npu_bridge.npu_ops",
    "offline": "offline.graph_def",
    "report": "explain.report",
    "run_config": "npu_bridge.run_config",
    "session": "session.sessions",
    "tensorboard": "explain.tensorboard",
    "util": "npu_bridge.util",
}
# Marks for modules whose import needs more than every TensorFlow has.
MODULE_NEEDS = {
    "amp.optimizers": needs_fused_optimizers,
    "amp.parallel": needs_synchronized_batch_norm,
}


def documented_names():
    """The names npu_precision.x.y in documents, except names of schemas and files."""
    dotted = re.compile(r"\bnpu_precision((?:\.[A-Za-z_]\w*)+)(?![\w/])")
    names = set()
    for document in DOCUMENTS:
        names |= set(dotted.findall(document.read_text(encoding="utf-8")))
    return sorted(name[1:] for name in names)


def test_documents_name_public_paths():
    assert {"npu_init", "report.write_report", "tensorboard.write_graph"} <= set(documented_names())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=MODULE_NEEDS.get(".".join(name.split(".")[:2]), ()))
        for name in documented_names()
    ],
)
def test_what_documents_name_is_there(name):
    found = npu_precision
    for part in name.split("."):
        if not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_public_path_gives_the_very_objects_of_the_room(path):
    public = importlib.import_module(f"npu_precision.{path}")
    room = importlib.import_module(f"npu_precision.{PATHS[path]}")
    assert public.__all__
    for name in public.__all__:
        assert getattr(public, name) is getattr(room, name)


def test_what_the_package_itself_needs_is_an_attribute_of_it(run_cold_python):
    paths = "estimator offline run_config session util"
    script = f"import npu_precision\nfor path in '{paths}'.split(): getattr(npu_precision, path)\n"
    run_cold_python(script)


@needs_estimator
def test_pickles_made_before_the_rooms_are_read():
    assert pickle.loads(b"cnpu_precision.run_config\nNPURunConfig\n.") is npu_precision.NPURunConfig

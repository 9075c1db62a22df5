"""Records rewrites: every graph that reaches OptimizeGraph, with its options.

Every rewrite outside a session calls that function of TensorFlow, so this module does not depend on
the package. As a plug-in (`pytest -p replay.record_rewrites`) it records the rewrites of tests in
the folder NPU_PRECISION_REPLAY_RECORD, one corpus per process.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.grappler import tf_optimizer

from replay.corpus import Case, Corpus

OPTIMIZER = "NpuOptimizer"
FOLDER_VARIABLE = "NPU_PRECISION_REPLAY_RECORD"
# Only tests of text graphs are recorded. Tests with these fixtures compile, or start another Python
# process, and rewrite nothing in this one.
_ELSEWHERE = {"pipeline_driver", "run_python", "chromium"}

optimize_graph = tf_optimizer.OptimizeGraph


class _RecordedError(Exception):
    """Ends a rewrite after its input was recorded."""


def rewriting_input(rewrite: Callable[[], Any]) -> bytes:
    """The MetaGraphDef that a function passes to OptimizeGraph; nothing is optimized."""
    found: list[bytes] = []

    def keep(config: Any, meta_graph: Any, *_: Any, **__: Any) -> None:
        found.append(meta_graph.SerializeToString(deterministic=True))
        raise _RecordedError

    tf_optimizer.OptimizeGraph = keep
    try:
        rewrite()
    except (ValueError, _RecordedError):  # The package turns any exception into a ValueError.
        if not found:
            raise
    finally:
        tf_optimizer.OptimizeGraph = optimize_graph
    return found[0]


def options_of(config: config_pb2.ConfigProto) -> dict[str, Any] | None:
    """The parameters except report_dir; None if the config does not run only the optimizer."""
    rewrite_options = config.graph_options.rewrite_options
    if list(rewrite_options.optimizers) != [OPTIMIZER]:
        return None
    entries = [entry for entry in rewrite_options.custom_optimizers if entry.name == OPTIMIZER]
    parameters = entries[0].parameter_map if entries else {}
    return {
        name: _python_value(value)
        for name, value in sorted(parameters.items())
        if name != "report_dir"
    }


def _python_value(value: attr_value_pb2.AttrValue) -> Any:
    field = value.WhichOneof("value")
    if field == "s":
        return value.s.decode("utf-8", "surrogateescape")
    return getattr(value, field)


class RecordRewrites:
    """The plug-in. A failing test is recorded up to its failure."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._corpus = Corpus(pathlib.Path(tempfile.mkdtemp(dir=str(folder))))
        self._test = ""
        tf_optimizer.OptimizeGraph = self._optimize_graph

    def _optimize_graph(self, config: Any, meta_graph: Any, **others: Any) -> Any:
        options = options_of(config)
        if options is not None:
            digest = self._corpus.add_graph(meta_graph.SerializeToString(deterministic=True))
            graph_id = others["graph_id"].decode("utf-8")
            self._corpus.add_case(Case(self._test, digest, graph_id, options))
        return optimize_graph(config, meta_graph, **others)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if not _ELSEWHERE & set(item.fixturenames)]


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(RecordRewrites(pathlib.Path(os.environ[FOLDER_VARIABLE])))

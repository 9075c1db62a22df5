"""The report of a graph, with the errors of `npu-precision compare-dumps` at its nodes."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import _library
from npu_precision.dumps.comparison import Comparison
from npu_precision.explain import explanation, report, run_ledgers
from npu_precision.explain.explanation import Explanation
from npu_precision.offline import model_file
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions

# By the lowest type in a dump, the mode whose decisions are shown if no ledger tells them.
_MODES = {"float16": "allow_mix_precision", "bfloat16": "allow_mix_precision_bf16"}
_NO_MODE = "must_keep_origin_dtype"


def load(path: str) -> tuple[Model, Explanation | None]:
    """A model, or a ledger of a run or the folder of several, with the decisions in it.

    Raises:
        OSError: a file cannot be read.
        ValueError: it is neither.
    """
    if run_ledgers.is_run(path):
        return run_ledgers.load_run(path, "")
    return model_file.load_model(path), None


def of_dump(name: str, graph: Any) -> tuple[Model, Explanation]:
    """The model of a graph that ran, which a dump has; no decision is made about it any more.

    Args:
        name: what it is called.
        graph: the GraphDef.
    """
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=graph)
    model = Model(name, model_file.GRAPH_DEF, meta_graph, (), (), "")
    options = PrecisionOptions(precision_mode=_NO_MODE, rewrites="none")
    explained = explanation.explain(model, options)
    return model, dataclasses.replace(explained, counted=explanation.THAT_RAN)


def write(
    path: pathlib.Path, model: Model, explained: Explanation | None, compared: Comparison
) -> None:
    """Writes the report of a model, with the errors that enter at its nodes.

    Args:
        path: the file, which is replaced.
        model: the model.
        explained: the decisions in the run, or None for those of the mixed mode of the lowest type
            in the first dump.
        compared: what was compared.

    Raises:
        OSError: the file cannot be written.
        ValueError: the optimizer refuses the model, or the package was built without the page.
    """
    suffix = _library.describe()["renamed_suffix"]
    # A node that a mode changed may have another name.
    names = {node.name.partition(suffix)[0]: node.name for node in model.meta_graph.graph_def.node}
    if explained is None:
        mode = _MODES.get(compared.low_type, _NO_MODE)
        explained = explanation.explain(model, PrecisionOptions(precision_mode=mode))
    entered: dict[str, float] = {}
    for row in compared.entering():
        name = names.get(row.name, row.name)
        entered[name] = max(row.difference.error, entered.get(name, 0.0))
    report.write_report(path, model, explained, entered=entered)

"""Reads what was done in a run: the ledgers of a report_dir, and the graphs beside them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import Any

from google.protobuf import message
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision.explain.explanation import MAIN_GRAPH, Body, Explanation
from npu_precision.ledger import Ledger
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import function_attributes
from npu_precision.options import FIELD_NAMES, PrecisionOptions

LEDGER = "ledger of a run"
_BEFORE, _AFTER = ".before.pb", ".after.pb"


def is_ledger_file(path: str) -> bool:
    """Whether the path is of a JSON file, which no model is."""
    return path.endswith(".json") and pathlib.Path(path).is_file()


def is_run(path: str) -> bool:
    """Whether the path is of a ledger, or of a folder that a run has written ledgers into."""
    return is_ledger_file(path) or any(pathlib.Path(path).glob(f"*{_BEFORE}"))


def files_of(path: str) -> list[str]:
    """The files that load_run may read."""
    folder = pathlib.Path(path)
    return [str(file) for file in folder.iterdir()] if folder.is_dir() else [path]


def read_ledger(path: str) -> Ledger:
    """The ledger in a file of report_dir.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no ledger.
    """
    try:
        return Ledger.from_json(pathlib.Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load_run(path: str) -> tuple[Model, Explanation]:
    """What the optimizer made of a graph of a run, and of the functions that the graph calls.

    Args:
        path: the ledger; or the folder, whose graph with most lowered float nodes is taken, the
            latest of several.

    Returns:
        The graph before the rewrite, without weights, and the decisions about it.

    Raises:
        OSError: a file cannot be read.
        ValueError: no ledger of a run, or a damaged one.
    """
    chosen = pathlib.Path(path)
    if chosen.is_dir():
        chosen = _main_ledger(chosen)
    ledger = read_ledger(str(chosen))
    before = _graph_beside(chosen, _BEFORE)
    bodies = [_body(MAIN_GRAPH, chosen, ledger, before)]
    others = _ledgers_of_functions(chosen)
    waiting, seen = [*before.node], {ledger.graph}
    while waiting:
        for name in _called(waiting.pop()):
            if name in seen or name not in others:
                continue
            seen.add(name)
            graph = _graph_beside(others[name], _BEFORE)
            bodies.append(_body(name, others[name], read_ledger(str(others[name])), graph))
            waiting += graph.node
    meta_graph = meta_graph_pb2.MetaGraphDef(graph_def=before)
    model = Model(str(chosen), LEDGER, meta_graph, (), (), "")
    mappings = ((entry.place, entry.entry, entry.ops) for entry in ledger.mappings)
    return model, Explanation(
        _options(ledger), tuple(bodies), tuple(ledger.warnings), tuple(mappings)
    )


def _main_ledger(folder: pathlib.Path) -> pathlib.Path:
    """The ledger of the graph in which most float nodes are lowered, or that has most of them."""

    def size(path: pathlib.Path) -> tuple[int, int, int, str]:
        totals = read_ledger(str(path)).totals
        changed = totals["lowered"] + totals["raised"]
        return changed, totals["float_nodes"], path.stat().st_mtime_ns, path.name

    files = [_ledger_of(graph) for graph in folder.glob(f"*{_BEFORE}")]
    ledgers = [file for file in files if file.is_file()]
    if not ledgers:
        raise ValueError(f"{str(folder)!r}: has graphs of a run, but none of its ledgers")
    return max(ledgers, key=size)


def _ledger_of(graph: pathlib.Path) -> pathlib.Path:
    return graph.with_name(graph.name[: -len(_BEFORE)] + ".json")


def _ledgers_of_functions(beside: pathlib.Path) -> dict[str, pathlib.Path]:
    """The latest ledger of each graph in the folder, by the graph's name."""
    found: dict[str, pathlib.Path] = {}
    for graph in sorted(beside.parent.glob(f"*{_BEFORE}")):
        file = _ledger_of(graph)
        if file.is_file():
            found[json.loads(file.read_text(encoding="utf-8"))["graph"]] = file
    return found


def _graph_beside(ledger: pathlib.Path, suffix: str) -> graph_pb2.GraphDef:
    file = ledger.with_name(ledger.name[: -len(".json")] + suffix)
    graph = graph_pb2.GraphDef()
    try:
        graph.ParseFromString(file.read_bytes())
    except FileNotFoundError as error:
        raise ValueError(
            f"{str(ledger)!r}: {file.name!r} is not beside it, which a run writes with the ledger; "
            "of a conversion, give the model instead"
        ) from error
    except message.DecodeError as error:
        raise ValueError(f"{str(file)!r}: is damaged") from error
    return graph


def _body(name: str, file: pathlib.Path, ledger: Ledger, before: graph_pb2.GraphDef) -> Body:
    return Body(
        name,
        _by_name(before.node),
        {node.name: node for node in ledger.nodes},
        ledger.casts,
        _by_name(_graph_beside(file, _AFTER).node),
        ledger.rewrites,
        ledger.collectives,
    )


def _by_name(nodes: Iterable[node_def_pb2.NodeDef]) -> dict[str, node_def_pb2.NodeDef]:
    return {node.name: node for node in nodes}


def _called(node: node_def_pb2.NodeDef) -> list[str]:
    return [node.op, *(each.name for each in function_attributes(node))]


def _options(ledger: Ledger) -> PrecisionOptions:
    """The options of the run; without files that are gone since."""
    values: dict[str, Any] = {
        name: {"true": True, "false": False}.get(value, value)
        for name, value in ledger.options.items()
        if name in FIELD_NAMES
    }
    try:
        return PrecisionOptions(**values)
    except ValueError:
        gone = ("modify_mixlist", "customize_dtypes", "ops_info_dir", "ops_info_overlay")
        return PrecisionOptions(**{name: values[name] for name in values if name not in gone})

"""Reads the record of a run: the ledgers in a report_dir, and the graphs beside them."""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import message
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision.explain import reasons
from npu_precision.explain.explanation import MAIN_GRAPH, THAT_RAN, Body, Explanation
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import function_attributes
from npu_precision.options import ACCEPTED_NAMES, PrecisionOptions

_LEDGER = "ledger of a run"
_BEFORE, _AFTER = ".before.pb", ".after.pb"
# What TensorFlow calls every graph of a session.
_OF_A_SESSION = "tf_graph"


def is_ledger_file(path: str) -> bool:
    """Whether the path is of a JSON file. No model is one."""
    return path.endswith(".json") and pathlib.Path(path).is_file()


def is_run(path: str) -> bool:
    """Whether the path is of a ledger, or of a folder that has ledgers and no model."""
    if is_ledger_file(path):
        return True
    folder = pathlib.Path(path)
    if any(folder.glob(f"*{_BEFORE}")) or any(folder.glob(f"*{_AFTER}")):
        return True
    return not any(folder.glob("saved_model.*")) and any(map(_is_ledger, folder.glob("*.json")))


def _is_ledger(file: pathlib.Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return bool(Ledger.from_json(file.read_text(encoding="utf-8")))
    return False


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


def load_run(path: str, pattern: str = "") -> tuple[Model, Explanation]:
    """Reads a graph of a run, the functions that it calls, and the decisions about both.

    Args:
        path: the ledger; or a folder, for the graph of its latest run in which most float nodes are
            lowered.
        pattern: a regular expression. In a folder, graphs with a float node whose name it matches
            somewhere come first.

    Returns:
        The graph before the rewrite, without weights, and the decisions about it.

    Raises:
        OSError: a file cannot be read.
        ValueError: no ledger of a run, or a damaged one.
    """
    chosen, kind = pathlib.Path(path), _LEDGER
    if chosen.is_dir():
        files = _latest_run(chosen)
        chosen = _main_ledger(files, pattern)
        if len(files) > 1:
            kind = f"{_LEDGER}, 1 of {len(files)} graphs of the latest run in the folder"
    try:
        return _load(chosen, kind)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{str(chosen)!r}: is damaged: {error!r}") from error


def _load(chosen: pathlib.Path, kind: str) -> tuple[Model, Explanation]:
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
    title = "graph of a session" if ledger.graph == _OF_A_SESSION else ledger.graph
    if ledger.compiled:
        title += " (compiled by XLA)"
        kind += ", of a function that XLA compiles"
    model = Model(str(chosen), kind, meta_graph, (), (), "", title=title)
    mappings = ((entry.place, entry.entry, entry.ops) for entry in ledger.mappings)
    warnings = tuple(ledger.all_warnings)
    return model, Explanation(_options(ledger), tuple(bodies), warnings, tuple(mappings), THAT_RAN)


def _latest_run(folder: pathlib.Path) -> dict[pathlib.Path, Ledger]:
    """The ledgers of the process that wrote last, with a graph beside them if any has one."""
    found = {}
    for file in folder.glob("*.json"):
        with contextlib.suppress(ValueError):
            found[file] = read_ledger(str(file))
    found = {file: found[file] for file in found if _beside(file, _BEFORE).exists()} or found
    if not found:
        raise ValueError(f"{str(folder)!r}: has graphs of a run, but none of its ledgers")
    latest = max(found, key=lambda file: (file.stat().st_mtime_ns, file.name))
    process = found[latest].data.get("process")
    return {file: found[file] for file in found if found[file].data.get("process") == process}


def _main_ledger(ledgers: Mapping[pathlib.Path, Ledger], pattern: str) -> pathlib.Path:
    """The ledger of the graph in which most float nodes are lowered, or with most float nodes."""

    def size(path: pathlib.Path) -> tuple[bool, int, int, int, str]:
        totals = ledgers[path].totals
        changed = totals["lowered"] + totals["raised"]
        # The later one, if a graph was optimized twice.
        written = path.stat().st_mtime_ns
        return has_it(path), changed, totals["float_nodes"], written, path.name

    def has_it(path: pathlib.Path) -> bool:
        try:
            return any(re.search(pattern, node.name) for node in ledgers[path].nodes)
        except re.error:  # The caller reports it later.
            return False

    return max(ledgers, key=size)


def _beside(ledger: pathlib.Path, suffix: str) -> pathlib.Path:
    return ledger.with_name(ledger.name[: -len(".json")] + suffix)


def _ledgers_of_functions(beside: pathlib.Path) -> dict[str, pathlib.Path]:
    """The latest ledgers of the graphs of the same run, by the graph's name."""
    process = read_ledger(str(beside)).data.get("process")
    found: dict[str, pathlib.Path] = {}
    for file in sorted(beside.parent.glob("*.json")):
        with contextlib.suppress(ValueError):
            ledger = read_ledger(str(file))
            if ledger.data.get("process") == process and _beside(file, _BEFORE).exists():
                found[ledger.graph] = file
    return found


def _graph_beside(ledger: pathlib.Path, suffix: str) -> graph_pb2.GraphDef:
    file = _beside(ledger, suffix)
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


def _check(file: pathlib.Path, nodes: Iterable[LedgerNode]) -> None:
    for node in nodes:
        if not isinstance(node.name, str) or node.reason not in reasons.SENTENCES:
            raise ValueError(
                f"{str(file)!r}: is damaged, or of another version: node {node.name!r} has the "
                f"reason {node.reason!r}"
            )


def _body(name: str, file: pathlib.Path, ledger: Ledger, before: graph_pb2.GraphDef) -> Body:
    _check(file, ledger.nodes)
    return Body(
        name,
        _by_name(before.node),
        {node.name: node for node in ledger.nodes},
        ledger.casts,
        _by_name(_graph_beside(file, _AFTER).node),
        ledger.rewrites,
        ledger.collectives,
        missed=ledger.missed,
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
        if name in ACCEPTED_NAMES
    }
    try:
        return PrecisionOptions(**values)
    except ValueError:
        gone = ("modify_mixlist", "customize_dtypes", "ops_info_dir", "ops_info_overlay")
        return PrecisionOptions(**{name: values[name] for name in values if name not in gone})

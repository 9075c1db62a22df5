"""The data of a report's page: columns of numbers, and each text once.

The page decides nothing and words nothing itself: decisions and sentences come from explanation.py
and story.py. 20,000 nodes take a few megabytes, because a node is a row of numbers, and refers to
its cause and inputs by row number.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import message
from tensorflow.core.framework import node_def_pb2, types_pb2

from npu_precision import _version
from npu_precision.explain import attribute_texts, explanation, reasons, story
from npu_precision.explain.explanation import Body, Explanation
from npu_precision.ledger import LedgerNode
from npu_precision.offline import run_optimizer
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import function_attributes
from npu_precision.offline.tensor_names import flat_tensor

SCHEMA = "npu_precision.report/1"
# The page refers to these words by index.
DECISIONS = ("not float", "lowered", "kept", "raised", "cast", "added")
BEFORE, AFTER = 1, 2
_NOT_FLOAT, _CAST, _ADDED = map(DECISIONS.index, ("not float", "cast", "added"))
_CONTROL = -1
_NONE = -1


def report_data(
    model: Model,
    explained: Explanation,
    curve: Iterable[Mapping[str, Any]] = (),
    times: Mapping[str, Any] | None = None,
    entered: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """The data of a page.

    Args:
        model: the model.
        explained: the decisions about it.
        curve: how the error grows with the share of lowered nodes; see report.write_report.
        times: the step times that were measured; see report.write_report.
        entered: the errors that were measured; see report.write_report.
    """
    rows = _Rows(explained, entered or {})
    for number, body in enumerate(explained.bodies):
        rows.add(number, body)
    return {
        "schema": SCHEMA,
        "version": _version.__version__,
        "title": model.title or pathlib.PurePath(model.path).name,
        "model": model.path,
        "kind": model.shown_kind,
        "signature": model.signature,
        "options": explained.options.to_dict(),
        "totals": explained.counts().totals,
        "counts": explained.counted_sentence(),
        "warnings": list(explained.warnings),
        "mappings": [
            {"place": place, "entry": entry, "ops": list(ops)}
            for place, entry, ops in explained.mappings
        ],
        "by_op": [dataclasses.asdict(row) for row in explained.by_op()],
        "graphs": [body.name for body in explained.bodies],
        "decisions": list(DECISIONS),
        "sentences": {
            reason: reasons.SENTENCES[reason]
            for reason in sorted({node.reason for _, node in explained.nodes()})
        },
        "curve": [_finite(point) for point in curve],
        "times": times,
        **rows.data(),
    }


class _Rows:
    """The nodes of all bodies, before and after the rewrite, with the Casts among them."""

    def __init__(self, explained: Explanation, entered: Mapping[str, float]) -> None:
        self._entered = entered
        self._graphs = {body.name: number for number, body in enumerate(explained.bodies)}
        self._with_advice = story.uses_lists(explained.options)
        self._followers = {
            (self._graphs[blocker.body], blocker.node.name): len(blocker.followers)
            for blocker in explained.blockers()
        }
        self._strings = _Numbered()
        self._dtypes = _Numbered()
        self._attributes = _Numbered()
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "name graph views op decision list listed_by reason cause follows dtypes device "
                "inputs"
            ).split()
        }
        self._casts: list[dict[str, Any]] = []
        # Columns that few nodes have a value in: the values by row.
        self._some: dict[str, dict[int, Any]] = {
            name: {}
            for name in (
                "advice attributes calls cause_elsewhere entered escaped followers inputs_after "
                "no_vote op_after range remark rewrites shapes values why_listed"
            ).split()
        }

    def data(self) -> dict[str, Any]:
        return {
            "strings": list(self._strings),
            "dtypes": [list(map(list, each)) for each in self._dtypes],
            "attributes": [list(map(list, each)) for each in self._attributes],
            "nodes": self._columns,
            "some": self._some,
            "casts": self._casts,
        }

    def add(self, graph: int, body: Body) -> None:
        """Adds the nodes of a body, then the edges between them."""
        before, after = self._add_nodes(graph, body)
        self._connect(body, before, after)
        deciders = body.deciders()
        for name, node in body.nodes.items():
            self._add_story(body, before, node, deciders[name])
        for cast in body.casts:
            self._add_cast(body, cast, before, after)
        for entry in body.rewrites:
            if entry.node in before:
                line = f"{entry.by}: {entry.before} -> {entry.after}"
                self._some["rewrites"].setdefault(before[entry.node], []).append(line)
        for missed in body.missed:
            if missed.node in before:
                line = f"{missed.by} changes nothing, because {missed.why}"
                self._some["rewrites"].setdefault(before[missed.node], []).append(line)

    def _add_nodes(self, graph: int, body: Body) -> tuple[dict[str, int], dict[str, int]]:
        """Adds rows; returns them by the names of their nodes before and after the rewrite."""
        casts = {cast.name for cast in body.casts}
        before: dict[str, int] = {}
        after: dict[str, int] = {}
        results = map(_result_name, body.returns)
        ends = {**dict.fromkeys(body.arguments, "_Arg"), **dict.fromkeys(results, "_Retval")}
        for name in dict.fromkeys([*body.arguments, *body.definitions, *ends, *body.nodes]):
            definition = body.definitions.get(name)
            if definition is not None:
                op = definition.op
            else:
                op = body.nodes[name].op if name in body.nodes else ends[name]
            before[name] = self._add_row(graph, name, op, definition, body.nodes.get(name))
            now = name if name not in casts else name + run_optimizer.RENAMED
            if definition is None or now in body.rewritten:
                after[now] = before[name]
                self._columns["views"][before[name]] = BEFORE | AFTER
        for name, definition in body.rewritten.items():
            if name in after:
                continue
            after[name] = row = self._add_row(graph, name, definition.op, definition, None)
            self._columns["views"][row] = AFTER
            self._columns["decision"][row] = _CAST if name in casts else _ADDED
        self._add_calls(body, before)
        return before, after

    def _add_row(
        self,
        graph: int,
        name: str,
        op: str,
        definition: node_def_pb2.NodeDef | None,
        node: LedgerNode | None,
    ) -> int:
        # The ledger has the dtypes that may change; the node's own attributes have the others.
        dtypes = _stated_dtypes(definition) if node is None else node.dtypes
        row: dict[str, Any] = {
            "name": name,
            "graph": graph,
            "views": BEFORE,
            "op": self._strings.number(op),
            "decision": _NOT_FLOAT if node is None else DECISIONS.index(node.decision),
            "list": _NONE if node is None else self._strings.number(node.shown_list),
            "listed_by": _NONE if node is None else self._strings.number(node.listed_by),
            "reason": _NONE if node is None else self._strings.number(node.reason),
            "cause": _NONE,
            "follows": _NONE,
            "dtypes": self._dtypes.number(
                tuple((key, *pair) for key, pair in sorted(dtypes.items()))
            ),
            "device": self._strings.number(definition.device if definition is not None else ""),
            "inputs": [],
        }
        for column, value in row.items():
            self._columns[column].append(value)
        number = len(self._columns["name"]) - 1
        about = attribute_texts.attribute_texts(definition) if definition is not None else ()
        if about:
            self._some["attributes"][number] = self._attributes.number(about)
        shapes = story.shapes(node) if node is not None else ""
        # The ledger has float nodes only.
        if shapes == "" and definition is not None:
            shapes = attribute_texts.recorded_shapes(definition)
        if shapes:
            self._some["shapes"][number] = self._strings.number(shapes)
        return number

    def _add_calls(self, body: Body, rows: Mapping[str, int]) -> None:
        for name, definition in body.definitions.items():
            called = [definition.op, *(each.name for each in function_attributes(definition))]
            graphs = [self._graphs[each] for each in dict.fromkeys(called) if each in self._graphs]
            if graphs:
                self._some["calls"][rows[name]] = graphs

    def _connect(self, body: Body, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        inputs = self._columns["inputs"]
        for name, definition in body.definitions.items():
            inputs[before[name]] = _inputs(definition.input, body.definitions, before)
        for name, tensor in body.returns.items():
            inputs[before[_result_name(name)]] = _inputs([tensor], body.definitions, before)
        for name, definition in body.rewritten.items():
            self._connect_after(after[name], _inputs(definition.input, body.rewritten, after))
            if self._strings[self._columns["op"][after[name]]] != definition.op:
                self._some["op_after"][after[name]] = self._strings.number(definition.op)
        for name, tensor in body.rewritten_returns.items():
            row = before[_result_name(name)]
            self._connect_after(row, _inputs([tensor], body.rewritten, after))

    def _connect_after(self, row: int, inputs: list[int]) -> None:
        if self._columns["views"][row] == AFTER:
            self._columns["inputs"][row] = inputs
        elif inputs != self._columns["inputs"][row]:
            self._some["inputs_after"][row] = inputs

    def _add_story(
        self, body: Body, rows: Mapping[str, int], node: LedgerNode, decider: LedgerNode
    ) -> None:
        row = rows[node.name]
        if node.cause in rows:
            self._columns["cause"][row] = rows[node.cause]
        elif node.cause:
            self._some["cause_elsewhere"][row] = node.cause
        followed = body.followed(node)
        if followed is not None:
            self._columns["follows"][row] = rows[followed.name]
        key = (self._columns["graph"][row], node.name)
        if key in self._followers:
            self._some["followers"][row] = self._followers[key]
        if re.escape(node.name) != node.name:
            self._some["escaped"][row] = re.escape(node.name)
        if body.name == explanation.MAIN_GRAPH and node.name in self._entered:
            error = self._entered[node.name]
            self._some["entered"][row] = error if math.isfinite(error) else None
        self._add_range(row, node)
        if story.remark(node):
            self._some["remark"][row] = self._strings.number(story.remark(node))
        if node.why_listed:
            self._some["why_listed"][row] = self._strings.number(node.why_listed)
        no_vote = [
            [rows[each.tensor.rpartition(":")[0]], self._strings.number(each.no_vote)]
            for each in story.neighbours(body, node)
            if each.no_vote
        ]
        if no_vote:
            self._some["no_vote"][row] = no_vote
        if not self._with_advice:
            return
        found = story.advice(node, decider)
        if found:
            self._some["advice"][row] = [
                [self._strings.number(each.key), rows[each.node], self._strings.number(each.effect)]
                for each in found
            ]

    def _add_range(self, row: int, node: LedgerNode) -> None:
        told = story.values(node)
        if node.range is None or not told:
            return
        self._some["values"][row] = self._strings.number(told)
        self._some["range"][row] = [
            *node.range,
            *(
                _NONE if end is None else self._strings.number(story.shown_number(end))
                for end in node.range
            ),
        ]

    def _add_cast(
        self, body: Body, cast: Any, before: Mapping[str, int], after: Mapping[str, int]
    ) -> None:
        if cast.name not in after:
            return
        tensor = explanation.cast_tensor(cast)
        source, _, port = tensor.rpartition(":")
        self._casts.append(
            {
                "node": after[cast.name],
                "of": before.get(source, after.get(source, _NONE)),
                "port": int(port),
                "tensor": tensor,
                "from": cast.from_dtype,
                "to": cast.to_dtype,
                "bytes": cast.bytes,
                "read_by": cast.consumers,
            }
        )


class _Numbered:
    """Distinct values, numbered in the order in which they were added."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._values: list[Any] = []

    def number(self, value: Any) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self._values)
            self._values.append(value)
        return self._numbers[value]

    def __getitem__(self, number: int) -> Any:
        return self._values[number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)


def _result_name(name: str) -> str:
    """The name of the ledger's node for a result of a function."""
    return f"{name}_RetVal"


def _inputs(
    tensors: Sequence[str],
    definitions: dict[str, node_def_pb2.NodeDef],
    rows: Mapping[str, int],
) -> list[int]:
    """The row and output number of each input, in turn; the number is -1 for control inputs."""
    found: list[int] = []
    for tensor in tensors:
        if tensor.startswith("^"):
            if tensor[1:] in rows:
                found += [rows[tensor[1:]], _CONTROL]
            continue
        source, flat = flat_tensor(tensor, definitions)
        if source in rows:
            found += [rows[source], int(flat.rpartition(":")[2])]
    return found


def _stated_dtypes(definition: message.Message | None) -> dict[str, list[str]]:
    """The dtypes in a node's attributes, as pairs of before and after."""
    found = {}
    for name, value in definition.attr.items() if definition is not None else ():
        kind = value.WhichOneof("value")
        if kind == "type":
            found[name] = [_dtype_name(value.type)] * 2
        elif kind == "list":
            for place, number in enumerate(value.list.type):
                found[f"{name}[{place}]"] = [_dtype_name(number)] * 2
    return {name: pair for name, pair in found.items() if not name.startswith("_")}


def _finite(point: Mapping[str, Any]) -> dict[str, Any]:
    """The point with None for an infinite error: neither JSON nor an axis can show infinity."""
    error = point["error"]
    return {**point, "error": error if error is not None and math.isfinite(error) else None}


def _dtype_name(number: int) -> str:
    name = types_pb2.DataType.Name(number)[len("DT_") :].lower()
    return {"float": "float32", "half": "float16", "double": "float64"}.get(name, name)

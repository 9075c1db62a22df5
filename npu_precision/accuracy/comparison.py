"""Compares a model in float32 and in another precision, tensor by tensor, on the same inputs."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from npu_precision import _library
from npu_precision.accuracy import session_state, tensor_stats
from npu_precision.accuracy.counterparts import computed_tensors, counterpart, low_type, rounds
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.model_run import random_tensors, run_as_it_is
from npu_precision.accuracy.tensor_stats import TensorStats
from npu_precision.ledger import Ledger, LedgerNode
from npu_precision.offline.graph_def import rewrite_graph_def
from npu_precision.offline.reachable import (
    fetchable_nodes,
    function_attributes,
    keep_called_functions,
)
from npu_precision.offline.tensor_names import flat_tensor
from npu_precision.options import PrecisionOptions

# The prefix of the key of the error that enters at a tensor; the tensor's name follows.
_ENTERED = "entered "
# The suffix of names that both graphs would have.
_OTHER = "_mixed"
EMPTY = "nothing was compared: no output has any elements; have the inputs any rows?"
# The name of a node that rounds a tensor and saturates: the producer and the output's number.
_SATURATES = re.compile(
    r"(?:mixed/)?(.*?)(?:/npu_changed_*)?/npu_(?:emulated|cast)_(\d+)_float16_*"
)
# The outputs of loops; values are rounded inside, out of reach of the comparison.
_EXITS = ("Exit", "RefExit")
# Switches off the passes that change more than dtypes, after which tensors have no counterparts.
DTYPES_ONLY: dict[str, Any] = {"rewrites": "none", "lower_collectives": False}


@dataclasses.dataclass(frozen=True)
class Row:
    """One float tensor.

    Attributes:
        tensor: its name, as "conv1:0".
        node: the ledger's entry of its producer, or None.
        position: its place in the order of computation, from 0.
        stats: its difference to the same tensor in float32.
        entered: the error that enters here: its difference to what float32 computes from the same
            inputs. None if its producer rounds nothing.
        output: the name of the model's output that it is, or "".
    """

    tensor: str
    node: LedgerNode | None
    position: int
    stats: TensorStats
    entered: TensorStats | None
    output: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All float tensors that can be compared, in the order of computation.

    Attributes:
        rows: the tensors.
        ledger: the ledger of the other precision.
        batches: how many batches were run.
        unmeasured: tensors whose entering error is not known, because they come out of a loop or a
            function.
        saturated: by tensor, in the order of their names, how many values became 65504 because they
            did not fit, where an emulated device saturates; also of tensors inside of loops.
    """

    rows: tuple[Row, ...]
    ledger: Ledger
    batches: int
    unmeasured: frozenset[str]
    saturated: dict[str, int] = dataclasses.field(default_factory=dict)

    def ranked(self) -> list[Row]:
        """The tensors at which error enters, largest error first."""
        entering = [row for row in self.rows if row.entered is not None]
        return sorted(entering, key=lambda row: -_error(row.entered))

    def outputs(self) -> list[Row]:
        """The model's outputs."""
        return [row for row in self.rows if row.output]

    def error(self) -> float:
        """The largest error of an output; infinite where one has a NaN or an infinity too many."""
        return max((row.stats.error for row in self.outputs()), default=0.0)

    def first_bad(self) -> Row | None:
        """The first tensor with a NaN or an infinity that float32 does not have."""
        return next((row for row in self.rows if row.stats.new_bad), None)


def _error(stats: TensorStats | None) -> float:
    return 0.0 if stats is None else stats.error


class Comparer:
    """Runs a model in float32 and in another precision.

    Both are in one graph, together with the ops that compare them, so that no tensor has to be
    stored. The graph has a third copy of each op that rounds, to find where error enters.

    Args:
        model: the model.
        options: the precision.

    Raises:
        ValueError: the optimizer refuses options or model.
    """

    def __init__(self, model: FrozenModel, options: PrecisionOptions):
        mixed, self._ledger = rewrite_graph_def(
            model.graph_def, list(model.outputs), options, **DTYPES_ONLY
        )
        keep_called_functions(mixed, _OTHER)
        for node in mixed.node:
            if "frame_name" in node.attr:  # Must differ: the frame name identifies a loop.
                node.attr["frame_name"].s += _OTHER.encode()
        self._model = model
        self._output_names: dict[str, str] = {}
        for name, tensor in model.output_names.items():
            others = self._output_names.get(tensor)
            self._output_names[tensor] = name if others is None else f"{others}, {name}"
        self._outputs = model.unnamed_outputs
        self._nodes = {node.name: node for node in model.graph_def.node}
        self._decided = {node.name: node for node in self._ledger.nodes}
        self._low = low_type(self._ledger)
        self._states = (
            *model.states,
            *session_state.apart(mixed, model.states, _OTHER),
        )
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._build(mixed)

    def run(self, batches: Iterable[Feed]) -> Comparison:
        """Compares the two precisions over all batches.

        Raises:
            ValueError: TensorFlow cannot run the model on them.
        """
        given = (
            {
                f"{graph}/{tensor}": value
                for tensor, value in self._model.fed(feed).items()
                for graph in ("float32", "mixed")
            }
            for feed in batches
        )
        _library.take_saturations()  # of earlier runs
        results = run_as_it_is(self._graph, self._fetches, given, self._states)
        rows = []
        for position, name in enumerate(self._tensors):
            entered = None
            if _ENTERED + name in self._fetches:
                entered = tensor_stats.merged([each[_ENTERED + name] for each in results])
            node = name.rpartition(":")[0]
            rows.append(
                Row(
                    name,
                    self._decided.get(node),
                    position,
                    tensor_stats.merged([each[name] for each in results]),
                    entered,
                    self._output_names.get(name, name if node in self._outputs else ""),
                )
            )
        made = [row.stats for row in rows if row.output] or [row.stats for row in rows]
        if made and not any(stats.elements or stats.misshapen for stats in made):
            raise ValueError(EMPTY)
        unmeasured = frozenset(
            row.tensor for row in rows if row.entered is None and self._hides_rounding(row)
        )
        return Comparison(tuple(rows), self._ledger, len(results), unmeasured, _saturated_tensors())

    def _build(self, mixed: graph_pb2.GraphDef) -> None:
        model = self._model
        tf.import_graph_def(model.graph_def, name="float32")
        self._random = {name: self._reference(name) for name in random_tensors(model.graph_def)}
        tf.import_graph_def(mixed, input_map=self._random, name="mixed")
        self._rewritten = {node.name for node in mixed.node}
        self._statistics = tensor_stats.Statistics(self._low)
        self._tensors: list[str] = []
        for name in computed_tensors(model, self._graph, "float32/"):
            self._compare(name)
        reachable = fetchable_nodes(model.graph_def)
        rounding = [
            node
            for node in self._ledger.nodes
            if rounds(node) and node.op not in _EXITS and node.name in reachable
        ]
        self._compare_locally(rounding)
        self._fetches = self._statistics.build()

    def _hides_rounding(self, row: Row) -> bool:
        """Whether the tensor's producer rounds, or contains nodes that do and cannot be fetched."""
        definition = self._nodes[row.tensor.rpartition(":")[0]]
        return (
            (row.node is not None and rounds(row.node))
            or definition.op in _EXITS
            or any(True for _ in function_attributes(definition))
        )

    def _reference(self, tensor: str) -> tf.Tensor:
        return self._graph.get_tensor_by_name(f"float32/{tensor}")

    def _compare(self, name: str) -> None:
        other = self._counterpart(name)
        if other is None:
            return
        self._tensors.append(name)
        self._statistics.add(name, self._reference(name), other)

    def _counterpart(self, name: str) -> tf.Tensor | None:
        """The tensor of this name in the other precision, as its consumers read it."""
        if name in self._random:
            return self._random[name]
        other = counterpart(name, self._rewritten, self._low)
        return None if other is None else self._graph.get_tensor_by_name(f"mixed/{other}")

    def _compare_locally(self, rounding: list[LedgerNode]) -> None:
        """Adds a float32 copy of each op that rounds, which reads the rounded inputs."""
        again = graph_pb2.GraphDef(versions=self._model.graph_def.versions)
        inputs: dict[str, tf.Tensor] = {}
        for entry in rounding:
            node = self._nodes[entry.name]
            tensors = self._real_inputs(node)
            if tensors is None:
                continue
            copy = again.node.add()
            copy.CopyFrom(node)
            copy.attr.pop("_class", None)
            del copy.input[:]
            for number, tensor in enumerate(tensors):
                key = f"{node.name}/npu_input_{number}"
                inputs[f"{key}:0"] = tensor
                copy.input.append(key)
        if not again.node:
            return
        tf.import_graph_def(again, input_map=inputs, name="again")
        for node in again.node:
            op = self._graph.get_operation_by_name(f"again/{node.name}")
            for number, tensor in enumerate(op.outputs):
                name = f"{node.name}:{number}"
                other = self._counterpart(name) if name in self._statistics else None
                if other is not None:
                    self._statistics.add(_ENTERED + name, tensor, other)

    def _real_inputs(self, node: node_def_pb2.NodeDef) -> list[tf.Tensor] | None:
        """The inputs of the node in the other precision; None if one is not available."""
        tensors = []
        for name in node.input:
            if name.startswith("^"):
                continue
            _, tensor_name = flat_tensor(name, self._nodes)
            reference, tensor = self._reference(tensor_name), self._counterpart(tensor_name)
            if tensor is None or reference.dtype in (tf.resource, tf.variant):
                return None
            tensors.append(tf.cast(tensor, reference.dtype) if _is_float(reference) else tensor)
        return tensors


def _saturated_tensors() -> dict[str, int]:
    counts: collections.Counter[str] = collections.Counter()
    for node, count in _library.take_saturations().items():
        match = _SATURATES.fullmatch(node)
        counts[node if match is None else f"{match[1]}:{match[2]}"] += count
    return dict(sorted(counts.items()))


def _is_float(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype == tf.float32)

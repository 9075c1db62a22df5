"""Ranks lowered nodes by their risk for accuracy, from value ranges and errors of one run."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from typing import List, Tuple

import numpy as np
import tensorflow as tf

from npu_precision.accuracy.comparison import Comparison, Row
from npu_precision.accuracy.counterparts import low_type
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.tensor_stats import low_type_of

# Pairs of an expected relative error and the evidence for it.
_Risks = List[Tuple[float, str]]


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A lowered node of a model; for a node of a function, all its inlined copies together.

    Attributes:
        node: its name in the graph or function.
        op: its op type.
        flat: its names in the frozen model.
        risk: about how large a relative error it causes; infinite if the low type cannot hold its
            inputs or outputs, or if an infinity or NaN appears.
        why: the evidence, in words.
    """

    node: str
    op: str
    flat: tuple[str, ...]
    risk: float
    why: tuple[str, ...]


# A smaller share of too small values is not reported.
_FEW = 5e-4


def suspects(model: FrozenModel, compared: Comparison) -> list[Suspect]:
    """The lowered nodes, highest risk first; at equal risk, in the order of computation.

    Nodes inside loops and branches come last, because their values cannot be measured. Nodes that
    freezing added are left out, because no mixlist can name them.

    Args:
        model: the model.
        compared: a comparison of the model, with the errors that enter.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(model.graph_def, name="")
    seen = _Seen(graph, compared)
    found: dict[str, list[Suspect]] = collections.OrderedDict()
    for number, ledger in enumerate(compared.ledger):
        for node in ledger.nodes:
            if node.decision == "lowered" and number > 0:
                found.setdefault(node.name, []).append(_unseen(node.name, node.op))
            elif node.decision == "lowered" and node.name in model.origins:
                suspect = seen.suspect(graph.get_operation_by_name(node.name))
                found.setdefault(model.origins[node.name], []).append(suspect)
    place = {row.tensor.rpartition(":")[0]: row.position for row in compared.rows}
    return sorted(
        (_merged(name, several) for name, several in found.items()),
        key=lambda each: (-each.risk, place.get(each.flat[0], len(place)), each.node),
    )


def _unseen(name: str, op: str) -> Suspect:
    return Suspect(name, op, (name,), 0.0, ("in a function, where nothing is measured",))


def _merged(name: str, several: list[Suspect]) -> Suspect:
    """The suspects of one node as one, with the highest of their risks."""
    riskiest = max(several, key=lambda each: each.risk)
    flat = itertools.chain.from_iterable(each.flat for each in several)
    return dataclasses.replace(riskiest, node=name, flat=tuple(dict.fromkeys(flat)))


class _Seen:
    """The nodes whose values were measured."""

    def __init__(self, graph: tf.Graph, compared: Comparison):
        self._low = low_type_of(low_type(compared.ledger))
        self._constants = {
            op.outputs[0].name: op.get_attr("value")
            for op in graph.get_operations()
            if op.type == "Const" and op.outputs[0].dtype == tf.float32
        }
        self._rows: dict[str, Row] = {row.tensor: row for row in compared.rows}

    def suspect(self, op: tf.Operation) -> Suspect:
        reads = [self._rows[each.name] for each in op.inputs if each.name in self._rows]
        yields = [self._rows[each.name] for each in op.outputs if each.name in self._rows]
        risks = [
            *self._overflow("reads", reads),
            *self._overflow("yields", yields),
            *self._underflow(yields),
            *self._constants_read(op),
            *_entering(yields),
        ]
        if not any(row.entered is not None for row in yields):
            risks += self._not_measured(op, reads, yields)
        if not yields:
            risks.append((0.0, "inside of a loop or branch, where nothing is measured"))
        largest = max((risk for risk, _ in risks), default=0.0)
        return Suspect(op.name, op.type, (op.name,), largest, tuple(why for _, why in risks))

    def _overflow(self, verb: str, rows: list[Row]) -> _Risks:
        largest = max((row.stats.largest for row in rows if row.stats.above), default=0.0)
        return [(math.inf, f"{verb} values up to {largest:.1e}")] if largest else []

    def _underflow(self, yields: list[Row]) -> _Risks:
        share = max(
            (row.stats.below / row.stats.elements for row in yields if row.stats.below), default=0.0
        )
        if share < _FEW:
            return []
        return [(share, f"{share:.1%} of its values are below {self._low.tiny:.1e}")]

    def _constants_read(self, op: tf.Operation) -> _Risks:
        """The risk of a small constant that keeps a denominator or logarithm away from 0.

        Losing such a constant hardly changes most values, but it matters next to 0.
        """
        values = [
            abs(tf.make_ndarray(self._constants[given.name]).item())
            for given in op.inputs
            if given.name in self._constants and given.shape.num_elements() == 1
        ]
        return self._epsilon(values, "reads the constant")

    def _not_measured(self, op: tf.Operation, reads: list[Row], yields: list[Row]) -> _Risks:
        """The risks of a node where the error that enters was not measured, from its attributes."""
        attribute = [op.get_attr("epsilon")] if "epsilon" in op.node_def.attr else []
        risks = self._epsilon(attribute, "has the epsilon")
        terms = _terms(op, reads, yields)
        # A sum of that many ones is a number to which the low type cannot add another one.
        if terms >= 2 / self._low.unit:
            risks.append((self._low.unit * math.sqrt(terms), f"adds {terms} terms"))
        return risks

    def _epsilon(self, values: list[float], what: str) -> _Risks:
        return [
            (min(1.0, self._low.zero / value), f"{what} {value:.1e}")
            for value in values
            if 0 < value < self._low.tiny
        ]


def _entering(yields: list[Row]) -> _Risks:
    error = max((row.entered.error for row in yields if row.entered is not None), default=0.0)
    if error == 0:
        return []
    what = f"error {error:.1e}" if math.isfinite(error) else "an infinity or NaN"
    return [(error, f"{what} enters")]


# By op type, the attribute that transposes the first matrix.
_MATRIX_PRODUCTS = {
    "MatMul": "transpose_a",
    "BatchMatMul": "adj_x",
    "BatchMatMulV2": "adj_x",
    "BatchMatMulV3": "adj_x",
}
_CONVOLUTIONS = ("Conv2D", "Conv3D")
_SUMS = ("Sum", "Mean", "Prod", "L2Loss")


def _terms(op: tf.Operation, reads: list[Row], yields: list[Row]) -> int:
    """How many terms are added for each output element of an op; 1 if unknown."""
    if op.type in _MATRIX_PRODUCTS:
        shape = op.inputs[0].shape
        column = -2 if op.get_attr(_MATRIX_PRODUCTS[op.type]) else -1
        return (shape.as_list()[column] if shape.rank else None) or 1
    if op.type in _CONVOLUTIONS:
        shape = op.inputs[1].shape
        return int(np.prod(shape.as_list()[:-1])) if shape.is_fully_defined() else 1
    if op.type in _SUMS and reads and yields and yields[0].stats.elements:
        return int(reads[0].stats.elements // yields[0].stats.elements)
    return 1

"""Which lowered nodes put accuracy at risk, from one run: the ranges of float32, and the errors."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from typing import List, Tuple

import numpy as np
import tensorflow as tf

from npu_precision.accuracy.comparison import Comparison, Row, low_type
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.tensor_stats import low_type_of

# About how large a relative error is to be expected, and what speaks for it.
_Risks = List[Tuple[float, str]]


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A lowered node of a model, or what a function makes of it wherever it is called.

    Attributes:
        node: its name in the graph or function.
        op: its op type.
        flat: its names in the frozen model.
        risk: about how large a relative error it makes; infinite if the low type cannot hold what
            it reads or yields, or if an infinity or NaN comes into being.
        why: what speaks against it, in words.
    """

    node: str
    op: str
    flat: tuple[str, ...]
    risk: float
    why: tuple[str, ...]


# A smaller share of values that are too small is not worth a word.
_FEW = 5e-4


def suspects(model: FrozenModel, compared: Comparison) -> list[Suspect]:
    """The lowered nodes, those of most risk first, and of the same risk those that run first.

    Nodes inside of loops and branches, whose values nobody sees, are last. What is no node of the
    model, because freezing made it, no mixlist could name: it is left out.

    Args:
        model: the model.
        compared: a run of it, with the errors that enter.
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
    """What is of one node, as the one of most risk."""
    riskiest = max(several, key=lambda each: each.risk)
    flat = itertools.chain.from_iterable(each.flat for each in several)
    return dataclasses.replace(riskiest, node=name, flat=tuple(dict.fromkeys(flat)))


class _Seen:
    """The nodes whose values were seen."""

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
        """Of what keeps a denominator, or what a logarithm is of, from being 0.

        What is lost of it is little next to most values, and all of it next to 0.
        """
        values = [
            abs(tf.make_ndarray(self._constants[given.name]).item())
            for given in op.inputs
            if given.name in self._constants and given.shape.num_elements() == 1
        ]
        return self._epsilon(values, "reads the constant")

    def _not_measured(self, op: tf.Operation, reads: list[Row], yields: list[Row]) -> _Risks:
        """Where nobody can tell what error enters, what it may come of."""
        attribute = [op.get_attr("epsilon")] if "epsilon" in op.node_def.attr else []
        risks = self._epsilon(attribute, "has the epsilon")
        terms = _terms(op, reads, yields)
        # So many ones add up to a number to which the low type cannot add another one.
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


# By op type, the attribute that says that the first matrix is transposed.
_MATRIX_PRODUCTS = {
    "MatMul": "transpose_a",
    "BatchMatMul": "adj_x",
    "BatchMatMulV2": "adj_x",
    "BatchMatMulV3": "adj_x",
}
_CONVOLUTIONS = ("Conv2D", "Conv3D")
_SUMS = ("Sum", "Mean", "Prod", "L2Loss")


def _terms(op: tf.Operation, reads: list[Row], yields: list[Row]) -> int:
    """How many terms are added for each element of what an op yields; 1 if that is not known."""
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

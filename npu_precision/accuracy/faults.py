"""Finds the tensors that another precision ruins: a new NaN or infinity, or nothing but zeros."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Dict

import numpy as np
import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.accuracy.counterparts import computed_tensors, counterpart, low_type, rounds
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_run import random_tensors
from npu_precision.accuracy.per_tensor import PerTensor
from npu_precision.ledger import Ledger
from npu_precision.offline.reachable import function_attributes
from npu_precision.offline.tensor_names import flat_tensor

Arrays = Dict[str, np.ndarray]

NOT_FINITE = "has a NaN or an infinity that it has not in float32"
ALL_ZERO = "is all zero, and is not in float32"
# The most nodes that one fault is blamed on.
_MOST_NODES = 3


@dataclasses.dataclass(frozen=True)
class Fault:
    """A tensor that another precision ruins, whatever the model's outputs say.

    Attributes:
        tensor: its name in the frozen model, as "conv1:0".
        op: the op type of its producer.
        what: NOT_FINITE or ALL_ZERO.
        nodes: the nodes to blame, by their names in the model: its producer, if that rounds, else
            the nearest nodes before it that do, or the first few of them.
    """

    tensor: str
    op: str
    what: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        blamed = f"; lowered: {', '.join(self.nodes)}" if self.nodes else ""
        return f"{self.tensor} ({self.op}) {self.what}{blamed}"


class FaultFinder:
    """Finds the first fault of a run, after a run in float32 on the same inputs.

    An element that is NaN or infinite in float32 too is no fault, and neither is a tensor that is
    all zero, or empty, in float32. Tensors inside of loops and branches cannot be fetched, so
    values are checked where they leave these.

    Args:
        model: the model.
        graph: a graph that it was imported into without a prefix; the ops that record float32's
            faults are added to it.

    Attributes:
        fetches: the fetches for the run in float32, by key.
    """

    def __init__(self, model: FrozenModel, graph: tf.Graph):
        self._model = model
        self._nodes = {node.name: node for node in model.graph_def.node}
        # The values of random ops are fed.
        fed = set(random_tensors(model.graph_def))
        self._tensors = [name for name in computed_tensors(model, graph) if name not in fed]
        with graph.as_default():
            notes = PerTensor("in_float32", _note)
            for name in self._tensors:
                notes.add(_KEY + name, graph.get_tensor_by_name(name))
            self.fetches: dict[str, tf.Tensor] = notes.build()
        self._is_zero = np.zeros([0, len(self._tensors)], bool)
        self._bad: list[Arrays] = []

    def remember(self, results: Sequence[Arrays]) -> None:
        """Takes the values of `fetches` out of the results of the run in float32, a batch each."""
        notes = [[result.pop(_KEY + name) for name in self._tensors] for result in results]
        shape = (len(results), len(self._tensors))
        self._is_zero = np.array([[each[0] for each in row] for row in notes], bool).reshape(shape)
        bad = [{name: each[1:] for name, each in zip(self._tensors, row)} for row in notes]
        ever = {name for batch in bad for name, places in batch.items() if places.size}
        self._bad = [{name: batch[name] for name in sorted(ever)} for batch in bad]

    def watch(self, ledger: Ledger) -> Watch:
        """Watches the default graph, into which the model was imported in another precision."""
        graph = tf.compat.v1.get_default_graph()
        rewritten = {op.name for op in graph.get_operations()}
        low = low_type(ledger)
        places = {name: tf.compat.v1.placeholder(tf.int64, [None]) for name in self._bad[0]}
        looks = PerTensor("faults", _ruined)
        for name in self._tensors:
            other = counterpart(name, rewritten, low)
            if other is not None:
                tensor = graph.get_tensor_by_name(other)
                looks.add(name, tensor, *([places[name]] if name in places else []))
        # Fetching one tensor is faster than fetching thousands.
        seen = looks.build()
        fetch = tf.stack(list(seen.values())) if seen else tf.zeros([0, 2], tf.bool)
        feeds = [{places[name].name: batch[name] for name in places} for batch in self._bad]
        return Watch(fetch, feeds, list(seen))

    def first(self, watch: Watch, counted: Sequence[np.ndarray], ledger: Ledger) -> Fault | None:
        """The first fault in the order of computation, in any batch.

        Args:
            watch: the result of watch().
            counted: the value of watch.fetch, for each batch.
            ledger: the ledger of the precision.
        """
        column = [self._tensors.index(name) for name in watch.tensors]
        found = np.stack(counted)
        not_finite = found[:, :, 0].any(axis=0)
        all_zero = (found[:, :, 1] & ~self._is_zero[:, column]).any(axis=0)
        places = np.flatnonzero(not_finite | all_zero)
        if not places.size:
            return None
        tensor = watch.tensors[places[0]]
        what = NOT_FINITE if not_finite[places[0]] else ALL_ZERO
        node = self._nodes[tensor.rpartition(":")[0]]
        return Fault(tensor, node.op, what, self._blamed(node.name, ledger))

    def _blamed(self, node: str, ledger: Ledger) -> tuple[str, ...]:
        rounding = {entry.name for entry in ledger.nodes if rounds(entry)}
        level, seen = [node], {node}
        while level:
            # A node inside of a function goes by the name of the node that calls it.
            found = [name for name in level if name in rounding or self._has_function(name)]
            if found:
                names = (self._model.origins.get(name, name) for name in found)
                return tuple(dict.fromkeys(names))[:_MOST_NODES]
            before = [
                flat_tensor(tensor.lstrip("^"), self._nodes)[0]
                for name in level
                for tensor in self._nodes[name].input
            ]
            level = [name for name in dict.fromkeys(before) if name not in seen]
            seen.update(level)
        return ()

    def _has_function(self, name: str) -> bool:
        return any(True for _ in function_attributes(self._nodes[name]))


@dataclasses.dataclass(frozen=True)
class Watch:
    """The fetch and feeds by which the faults of a run are found.

    Attributes:
        fetch: the tensor to fetch, a bool tensor [tensors, 2].
        feeds: the feeds for each batch: where float32 has NaNs and infinities.
        tensors: the tensors that are watched, in the order of computation.
    """

    fetch: tf.Tensor
    feeds: Sequence[Mapping[str, np.ndarray]]
    tensors: Sequence[str]


# The prefix of a note's key; the tensor's name follows.
_KEY = "note of "


def _note(tensor: tf.Tensor) -> tf.Tensor:
    """Whether all elements are 0, followed by the places of NaNs and infinities, as int64."""
    values = tf.reshape(tf.cast(tensor, tf.float32), [-1])
    is_zero = tf.reduce_all(tf.equal(values, 0))
    bad = _tf_compat.where(tf.logical_not(tf.math.is_finite(values)))
    return tf.concat([[tf.cast(is_zero, tf.int64)], tf.reshape(bad, [-1])], 0)


def _ruined(tensor: tf.Tensor, *bad_in_float32: tf.Tensor) -> tf.Tensor:
    """Two bools: whether NaNs or infinities are elsewhere than in float32, and whether all is 0."""
    # Not every TensorFlow has these kernels in the low types.
    values = tf.reshape(tf.cast(tensor, tf.float32), [-1])
    # Sums and maxima of floats take a tenth of the time that counts of bools take.
    is_zero = tf.equal(tf.reduce_max(tf.abs(values)), 0)
    if not bad_in_float32:
        return tf.stack([tf.not_equal(tf.reduce_sum(values * 0), 0), is_zero])
    bad = tf.logical_not(tf.math.is_finite(values))
    places = tf.reshape(bad_in_float32[0], [-1])
    # The size differs from float32's where it depends on values.
    is_inside = places < tf.size(values, out_type=tf.int64)
    expected = tf.gather(bad, tf.boolean_mask(places, is_inside))
    new = tf.math.count_nonzero(bad) > tf.math.count_nonzero(expected)
    return tf.stack([new, is_zero])

"""Runs a model on the same batches in one precision after the other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Dict

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from npu_precision.accuracy import tensor_stats
from npu_precision.accuracy.comparison import DTYPES_ONLY, EMPTY
from npu_precision.accuracy.counterparts import low_type
from npu_precision.accuracy.faults import Fault, FaultFinder
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.model_run import is_float_array, random_tensors, run_as_it_is
from npu_precision.ledger import Ledger
from npu_precision.offline.graph_def import rewrite_graph_def
from npu_precision.options import PrecisionOptions
from npu_precision.tuning.objective import Batches, MaxError, Objective

Arrays = Dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Trial:
    """The quality of a model in one precision.

    Attributes:
        lowered: how many float nodes are lowered.
        float_nodes: how many float nodes compute.
        error: the largest error of an output, as Comparison.error(); NaN if no output is of floats.
        metric: the value of the user's metric, or None.
        fault: the first tensor that has a new NaN or infinity or became all zero, or None.
        is_met: whether the objective is met.
        counts: the counts of lowered nodes of the frozen graph, in words.
    """

    lowered: int
    float_nodes: int
    error: float
    metric: float | None
    fault: Fault | None
    is_met: bool
    counts: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the precision is accepted: the objective is met, and no tensor is ruined."""
        return self.is_met and self.fault is None


class Trials:
    """Tries precisions on a model, always with the same batches.

    Float32 runs once. Its outputs are kept, and the values of its random ops, which every trial
    reuses. For the other tensors, only the places of infinities and NaNs are kept, and whether a
    tensor is all zero.

    Args:
        model: the model.
        batches: the inputs to run it on.
        objective: the limit to meet.

    Attributes:
        reference: the user's metric in float32, or None.

    Raises:
        ValueError: TensorFlow cannot run the model on the batches, or the metric fails.
    """

    def __init__(self, model: FrozenModel, batches: Sequence[Feed], objective: Objective):
        self._model = model
        self._batches = batches
        self.objective = objective
        self._names = {given.tensor: name for name, given in model.inputs.items()}
        self._random = random_tensors(model.graph_def)
        self._compute_metric = None if isinstance(objective, MaxError) else objective.function()
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(model.graph_def, name="")
            self._outputs = output_tensors(model, graph)
            self._faults = FaultFinder(model, graph)
            kept = {tensor: tensor for tensor in [*self._outputs.values(), *self._random]}
            self._float32 = run_as_it_is(
                graph,
                {**kept, **self._faults.fetches},
                map(model.fed, batches),
                model.states,
            )
        self._faults.remember(self._float32)
        self._check()
        self.reference = self._metric(self._float32)
        if self.reference is not None and not math.isfinite(self.reference):
            raise ValueError(f"{objective} cannot be told: with float32 it is {self.reference:g}")

    def _check(self) -> None:
        made = [[values[tensor] for tensor in self._outputs.values()] for values in self._float32]
        is_float = any(map(is_float_array, made[0]))
        if isinstance(self.objective, MaxError) and not is_float:
            raise ValueError(
                f"no output is of floats: {', '.join(self._outputs)}; --metric can measure others"
            )
        if not any(output.size for outputs in made for output in outputs):
            raise ValueError(EMPTY)

    def run(self, options: PrecisionOptions) -> Trial:
        """Tries a precision.

        Raises:
            ValueError: the optimizer refuses options or model.
        """
        graph_def, ledger = self.decide(options)
        results, fault = self._run(graph_def, ledger)
        stats = [
            tensor_stats.merged([result[_STATISTICS + tensor] for result in results])
            for tensor in self._outputs.values()
            if _STATISTICS + tensor in results[0]
        ]
        error = max((each.error for each in stats), default=math.nan)
        metric = self._metric(results)
        is_met = self.objective.is_met(error, metric, self.reference)
        counts = ledger.counts
        lowered, total = counts.totals["lowered"], counts.totals["float_nodes"]
        return Trial(lowered, total, error, metric, fault, is_met, counts.sentence)

    def worse(self, trial: Trial) -> float:
        """The limited value: the error, or how much worse than float32's the metric is."""
        return self.objective.worse(trial.error, trial.metric, self.reference)

    def decide(self, options: PrecisionOptions) -> tuple[graph_pb2.GraphDef, Ledger]:
        """The model rewritten to a precision, and the ledger, without a run."""
        # Overflows must show, also on a device that saturates, because 65504 is as wrong as
        # infinity.
        changes = {**DTYPES_ONLY, **({"overflow": "inf"} if options.emulate else {})}
        return rewrite_graph_def(
            self._model.graph_def, list(self._model.outputs), options, **changes
        )

    def _run(
        self, graph_def: graph_pb2.GraphDef, ledger: Ledger
    ) -> tuple[list[Arrays], Fault | None]:
        """For each batch: the statistics of float outputs, and the outputs if there is a metric.

        And the first fault of any batch.
        """
        feeds = []
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            statistics = tensor_stats.Statistics(low_type(ledger))
            references = {}
            for tensor in self._outputs.values():
                if is_float_array(self._float32[0][tensor]):
                    references[tensor] = tf.compat.v1.placeholder(tf.float64)
                    output = graph.get_tensor_by_name(tensor)
                    statistics.add(_STATISTICS + tensor, references[tensor], output)
            fetches = dict(statistics.build())
            if self._compute_metric is not None:
                fetches.update({tensor: tensor for tensor in self._outputs.values()})
            watch = self._faults.watch(ledger)
            fetches[_FAULTS] = watch.fetch
            for feed, values, more in zip(self._batches, self._float32, watch.feeds):
                given = {tensor: values[tensor] for tensor in self._random}
                given.update({references[tensor].name: values[tensor] for tensor in references})
                feeds.append({**self._model.fed(feed), **given, **more})
            results = run_as_it_is(graph, fetches, feeds, self._model.states)
        return results, self._faults.first(watch, [each[_FAULTS] for each in results], ledger)

    def _metric(self, results: list[Arrays]) -> float | None:
        if self._compute_metric is None:
            return None
        batches: Batches = [
            (
                {self._names[tensor]: value for tensor, value in feed.items()},
                {name: result[tensor] for name, tensor in self._outputs.items()},
            )
            for feed, result in zip(self._batches, results)
        ]
        return self._compute_metric(batches)


# The prefix of the key of a tensor's statistics; the tensor's name follows.
_STATISTICS = "statistics of "
# The key of the fetch by which faults are found.
_FAULTS = "faults"


def output_tensors(model: FrozenModel, graph: tf.Graph) -> dict[str, str]:
    """The output tensors, by their names in the signature, or else by their own."""
    tensors = [
        tensor.name
        for node in model.outputs
        for tensor in graph.get_operation_by_name(node).outputs
    ]
    named = {name: tensor for name, tensor in model.output_names.items() if tensor in tensors}
    whole = model.unnamed_outputs
    others = {tensor: tensor for tensor in tensors if tensor.rpartition(":")[0] in whole}
    return {**named, **others}

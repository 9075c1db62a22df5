"""Compares the outputs of a converted model with those of its source."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Dict

import numpy as np
import tensorflow as tf

from npu_precision import _library
from npu_precision.accuracy import frozen, tensor_stats
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.model_run import is_float_array, is_random, run_once
from npu_precision.accuracy.tensor_stats import TensorStats
from npu_precision.offline import model_file
from npu_precision.offline.model_file import Model
from npu_precision.offline.reachable import called_functions, needed_nodes

Arrays = Dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Verified:
    """How far the outputs of a converted model are from those of its source.

    Attributes:
        stats: the statistics of the float outputs, by name.
        outputs: all outputs of the converted model, by name, for each batch.
    """

    stats: dict[str, TensorStats]
    outputs: list[Arrays]

    def worst(self) -> tuple[str, float]:
        """The output with the largest error, and that error."""
        return max(
            ((name, each.error) for name, each in self.stats.items()), key=lambda pair: pair[1]
        )


class Verifier:
    """Compares converted models with their source, as TensorFlow runs both on this machine.

    Args:
        source: the model; it runs once.
        batches: the inputs, by the source's tensors; frozen.inputs_of(source) says which there are.

    Attributes:
        outputs: all outputs of the source, by name, for each batch.

    Raises:
        RandomOutputsError: the outputs differ from run to run.
        ValueError: TensorFlow cannot run the model.
    """

    def __init__(self, source: Model, batches: Sequence[Feed]) -> None:
        self._source, self._batches = source, batches
        self.outputs = self._outputs_of(source)
        random = _unseeded(source)
        if random is None:
            return
        again = self._outputs_of(source)
        for first, second in zip(self.outputs, again):
            differing = [name for name in first if not _is_equal(first[name], second[name])]
            if differing:
                raise RandomOutputsError(
                    f"{source.path!r} draws random numbers without a seed ({random}), so output "
                    f"{differing[0]} differs from run to run: nothing can be verified"
                )

    def verify(self, converted: Model) -> Verified:
        """Runs a converted model, as it is on disk, and compares it.

        Raises:
            ValueError: TensorFlow cannot run it.
        """
        outputs = self._outputs_of(converted)
        names = [name for name, value in self.outputs[0].items() if is_float_array(value)]
        with contextlib.ExitStack() as stack:
            measure = _measures(stack)
            stats = {
                name: tensor_stats.merged(
                    [
                        measure(exact[name], other[name])
                        for exact, other in zip(self.outputs, outputs)
                    ]
                )
                for name in names
            }
        return Verified(stats, outputs)

    def _outputs_of(self, model: Model) -> list[Arrays]:
        with contextlib.ExitStack() as stack:
            # A training in this process must not see these overflows.
            stack.callback(_library.take_overflow)
            run = _Run(model, self._source, stack)
            return [run.run(feed) for feed in self._batches]


class RandomOutputsError(ValueError):
    """A model's outputs differ from run to run, so that they cannot be compared."""


def _unseeded(model: Model) -> str | None:
    """The first random op that the roots depend on and that has no seed, or None."""
    graph_def = model.meta_graph.graph_def
    functions = {each.signature.name: each for each in graph_def.library.function}
    nodes = needed_nodes(graph_def, frozen.roots(model))
    called = called_functions(nodes, functions)
    bodies = [nodes, *(functions[name].node_def for name in called)]
    for node in itertools.chain.from_iterable(bodies):
        if is_random(node) and not (node.attr["seed"].i or node.attr["seed2"].i):
            return str(node.name)
    return None


def _is_equal(first: np.ndarray, second: np.ndarray) -> bool:
    return first.shape == second.shape and first.tobytes() == second.tobytes()


class _Run:
    """A model in a session.

    Args:
        model: the model.
        source: the model whose tensors the feeds name, and whose checkpoint has a MetaGraph's
            variables.
        stack: closes the session.
    """

    def __init__(self, model: Model, source: Model, stack: contextlib.ExitStack) -> None:
        self._graph, self._model = tf.Graph(), model
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=self._graph, config=config)
        stack.callback(self._session.close)
        path = source.path if model.kind == model_file.META_GRAPH else model.path
        with self._graph.as_default(), self._session.as_default():
            frozen.load(dataclasses.replace(model, path=path), self._session)
        own = frozen.inputs_of(model).inputs
        self._inputs = {
            each.tensor: own[name] for name, each in frozen.inputs_of(source).inputs.items()
        }

    def run(self, feed: Feed) -> Arrays:
        """The values of all outputs that can be fetched."""
        fed = {}
        for tensor, value in feed.items():
            own = self._inputs[tensor]
            fed[own.tensor] = value.astype(own.dtype.as_numpy_dtype)
        return run_once(self._session, self._outputs(), fed)

    def _outputs(self) -> dict[str, str]:
        names = frozen.output_names(self._model)
        if not names:
            operations = map(self._graph.get_operation_by_name, frozen.roots(self._model))
            names = {each.name: each.name for op in operations for each in op.outputs}
        return {
            name: tensor
            for name, tensor in names.items()
            if self._graph.get_tensor_by_name(tensor).dtype not in (tf.resource, tf.variant)
        }


def _measures(stack: contextlib.ExitStack) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A function that compares two arrays, as tensor_stats.statistics()."""
    with tf.Graph().as_default() as graph:
        exact_value, other_value = (tf.compat.v1.placeholder(tf.float64) for _ in range(2))
        result = tensor_stats.statistics(exact_value, other_value, tf.float16)
    session = tf.compat.v1.Session(graph=graph)
    stack.callback(session.close)

    def measure(exact: np.ndarray, other: np.ndarray) -> np.ndarray:
        return session.run(result, {exact_value: exact, other_value: other})

    return measure

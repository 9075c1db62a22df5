"""Compares the outputs of a converted model with those of its source."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from npu_precision import _library
from npu_precision.accuracy import frozen, tensor_stats
from npu_precision.accuracy.model_inputs import Feed
from npu_precision.accuracy.model_run import run_once
from npu_precision.accuracy.tensor_stats import TensorStats
from npu_precision.offline import model_file
from npu_precision.offline.model_file import Model


@dataclasses.dataclass(frozen=True)
class Verified:
    """How far the outputs of a converted model are from those of its source.

    Attributes:
        stats: the statistics of the float outputs, by name.
        batches: how many batches both ran.
    """

    stats: dict[str, TensorStats]
    batches: int

    def worst(self) -> tuple[str, float]:
        """The output with the largest error, and that error."""
        return max(
            ((name, each.error) for name, each in self.stats.items()), key=lambda pair: pair[1]
        )


def verify(source: Model, converted: Model, batches: Iterable[Feed]) -> Verified:
    """Runs both models as TensorFlow runs them on this machine, batch by batch.

    Args:
        source: the model.
        converted: the converted model, as it is on disk.
        batches: the inputs, by the source's tensors; frozen.inputs_of(source) says which there are.

    Raises:
        ValueError: the model has no float output, or TensorFlow cannot run one of them.
    """
    with contextlib.ExitStack() as stack:
        # A training in this process must not see these overflows.
        stack.callback(_library.take_overflow)
        exact, lowered = _Run(source, source, stack), _Run(converted, source, stack)
        fetches = exact.float_outputs()
        if not fetches:
            raise ValueError(f"{source.path!r} has no float output: nothing can be verified")
        measure = _measures(stack)
        found: dict[str, list[np.ndarray]] = {name: [] for name in fetches}
        for feed in batches:
            values, others = exact.run(feed, fetches), lowered.run(feed, fetches)
            for name in fetches:
                found[name].append(measure(values[name], others[name]))
    count = len(next(iter(found.values())))
    return Verified({name: tensor_stats.merged(each) for name, each in found.items()}, count)


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

    def float_outputs(self) -> list[str]:
        """The names of its outputs that are float32 or a low type."""
        return [
            name
            for name, tensor in self._outputs().items()
            if self._graph.get_tensor_by_name(tensor).dtype.is_floating
        ]

    def run(self, feed: Feed, outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """The values of these outputs."""
        fed = {}
        for tensor, value in feed.items():
            own = self._inputs[tensor]
            fed[own.tensor] = value.astype(own.dtype.as_numpy_dtype)
        tensors = self._outputs()
        return run_once(self._session, {name: tensors[name] for name in outputs}, fed)

    def _outputs(self) -> dict[str, str]:
        names = frozen.output_names(self._model)
        if names:
            return names
        operations = map(self._graph.get_operation_by_name, frozen.roots(self._model))
        return {each.name: each.name for operation in operations for each in operation.outputs}


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

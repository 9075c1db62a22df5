"""npu_bridge's npu_hook: session hooks, and hooks that only an NPU needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from npu_precision import _no_effect
from npu_precision._tf_compat import tf1
from npu_precision.hccl.training import NPUBroadcastGlobalVariablesHook

__all__ = [
    "NPUBroadcastGlobalVariablesHook",
    "NPUCheckpointSaverHook",
    "NPUInfeedOutfeedSessionHook",
    "NPULogOutfeedSessionHook",
    "NPUOutputTensorHook",
    "NPUShutdownHook",
    "SetIterationsVarHook",
    "TellMeStepOrLossHook",
]


class NPUCheckpointSaverHook(tf1.train.CheckpointSaverHook):
    """tf.train.CheckpointSaverHook. In loops of several steps it saves after a loop.

    Source: npu_bridge's NPUCheckpointSaverHook.
    """


class NPUOutputTensorHook(tf1.train.SessionRunHook):
    """Gives the values of tensors to a function, every N runs and at the end.

    Args:
        tensors: a dict of tensors or their names, or a list of them, whose names are then the keys.
        dependencies: an op, or a list of them, that runs before the tensors are read.
        output_fn: gets a list with a dict, of values by key, for each run since the last call.
        output_every_n_steps: N, in runs, which are loops of iterations_per_loop steps; 0 for the
            end alone.

    Source: npu_bridge's NPUOutputTensorHook(tensors, dependencies=None, output_fn=None,
    output_every_n_steps=0).
    """

    def __init__(
        self,
        tensors: Any,
        dependencies: Any = None,
        output_fn: Callable[[list[dict[str, Any]]], Any] | None = None,
        output_every_n_steps: int = 0,
    ) -> None:
        if not isinstance(tensors, dict):
            tensors = {getattr(each, "name", each): each for each in tensors}
        self._given: dict[str, Any] = tensors
        self._dependencies = dependencies
        self._output_fn = output_fn
        self._every = output_every_n_steps
        self._tensors: dict[str, Any] = {}
        self._values: list[dict[str, Any]] = []

    def begin(self) -> None:
        """Finds the tensors, and makes them depend on the dependencies."""
        graph = tf1.get_default_graph()
        self._tensors = {
            key: graph.as_graph_element(each, allow_operation=False)
            for key, each in self._given.items()
        }
        if self._dependencies is not None:
            with tf.control_dependencies(_ops(self._dependencies)):
                self._tensors = {key: tf.identity(each) for key, each in self._tensors.items()}

    def before_run(self, run_context: Any) -> Any:
        """Fetches the tensors."""
        del run_context
        return tf1.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the values, and calls the function if it is time."""
        del run_context
        self._values.append(run_values.results)
        if self._every and len(self._values) >= self._every:
            self._call()

    def end(self, session: Any) -> None:
        """Calls the function with the remaining values."""
        del session
        if self._values:
            self._call()

    def _call(self) -> None:
        values, self._values = self._values, []
        if self._output_fn is not None:
            self._output_fn(values)


def _ops(dependencies: Any) -> list[Any]:
    return list(dependencies) if isinstance(dependencies, Iterable) else [dependencies]


class _HookOfNpu(tf1.train.SessionRunHook):
    """A hook that only an NPU needs; it does nothing, as the log says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        _no_effect.name_once(type(self).__name__)


class SetIterationsVarHook(_HookOfNpu):
    """Does nothing: NPUEstimator sets the steps of a loop itself.

    Source: npu_bridge's SetIterationsVarHook.
    """


class NPUShutdownHook(_HookOfNpu):
    """Does nothing: there is nothing to shut down.

    Source: npu_bridge's NPUShutdownHook.
    """


class NPUInfeedOutfeedSessionHook(_HookOfNpu):
    """Does nothing: there are no queues to and from an NPU.

    Source: npu_bridge's NPUInfeedOutfeedSessionHook.
    """


class NPULogOutfeedSessionHook(_HookOfNpu):
    """Does nothing: the log of the session is here already.

    Source: npu_bridge's NPULogOutfeedSessionHook.
    """


class TellMeStepOrLossHook(_HookOfNpu):
    """Does nothing: it is part of a mode of an NPU that lowers only some of the steps.

    Source: npu_bridge's TellMeStepOrLossHook.
    """

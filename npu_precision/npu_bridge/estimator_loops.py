"""Iterations per loop of NPUEstimator: one session.run makes several training steps."""

from __future__ import annotations

import logging
from typing import Any

from npu_precision import _errors, _tf_compat
from npu_precision._tf_compat import tf1
from npu_precision.npu_bridge.iterations import IterationPerLoop
from npu_precision.options import OPTIMIZER_NAME, plain_value

_LOGGER = logging.getLogger("npu_precision")
_NAME = "iterations_per_loop"


def train_in_loops(estimator: Any) -> None:
    """Makes an Estimator train in loops, if the config of its sessions has iterations_per_loop.

    Hooks run once per loop. Training ends at the requested step: if the steps are no multiple of
    iterations_per_loop, the last loop is shorter, and the log says so. (On an NPU they must be a
    multiple. If save_checkpoints_steps is none, checkpoints are later than requested, here too.)

    Raises:
        ValueError: iterations_per_loop is no integer, or less than 1.

    Source: iterations_per_loop of npu_bridge's NPURunConfig.
    """
    config = estimator.config.session_config
    iterations = _iterations(config)
    if iterations is None:
        return
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(f"{_NAME}: got {_errors.got(iterations)}, expected an integer, at least 1")
    # The optimizer would log that it has no effect.
    rest = type(config)()
    rest.CopyFrom(config)
    for entry in rest.graph_options.rewrite_options.custom_optimizers:
        if entry.name == OPTIMIZER_NAME:
            del entry.parameter_map[_NAME]
    _tf_compat.set_estimator_session_config(estimator, rest)
    if iterations == 1:
        return

    def looping(spec: Any, hooks: list[Any]) -> Any:
        hook = _LoopHook(spec.train_op, iterations, hooks)
        return spec._replace(train_op=hook.op, training_hooks=(*spec.training_hooks, hook))

    _tf_compat.wrap_training(estimator, looping)


def _iterations(config: Any) -> Any:
    for entry in config.graph_options.rewrite_options.custom_optimizers:
        if entry.name == OPTIMIZER_NAME and _NAME in entry.parameter_map:
            return plain_value(entry.parameter_map[_NAME])
    return None


class _LoopHook(tf1.train.SessionRunHook):
    """Sets the length of each loop."""

    def __init__(self, train_op: Any, iterations: int, hooks: list[Any]) -> None:
        self._iterations = iterations
        self._hooks = hooks
        self._loop = IterationPerLoop()
        self.op = self._loop.create_iteration_per_loop_var(train_op)
        self._is_said = False

    def before_run(self, run_context: Any) -> None:
        """Shortens the loop that would go beyond the last step."""
        iterations = self._iterations
        last = _tf_compat.last_step(self._hooks)
        if last is not None:
            # Read again, because loss scaling skips steps.
            left = last - int(run_context.session.run(tf1.train.get_global_step()))
            if left < iterations and not self._is_said:
                self._is_said = True
                _LOGGER.warning(
                    "NPUEstimator: %d steps are left to step %d, and iterations_per_loop is %d: "
                    "this loop is shorter; an NPU needs a multiple",
                    left,
                    last,
                    iterations,
                )
            iterations = max(1, min(iterations, left))
        self._loop.load_iteration_per_loop_var(None, iterations)

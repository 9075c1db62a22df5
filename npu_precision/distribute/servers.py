"""Checks that the servers that run functions for a coordinator have loaded the optimizer.

Under tf.distribute.ParameterServerStrategy a coordinator calls tf.functions in the processes of its
workers. Each worker optimizes the functions that it receives, with the options in their configs.
TensorFlow silently skips an optimizer that a process does not know: the function would run in
float32.
"""

from __future__ import annotations

import logging

from npu_precision import _tf_compat
from npu_precision.options import PrecisionOptions

_LOGGER = logging.getLogger("npu_precision")

# Tasks that have loaded the library. A restarted server runs the same script.
_loaded: set[str] = set()
_warned = False


def is_called_elsewhere(options: PrecisionOptions) -> bool:
    """Whether a tf.function called here runs in another process; checks that this has the
    optimizer.

    Raises:
        RuntimeError: the other process has not loaded the optimizer.
        tf.errors.UnavailableError: there is no such process any more.
    """
    global _warned
    task = _tf_compat.remote_task()
    if task is None:
        return False
    if task not in _loaded:
        if not _tf_compat.can_saturate(task):
            raise RuntimeError(
                f"{task} has not loaded npu_precision, so that its functions would run in float32: "
                "write `import npu_precision` into the script of each server of the cluster, "
                "before tf.distribute.Server(...).join()"
            )
        _loaded.add(task)
    if options.lower_collectives and not _warned:
        _warned = True
        _LOGGER.warning(
            "lower_collectives has no effect on functions that a coordinator sends to %s: they "
            "exchange gradients with parameter servers, in the type of the variables, and not by "
            "an all-reduce",
            task,
        )
    return True

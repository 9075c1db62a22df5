"""The Keras callback that gives all ranks the same first variables.

It is in a module of its own, because Keras takes long to import.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision._tf_compat import tf1
from npu_precision.hccl import ranks, training


class NPUBroadcastGlobalVariablesCallback(tf.keras.callbacks.Callback):
    """Gives all ranks the variables of one, before the first batch of Keras' fit.

    Args:
        root_rank: the rank whose values all get.

    Source: npu_bridge's NPUBroadcastGlobalVariablesCallback.
    """

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        self._root_rank = root_rank
        self._is_done = False

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Broadcasts once."""
        del batch, logs
        if self._is_done or ranks.current().size == 1:
            return
        self._is_done = True
        if tf.executing_eagerly():
            weights = [_tf_compat.plain_variable(weight) for weight in self.model.weights]
            training.broadcast_variables(weights, self._root_rank)
            return
        broadcast = training.broadcast_variables(tf1.global_variables(), self._root_rank)
        tf1.keras.backend.get_session().run(broadcast)

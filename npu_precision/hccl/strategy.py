"""NPUStrategy: the tf.distribute strategy that scripts of npu_bridge give to Estimators."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision.hccl import ranks


def NPUStrategy(device: str = "/cpu:0") -> Any:
    """A strategy of one device; several ranks exchange gradients by NPUDistributedOptimizer.

    Args:
        device: the device of this process, as "/gpu:0".

    Raises:
        ValueError: there are several ranks: Ascend's strategy would average their gradients.

    Source: npu_bridge's NPUStrategy, a class there.
    """
    where = ranks.current()
    if where.size > 1:
        raise ValueError(
            f"NPUStrategy: there are {where.size} ranks ({where.source}), whose gradients it does "
            "not exchange here: leave it out and wrap the optimizer in NPUDistributedOptimizer, or "
            "use tf.distribute.MultiWorkerMirroredStrategy"
        )
    return tf.distribute.OneDeviceStrategy(device)

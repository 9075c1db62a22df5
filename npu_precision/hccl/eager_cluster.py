"""Connects this process to the other ranks for eager execution.

Collectives in eager code and in tf.functions need TensorFlow's own connection to the other ranks,
which tf.distribute makes. It has to be made before the first op is executed.
"""

from __future__ import annotations

import threading
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.hccl import ranks

_lock = threading.Lock()
# Keeps the connection alive.
_connection: Any = None


def connect() -> None:
    """Connects this process to the other ranks, if there are any and it is not connected yet.

    All ranks must call it. It returns when all have done so.

    Raises:
        RuntimeError: this TensorFlow cannot, an op was executed before, another process has the
            address, or a strategy of tf.distribute has connected another number of processes.
    """
    global _connection
    where = ranks.current()
    if where.size == 1:
        return
    with _lock:
        cluster = _tf_compat.cluster_of_process()
        if cluster is None:
            _connection = _connected(where)
        elif len(cluster.workers) != where.size:
            raise RuntimeError(
                f"hccl: tf.distribute has connected {len(cluster.workers)} processes, and there "
                f"are {where.size} ranks ({where.source})"
            )


def _connected(where: ranks.Ranks) -> Any:
    try:
        return _tf_compat.connect_process(where.addresses, where.rank)
    except NotImplementedError as error:
        raise RuntimeError(f"hccl: {error}") from None
    except RuntimeError as error:
        raise RuntimeError(
            f"hccl: rank {where.rank} of {where.size} cannot reach the others from eager code any "
            "more, because an op was executed before the first collective: call npu_device.open() "
            "at the beginning of the script, or tf.compat.v1.disable_eager_execution() and use "
            f"sessions. TensorFlow says: {error}"
        ) from None
    except tf.errors.OpError as error:
        raise RuntimeError(
            f"hccl: rank {where.rank} of {where.size}, with the address "
            f"{where.addresses[where.rank]} ({where.source}; HCCL_IF_BASE_PORT chooses other "
            f"ports), cannot connect: {error.message}"
        ) from None

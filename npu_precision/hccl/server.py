"""The server of this process, through which its sessions reach the other ranks.

Collectives of several processes run in sessions on a tf.distribute.Server. Ascend's scripts make
sessions without a target. If their graph has hccl's ops, they get our server's target. They see
only their own devices, so that each rank keeps its own variables.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from npu_precision import _tf_compat
from npu_precision.hccl import ranks

_JOB = "worker"

_lock = threading.Lock()
_server: Any = None
# Sessions that were made without a target before the server existed.
_local: weakref.WeakSet[Any] = weakref.WeakSet()
# Sessions that reach the other ranks.
_reaching: weakref.WeakSet[Any] = weakref.WeakSet()
# Graphs with collectives.
_graphs: weakref.WeakSet[Any] = weakref.WeakSet()


def target() -> str:
    """The target of this process' server, for tf.compat.v1.Session(target); starts it if need be.

    Raises:
        RuntimeError: another process, or a strategy of tf.distribute, has its address.
    """
    global _server
    with _lock:
        if _server is None:
            _server = _start(ranks.current())
        return _server.target


def add_graph(graph: tf.Graph) -> None:
    """Lets sessions of this graph reach the other ranks, because it gets a collective.

    Raises:
        RuntimeError: there is a session already, which cannot reach them.
    """
    with _lock:
        _graphs.add(graph)
        sessions = list(_local)
    for session in sessions:
        is_open = not getattr(session, "_closed", True)
        if is_open and getattr(session, "_graph", None) is graph:
            raise RuntimeError(
                "hccl: a tf.Session for this graph was made before its first hccl op, and reaches "
                "no other rank: make the session afterwards, or write "
                "tf.Session(npu_precision.hccl.server.target(), config=...)"
            )


def _start(where: ranks.Ranks) -> Any:
    if _tf_compat.cluster_of_process() is not None:
        raise RuntimeError(
            "hccl: a strategy of tf.distribute connects this process to others already; use its "
            "collectives, or run the script without it"
        )
    cluster = {_JOB: list(where.addresses)}
    try:
        return _tf_compat.tf1.train.Server(
            cluster, job_name=_JOB, task_index=where.rank, config=_config(None, where)
        )
    except tf.errors.OpError as error:
        raise RuntimeError(
            f"hccl: rank {where.rank} cannot have the address {where.addresses[where.rank]} "
            f"({where.source}; HCCL_IF_BASE_PORT chooses other ports): {error.message}"
        ) from None


def _config(given: Any, where: ranks.Ranks) -> Any:
    config = config_pb2.ConfigProto()
    if given is not None:
        config.CopyFrom(given)
    config.isolate_session_state = True
    config.experimental.collective_group_leader = f"/job:{_JOB}/replica:0/task:0"
    # Without a timeout, TensorFlow would wait forever for a rank that died between two runs.
    if not config.operation_timeout_in_ms:
        config.operation_timeout_in_ms = 1000 * ranks.exec_timeout()
    if not config.device_filters:
        config.device_filters.append(f"/job:{_JOB}/task:{where.rank}")
    return config


def _for_session(session: Any, graph: Any, config: Any) -> tuple[str, Any] | None:
    """The target and the config of a session that was given no target; None to leave both."""
    with _lock:
        server = _server
        if server is None or graph not in _graphs:
            _local.add(session)
            return None
        _reaching.add(session)
    return server.target, _config(config, ranks.current())


def _with_error(session: Any, fetches: Any, run: Callable[[Any], Any]) -> Any:
    """Runs the fetches; raises RuntimeError for errors that a monitored session would retry."""
    try:
        return run(fetches)
    except tf.errors.DeadlineExceededError as error:
        if session not in _reaching:
            raise
        raise RuntimeError(
            f"hccl: a run of rank {ranks.current().rank} took longer than its time-out "
            "(HCCL_EXEC_TIMEOUT, unless the session's config or the run has one): another rank has "
            "died, or does not run the same collectives"
        ) from error
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if session not in _reaching:
            raise
        where = ranks.current()
        raise RuntimeError(
            f"hccl: rank {where.rank} of {where.size} has lost another rank, and reaches none any "
            f"more: start all of them anew. TensorFlow says: {error.message.splitlines()[0]}"
        ) from error


_tf_compat.choose_session_targets(_for_session)
_tf_compat.wrap_session_runs(_with_error)

"""Wraps the parts for several processes: the cluster, its threads and its sessions."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as session_lib
from tensorflow.python.eager import context, execute

# Whether the workers of tf.distribute share a key-value store whose reads can time out: from 2.15
# on.
HAS_CLUSTER_STORE = hasattr(context.Context, "get_config_key_value") and (
    "timeout_in_ms" in inspect.signature(context.Context.get_config_key_value).parameters
)


def hand_to_replica_threads(take: Callable[[], Any], give: Callable[[Any], None]) -> None:
    """Calls give(taken) in each thread of a MirroredStrategy; its starting thread calls take()."""
    for name in ("mirrored_run", "mirrored_strategy"):
        try:
            module: Any = importlib.import_module(f"tensorflow.python.distribute.{name}")
        except ImportError:
            continue
        thread = getattr(module, "_MirroredReplicaThread", None)
        if thread is not None:
            _hand_to_threads(thread, take, give)
            return


def _hand_to_threads(thread: Any, take: Callable[[], Any], give: Callable[[Any], None]) -> None:
    construct, run = thread.__init__, thread.run

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        self._npu_precision_handed = take()

    def run_with(self: Any) -> None:
        give(self._npu_precision_handed)
        run(self)

    thread.__init__, thread.run = __init__, run_with


def hand_to_closures(take: Callable[[], Any], give: Callable[[Any], Any]) -> None:
    """Calls give() before and after each function that a ClusterCoordinator schedules.

    The first call gets what take() returned when the function was scheduled, and the second what
    the first returned. Functions that were scheduled before this are left alone.
    """
    try:
        module: Any = importlib.import_module(
            "tensorflow.python.distribute.coordinator.cluster_coordinator"
        )
    except ImportError:
        return
    construct, execute = module.Closure.__init__, module.Closure.execute_on

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        self._npu_precision_handed = take()

    def execute_on(self: Any, worker: Any) -> Any:
        if not hasattr(self, "_npu_precision_handed"):
            return execute(self, worker)
        before = give(self._npu_precision_handed)
        try:
            return execute(self, worker)
        finally:
            give(before)

    module.Closure.__init__, module.Closure.execute_on = __init__, execute_on


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that tf.distribute has connected, this process among them.

    Attributes:
        worker: this one, as "/job:worker/task:0".
        workers: all of them, in the order of their ranks.
        has_store: whether they share a key-value store whose reads can time out, as TensorFlow has
            from 2.15 on.
    """

    worker: str
    workers: tuple[str, ...]
    has_store: bool

    def publish(self, key: str, value: str) -> None:
        """Sets a value for all workers; replaces the value from before a worker was restarted."""
        store = context.context()
        try:
            store.set_config_key_value(key, value)
        except tf.errors.AlreadyExistsError:
            store.delete_config_key_value(key)
            store.set_config_key_value(key, value)

    def read(self, key: str, seconds: float) -> str | None:
        """A value, once a worker has set it; None if none does within that time.

        Raises:
            tf.errors.UnavailableError: a worker has died meanwhile.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                return context.context().get_config_key_value(key, max(1, int(min(left, 1) * 1000)))
            except tf.errors.DeadlineExceededError:
                # The store also blocks for a worker that is gone.
                self._check_alive()
                if left <= 1:
                    return None

    def _check_alive(self) -> None:
        jobs = [worker.split("/")[1][len("job:") :] for worker in self.workers]
        counts = [(job, jobs.count(job)) for job in dict.fromkeys(jobs)]
        for worker, error in zip(self.workers, context.context().get_task_states(counts)):
            if error is not None:
                raise tf.errors.UnavailableError(None, None, f"{worker} is gone: {error.message}")

    def tell_all(self, message: str) -> None:
        """Fails the calls that other workers block in, with this message or an earlier one."""
        # A cluster keeps only its first error, whichever worker reports it.
        with contextlib.suppress(tf.errors.OpError):
            context.context().report_error_to_cluster(tf.errors.FAILED_PRECONDITION, message)


def cluster_of_process() -> Cluster | None:
    """The cluster of this process; None where tf.distribute has connected it to none."""
    current = context.context()
    server = getattr(current, "_collective_ops_server_def", None)
    if server is None:
        return None
    jobs = {job.name: len(job.tasks) for job in server.cluster.job}
    workers = tuple(
        f"/job:{job}/task:{task}" for job in ("chief", "worker") for task in range(jobs.get(job, 0))
    )
    own = f"/job:{server.job_name}/task:{server.task_index}"
    if own not in workers:
        return None
    has_store = HAS_CLUSTER_STORE and current.coordination_service is not None
    return Cluster(own, workers, has_store)


def connect_process(addresses: Sequence[str], rank: int) -> Any:
    """Connects this process to others, for collectives in eager code and tf.functions.

    Args:
        addresses: the addresses of all processes, as "10.0.0.1:60000", in the order of their ranks.
        rank: the rank of this process.

    Returns:
        An object that keeps the connection while it lives.

    Raises:
        NotImplementedError: TensorFlow before 2.4.
        RuntimeError: an op was executed already.
        tf.errors.OpError: the address is taken, or another process cannot be reached.
    """
    if not hasattr(tf.distribute, "MultiWorkerMirroredStrategy"):
        raise NotImplementedError(
            f"TensorFlow {tf.__version__} connects processes in the graphs of sessions alone, and "
            "not where it executes eagerly"
        )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(addresses)}),
        task_type="worker",
        task_id=rank,
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


def choose_session_targets(choose: Callable[[Any, Any, Any], tuple[str, Any] | None]) -> None:
    """Makes sessions without a target use what choose(session, graph, config) returns.

    It returns (target, config), or None to leave both. Its errors are raised by the session.
    """
    original = session_lib.BaseSession.__init__

    @functools.wraps(original)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        # The session's destructor reads it, also after an error of choose().
        self._session = None
        of_graph = tf.compat.v1.get_default_graph() if graph is None else graph
        chosen = None if target else choose(self, of_graph, config)
        if chosen is not None:
            target, config = chosen
        original(self, target, graph, config)

    session_lib.BaseSession.__init__ = init


def wrap_session_runs(wrap: Callable[[Any, Any, Callable[..., Any]], Any]) -> None:
    """Replaces each session.run by wrap(session, fetches, run).

    run(fetches) is the original run with the other arguments of the call. It is a functools.partial
    with the keywords feed_dict, options and run_metadata, which run(fetches, options=...)
    overrides.
    """
    original = session_lib.BaseSession.run

    @functools.wraps(original)
    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        given = {"feed_dict": feed_dict, "options": options, "run_metadata": run_metadata}
        return wrap(self, fetches, functools.partial(original, self, **given))

    session_lib.BaseSession.run = run


_keeps_configs: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "npu_precision_keeps_configs", default=False
)


@contextlib.contextmanager
def session_configs_kept() -> Iterator[None]:
    """Scope in which sessions are made with the ConfigProtos that they are given."""
    token = _keeps_configs.set(True)
    try:
        yield
    finally:
        _keeps_configs.reset(token)


def map_session_configs(transform: Callable[[config_pb2.ConfigProto], Any]) -> None:
    """Makes each session from now on with transform(config) in place of its ConfigProto."""
    original = session_lib.BaseSession.__init__

    @functools.wraps(original)
    def __init__(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        given = context.context().config if config is None else config
        is_config = isinstance(given, config_pb2.ConfigProto)
        changes = is_config and not _keeps_configs.get()
        original(self, target, graph, transform(given) if changes else config)

    session_lib.BaseSession.__init__ = __init__


def remote_task() -> str | None:
    """The other process that a function called here runs in, as "/job:worker/task:0", or None."""
    current = context.context()
    server = getattr(current, "_server_def", None)
    if server is None:
        return None
    device = current.device_spec
    if device is None or device.job is None:
        return None
    task = device.task or 0
    if (device.job, task) == (server.job_name, server.task_index):
        return None
    return f"/job:{device.job}/task:{task}"


def can_saturate(task: str) -> bool:
    """Whether that process of the cluster has NpuPrecisionSaturate, an op of our library.

    Raises:
        tf.errors.UnavailableError: there is no such process any more.
    """
    with tf.init_scope(), tf.device(task):
        try:
            execute.execute(
                b"NpuPrecisionSaturate",
                1,
                [tf.constant(0.0)],
                ("reports", False),
                context.context(),
            )
        except tf.errors.NotFoundError:
            return False
    return True

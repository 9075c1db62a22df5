"""Wraps private parts of TensorFlow, and parts that differ between its versions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, op_def_pb2
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
from tensorflow.python.client import session as session_lib
from tensorflow.python.eager import backprop, context, execute
from tensorflow.python.framework import errors, func_graph, op_def_registry, ops
from tensorflow.python.grappler import cluster, tf_optimizer
from tensorflow.python.ops import collective_ops, gradients_util
from tensorflow.python.util import tf_decorator, tf_export

# The module that TF1 scripts call tf. On TensorFlow 1.15 that is not compat.v1, which lacks
# tf.contrib.
tf1 = tf if tf.__version__.startswith("1.") else tf.compat.v1

# TF1's loss scaling moved here in 2.4.
_MIXED_PRECISION = getattr(tf1, "mixed_precision", None) or tf1.train.experimental
LossScale: Any = _MIXED_PRECISION.LossScale
MixedPrecisionLossScaleOptimizer: Any = _MIXED_PRECISION.MixedPrecisionLossScaleOptimizer

# Grappler makes one AddN of several sums, without their attributes. Those that have this one were
# made so, to Grappler, and stay.
IS_MERGED_SUM = "_grappler_ArithmeticOptimizer_AddOpsRewriteStage"
SUMS = ("Add", "AddV2", "AddN")

# tf.einsum of TensorFlow 1.15 builds matrix products instead of an Einsum.
OPS_OF_EINSUM = () if tf1 is tf else ("Einsum",)

# Whether the workers of tf.distribute share a key-value store that can be read without waiting for
# ever: from 2.15 on.
HAS_CLUSTER_STORE = hasattr(context.Context, "get_config_key_value") and (
    "timeout_in_ms" in inspect.signature(context.Context.get_config_key_value).parameters
)

# Strategies whose replicas hold copies of all variables, and make each step together.
MIRRORED_STRATEGIES: tuple[type, ...] = tuple(
    getattr(module, name)
    for module, name in (
        (tf.distribute, "MirroredStrategy"),
        (tf.distribute, "MultiWorkerMirroredStrategy"),
        (tf.distribute.experimental, "MultiWorkerMirroredStrategy"),
    )
    if hasattr(module, name)
)

# Strategies whose workers make steps of their own, on variables that they share.
PARAMETER_SERVER_STRATEGIES: tuple[type, ...] = (
    (tf.distribute.ParameterServerStrategy,)
    if hasattr(tf.distribute, "ParameterServerStrategy")
    else ()
)

_NO_ESTIMATOR = (
    f"TensorFlow {tf.__version__} has no tf.estimator (2.15 is the last that does): use "
    "npu_precision.enable() with Keras or tf.function, or npu_config_proto() with a session"
)


class NoEstimator:
    """Replaces a base class of tf.estimator in TensorFlow versions without it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoEstimator:
        raise RuntimeError(_NO_ESTIMATOR)


def estimator_class(name: str) -> Any:
    """A class of tf.compat.v1.estimator, or one that raises an error when it is instantiated."""
    try:
        return getattr(tf.compat.v1.estimator, name)
    except (AttributeError, ImportError):
        return NoEstimator


def map_function_configs(transform: Callable[[bytes], bytes]) -> None:
    """Applies transform to the serialized ConfigProto of every later call of a tf.function.

    Every call reads this property. Setting context()._config instead would miss threads that have
    already called a function, because each thread caches its FunctionCallOptions. Changes to that
    cache are lost when any experimental option is set, which clears it.
    """
    options_class = context.FunctionCallOptions
    original = options_class.config_proto_serialized

    def config_proto_serialized(self: Any) -> bytes:
        return transform(original.fget(self))

    options_class.config_proto_serialized = property(config_proto_serialized, original.fset)


@contextlib.contextmanager
def attributes_of_new_ops(
    graph: tf.Graph, attributes: Mapping[str, attr_value_pb2.AttrValue]
) -> Iterator[None]:
    """Scope in which ops created in this graph, not in graphs inside it, get these attributes."""
    with graph._attr_scope(attributes):
        yield


def call_for_new_ops(graph: tf.Graph, name: str, value: Callable[[str], Any]) -> None:
    """Gives each op created in this graph from now on the attribute, unless value(type) is None."""
    graph._attr_scope_map[name] = lambda node: value(node.op)


def call_for_no_new_ops(graph: tf.Graph, name: str) -> None:
    """Reverses call_for_new_ops()."""
    graph._attr_scope_map.pop(name, None)


def call_for_new_functions(callback: Callable[[tf.Graph], None]) -> None:
    """Calls back with the graph of each function, branch and loop body built from now on."""
    original = func_graph.FuncGraph.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        callback(self)

    func_graph.FuncGraph.__init__ = __init__


class _PartOfKey:
    """Stands for what tf.functions are traced anew for, in the place of an XLA context.

    TensorFlow traces a function anew for each XLA context that says so.
    """

    def RequiresUniqueFunctionRetracing(self) -> bool:
        return True


# Where the module is that makes the key under which a trace of a tf.function is kept.
_KEY_MODULES = (
    "eager.polymorphic_function.function_context",
    "eager.function_context",
    "eager.function_cache",
    "eager.function",
)


def trace_anew_for(part: Callable[[], Any]) -> None:
    """Makes part(), of a few hashable values, a part of the key of a tf.function's traces.

    It is asked where a function calls a function; None is no part.
    """
    parts: dict[Any, _PartOfKey] = {}
    module: Any
    for name in _KEY_MODULES:
        try:
            module = importlib.import_module(f"tensorflow.python.{name}")
        except ImportError:
            continue
        if hasattr(module, "_enclosing_xla_context"):
            break
    else:  # 1.15
        _trace_anew_in_tf1(importlib.import_module("tensorflow.python.eager.function"), part)
        return
    original = module._enclosing_xla_context

    def _enclosing_xla_context() -> Any:
        found, value = original(), part()
        return found if value is None else parts.setdefault((id(found), value), _PartOfKey())

    module._enclosing_xla_context = _enclosing_xla_context


def _trace_anew_in_tf1(module: Any, part: Callable[[], Any]) -> None:
    original = module.Function._cache_key

    def _cache_key(self: Any, *args: Any, **kwargs: Any) -> Any:
        key, value = original(self, *args, **kwargs), part()
        return (
            key if value is None else key._replace(colocation_stack=(*key.colocation_stack, value))
        )

    module.Function._cache_key = _cache_key


def build_gradients_in(
    scope_of: Callable[[tf.Operation], Any],
    remember: Callable[[], Any],
    recall: Callable[[Any], Any],
) -> None:
    """Builds the gradient of each op in a scope.

    Args:
        scope_of: makes the scope for the gradient of an op by tf.gradients.
        remember: what a tape notes with an op that is made now: hashable, or None.
        recall: makes the scope for a gradient by a tape from what was noted.
    """
    _build_graph_gradients_in(scope_of)
    _build_tape_gradients_in(remember, recall)
    _build_custom_gradients_in(remember, recall)


def _build_graph_gradients_in(scope_of: Callable[[tf.Operation], Any]) -> None:
    original = gradients_util._MaybeCompile

    def _MaybeCompile(scope: Any, op: Any, func: Any, grad_fn: Any) -> Any:
        with scope_of(op):
            return original(scope, op, func, grad_fn)

    gradients_util._MaybeCompile = _MaybeCompile


# Behind the attributes that a tape keeps of an op: the name of what was noted, and that.
_NOTED = "_npu_precision_noted"


def _build_tape_gradients_in(remember: Callable[[], Any], recall: Callable[[Any], Any]) -> None:
    record, build = execute.record_gradient, backprop._gradient_function

    def record_gradient(op_type: str, inputs: Any, attrs: Any, *rest: Any) -> Any:
        noted = remember()
        if noted is not None:
            attrs = (*(attrs or ()), _NOTED, noted)
        return record(op_type, inputs, attrs, *rest)

    def gradient_function(op_type: str, attrs: Any, *rest: Any) -> Any:
        if not attrs or attrs[-2] != _NOTED:
            return build(op_type, attrs, *rest)
        with recall(attrs[-1]):
            return build(op_type, attrs[:-2], *rest)

    execute.record_gradient = record_gradient
    wrapped = getattr(backprop, "pywrap_tfe", None) or backprop.pywrap_tensorflow
    wrapped.TFE_Py_RegisterGradientFunction(gradient_function)


def _build_custom_gradients_in(remember: Callable[[], Any], recall: Callable[[Any], Any]) -> None:
    """Of tf.custom_gradient, and so of tf.recompute_grad, under a tape."""
    try:
        tape: Any = importlib.import_module("tensorflow.python.eager.record")
    except ImportError:
        tape = importlib.import_module("tensorflow.python.eager.tape")
    record = tape.record_operation

    def record_operation(
        op_type: Any,
        output_tensors: Any,
        input_tensors: Any,
        backward_function: Callable[..., Any],
        *rest: Any,
        **named: Any,
    ) -> Any:
        noted, backward = remember(), backward_function

        def backward_in_scope(*grads: Any) -> Any:
            with recall(noted):
                return backward(*grads)

        # The gradients of a function that is called follow its ops.
        if noted is not None and not any(map(_is_of_call, tf.nest.flatten(output_tensors))):
            backward_function = backward_in_scope
        return record(op_type, output_tensors, input_tensors, backward_function, *rest, **named)

    tape.record_operation = record_operation


def _is_of_call(output: Any) -> bool:
    op = None if tf.executing_eagerly() else getattr(output, "op", None)
    return op is not None and op.type.endswith("PartitionedCall")


def call_for_tape_gradients(callback: Callable[[Any, Any], None]) -> None:
    """Calls back with the target and the gradients of each call of GradientTape.gradient().

    Not if it is given output_gradients, with which they are not those of the target alone.
    """
    original = tf.GradientTape.gradient

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(original)
    def gradient(
        self: Any, target: Any, sources: Any, output_gradients: Any = None, *rest: Any, **named: Any
    ) -> Any:
        grads = original(self, target, sources, output_gradients, *rest, **named)
        if output_gradients is None:
            callback(target, grads)
        return grads

    tf.GradientTape.gradient = gradient


def hand_to_replica_threads(take: Callable[[], Any], give: Callable[[Any], None]) -> None:
    """Calls give() in each thread of a MirroredStrategy, with take() of the one that starts it."""
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
    """Calls give() around each function that a ClusterCoordinator has scheduled.

    It gets what take() was where the function was scheduled. Afterwards it gets what it returned.
    Functions that were scheduled before this are not concerned.
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


def attribute(op: tf.Operation, name: str) -> Any:
    """The value of an attribute, or None where the op has none of that name."""
    try:
        return op.get_attr(name)
    except ValueError:
        return None


def enter_for_compiled_functions(scope_of: Callable[[str], Any]) -> None:
    """Calls each tf.function that XLA compiles in the scope that scope_of(its name) gives."""
    function = _function_class()
    original = function.__call__

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "_jit_compile", False) or getattr(self, "_experimental_compile", False):
            with scope_of(getattr(self, "__name__", "?")):
                return original(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    function.__call__ = __call__


def is_tf_function(function: Any) -> bool:
    """Whether it is what @tf.function makes."""
    return isinstance(function, _function_class())


@functools.lru_cache(maxsize=None)
def _function_class() -> Any:
    return type(tf.function(lambda: None))


def called_in(
    scope: Callable[[], Any],
    function: Callable[..., Any],
    cast: Callable[[Any], Any] = lambda given: given,
    finish: Callable[[Any, Any], Any] = lambda result, given: result,
) -> Callable[..., Any]:
    """A function that calls another one in a scope, and that AutoGraph sees through.

    Args:
        scope: makes the context manager of a call.
        function: what is called.
        cast: changes the pair of args and kwargs first.
        finish: changes the result; also gets what the call was given, as such a pair.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        args_of_function, kwargs_of_function = cast((args, kwargs))
        with scope():
            result = run.__wrapped__(  # type: ignore[attr-defined]
                *args_of_function, **kwargs_of_function
            )
        return finish(result, (args, kwargs))

    return tf_decorator.make_decorator(function, run)  # AutoGraph replaces __wrapped__.


def functions_run_eagerly() -> bool:
    """Whether a tf.function called here runs, or is only added to a graph for a session."""
    return ops.executing_eagerly_outside_functions()


def set_op_attribute(op: tf.Operation, name: str, value: attr_value_pb2.AttrValue) -> None:
    """Sets an attribute of an existing op."""
    op._set_attr(name, value)


def optimize_graph(
    config: config_pb2.ConfigProto, meta_graph: meta_graph_pb2.MetaGraphDef, graph_id: str
) -> graph_pb2.GraphDef:
    """Runs Grappler on a graph. The meta graph's collection "train_op" names the fetches.

    Raises:
        Exception: whatever TensorFlow raises when an optimizer fails.
    """
    # The TFG optimizer would run although it is not listed, and drop functions that no node calls.
    # Up to 2.13 it cannot be switched off; run_optimizer undoes what it does.
    rewrite_options = config.graph_options.rewrite_options
    if hasattr(rewrite_options, "disable_tfg_optimizer"):
        rewrite_options.disable_tfg_optimizer = True
    # Without this cluster, TensorFlow would open a session, which takes the memory of every GPU.
    virtual = cluster.Cluster(
        devices=[
            device_properties_pb2.NamedDevice(
                name="/job:localhost/replica:0/task:0/device:" + name,
                properties=device_properties_pb2.DeviceProperties(type=name.partition(":")[0]),
            )
            for name in _device_names()
        ]
    )
    return tf_optimizer.OptimizeGraph(
        config, meta_graph, verbose=False, graph_id=graph_id.encode("utf-8"), cluster=virtual
    )


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that tf.distribute connected, of which this process is one.

    Attributes:
        worker: this one, as "/job:worker/task:0".
        workers: all of them, in the order of their ranks.
        has_store: whether they share a key-value store that can be read without waiting for ever,
            from TensorFlow 2.15 on.
    """

    worker: str
    workers: tuple[str, ...]
    has_store: bool

    def publish(self, key: str, value: str) -> None:
        """Sets a value for all workers; replaces what a worker that was started anew had said."""
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
                # The store waits for a worker that is gone, too.
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
        """Lets what other workers wait for fail with that message, or with an earlier one."""
        # After the first error of a cluster, whoever reports it, there is no other.
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


def choose_session_targets(choose: Callable[[Any, Any, Any], tuple[str, Any] | None]) -> None:
    """Lets choose(session, graph, config) give target and config to sessions made without a target.

    It returns None where both are to stay as they are.
    """
    original = session_lib.BaseSession.__init__

    @functools.wraps(original)
    def init(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        of_graph = tf.compat.v1.get_default_graph() if graph is None else graph
        chosen = None if target else choose(self, of_graph, config)
        if chosen is not None:
            target, config = chosen
        original(self, target, graph, config)

    session_lib.BaseSession.__init__ = init


def _placed(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor with a device, which collectives of TensorFlow 1.15 ask for."""
    if tf1 is not tf or tensor.device:
        return tensor
    with tf.device("/device:CPU:0"):
        return tf.identity(tensor)


def all_reduce(
    tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int, merge_op: str
) -> tf.Tensor:
    """Reduces a tensor of each process of the group: merge_op is "Add", "Mul", "Max" or "Min"."""
    if tf1 is tf and merge_op in ("Max", "Min"):  # which 1.15 has no kernels for
        gathered = all_gather(tensor[tf.newaxis], group_size, group_key, instance_key)
        return (tf.reduce_max if merge_op == "Max" else tf.reduce_min)(gathered, axis=0)
    tensor = _placed(tensor)
    with tf.device(tensor.device):
        return collective_ops.all_reduce(
            tensor, group_size, group_key, instance_key, merge_op, "Id"
        )


def all_gather(tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int) -> tf.Tensor:
    """Concatenates a tensor of each process of the group on the first axis."""
    tensor = _placed(tensor)
    with tf.device(tensor.device):
        return collective_ops.all_gather(tensor, group_size, group_key, instance_key)


def broadcast_send(
    tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int
) -> tf.Tensor:
    """Sends a tensor to the other processes of the group."""
    if tf1 is tf:  # where a receiver that comes first may find no sender
        return all_reduce(tensor, group_size, group_key, instance_key, "Add")
    tensor = _placed(tensor)
    with tf.device(tensor.device):
        return collective_ops.broadcast_send(
            tensor, tensor.shape, tensor.dtype, group_size, group_key, instance_key
        )


def broadcast_recv(
    like: tf.Tensor, group_size: int, group_key: int, instance_key: int
) -> tf.Tensor:
    """Receives a tensor of the shape and dtype of `like`."""
    if tf1 is tf:
        zeros = tf.zeros(like.shape, like.dtype)
        return all_reduce(zeros, group_size, group_key, instance_key, "Add")
    with tf.device(_placed(like).device):
        return collective_ops.broadcast_recv(
            like.shape, like.dtype, group_size, group_key, instance_key
        )


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


def has_gpu() -> bool:
    """Whether TensorFlow sees a GPU."""
    return any(name.startswith("GPU:") for name in _device_names())


def _device_names() -> list[str]:
    """The devices known to TensorFlow's placer, as "CPU:0"."""
    if hasattr(tf.config, "list_physical_devices"):
        devices = tf.config.list_physical_devices()
    else:  # 1.15
        devices = tf.config.experimental.list_physical_devices()
    # TensorFlow 1.15 also lists an XLA device for each device.
    return [
        device.name[len("/physical_device:") :]
        for device in devices
        if not device.device_type.startswith("XLA_")
    ]


def op_definition(op_type: str) -> op_def_pb2.OpDef | None:
    """The registered definition of an op type, or None."""
    if hasattr(op_def_registry, "get"):
        return op_def_registry.get(op_type)
    try:  # 1.15: its Python registry has only the ops that have been used.
        return _NO_NODES._get_op_def(op_type)
    except errors.NotFoundError:
        return None


_NO_NODES = tf.Graph()


def set_keras_session(session: tf.compat.v1.Session) -> None:
    """Sets the session that Keras uses in graph mode.

    Raises:
        RuntimeError: this is Keras 3, which uses no sessions.
    """
    backend = tf.compat.v1.keras.backend
    if not hasattr(backend, "set_session"):
        raise RuntimeError(
            f"Keras of TensorFlow {tf.__version__} runs no sessions: use npu_precision.enable() "
            "with eager execution, or give your own session npu_precision.npu_config_proto()"
        )
    backend.set_session(session)


def needs_build(optimizer: Any) -> bool:
    """Whether it is an optimizer that cannot create its variables in a branch: Keras' from 2.11."""
    return hasattr(optimizer, "build") and not getattr(optimizer, "built", False)


def build_optimizer(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates the variables of an optimizer that needs_build(), outside of its replicas."""
    strategy = tf.distribute.get_strategy()
    is_default = not tf.distribute.has_strategy()
    # Outside of functions the script may have left the strategy's scope.
    with tf.init_scope(), contextlib.nullcontext() if is_default else strategy.scope():
        optimizer.build(variables)


def scales_loss(optimizer: Any) -> bool:
    """Whether an optimizer scales the loss: TF1's or Keras' wrapper, or a subclass."""
    keras = getattr(getattr(tf.keras, "mixed_precision", None), "LossScaleOptimizer", ())
    return isinstance(optimizer, (MixedPrecisionLossScaleOptimizer, keras))


def api_name(function: Any) -> str | None:
    """The name of a function in TensorFlow's API without "tf."; None for other functions."""
    try:
        return tf_export.get_canonical_name_for_symbol(function, add_prefix_to_v1_names=False)
    except AttributeError:  # Objects that cannot have such a name.
        return None


def keras_computes_in_float16() -> bool:
    """Whether Keras scales losses by itself under its global policy."""
    policy = getattr(getattr(tf.keras, "mixed_precision", None), "global_policy", None)
    return policy is not None and policy().compute_dtype == "float16"


def plain_variable(variable: Any) -> tf.Variable:
    """The tf.Variable in a variable of Keras 3, or the tf.Variable itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def optimizer_slot(value: tf.Tensor, name: str) -> Any:
    """A variable of a Keras optimizer, of the kind that its `variables` have."""
    variable = getattr(tf.keras, "Variable", tf.Variable)
    if variable is tf.Variable:
        return tf.Variable(value, trainable=False, name=name)
    return variable(value, trainable=False, name=name, dtype=value.dtype.name)


def tensors_in_checkpoint(
    read: Callable[[], dict[str, tf.Tensor]], write: Callable[[Mapping[str, tf.Tensor]], Any]
) -> Any:
    """An object whose state in a checkpoint is what read() gives, by name, and write() restores."""
    base: Any = tf.__internal__.tracking.Trackable

    class TensorsInCheckpoint(base):
        def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
            return read()

        def _restore_from_tensors(self, restored: Mapping[str, tf.Tensor]) -> Any:
            return write(restored)

    return TensorsInCheckpoint()


def optimizer_class() -> Any:
    """A Keras optimizer whose subclasses update all variables at once.

    They have make_slots(variables) and take_step(grads_and_vars, learning_rate). Keras calls the
    first when it builds the optimizer, and the second in each step, without pairs whose gradient is
    None; it counts the steps and applies constraints. A SavedModel does not have the attributes in
    not_in_saved_models(), which is called when one is made.

    Raises:
        RuntimeError: TensorFlow before 2.11, whose Keras has other optimizers.
    """
    base = getattr(tf.keras.optimizers, "Optimizer", None)
    if hasattr(base, "_backend_update_step"):
        return _optimizer_of_keras_3(_without_slots_in_saved_models(base))
    if hasattr(base, "_internal_apply_gradients"):
        return _optimizer_of_keras_2(_without_slots_in_saved_models(base))
    raise RuntimeError(
        f"npu_precision.amp.optimizers: got TensorFlow {tf.__version__}, expected 2.11 or newer, "
        "whose Keras has optimizers of another kind"
    )


def synchronized_batch_norm() -> Any:
    """The class of Keras' batch norms that can be synchronized over replicas.

    Raises:
        RuntimeError: TensorFlow before 2.12, whose Keras has none, or an experimental one.
    """
    base = tf.keras.layers.BatchNormalization
    if "synchronized" in inspect.signature(base.__init__).parameters:
        return base
    raise RuntimeError(
        f"npu_precision.amp.parallel: got TensorFlow {tf.__version__}, expected 2.12 or newer, "
        "whose tf.keras.layers.BatchNormalization has the argument synchronized"
    )


def batch_norms() -> tuple[Any, ...]:
    """The classes of Keras' batch norms, of TF1 and TF2."""
    return tf.keras.layers.BatchNormalization, tf.compat.v1.keras.layers.BatchNormalization


def fuses_batch_norms(rank: int, axis: int) -> bool:
    """Whether a batch norm of Keras is one op. That has an unbiased moving variance."""
    fuses = hasattr(tf.keras.layers.BatchNormalization, "_fused_batch_norm")  # Keras 2
    return fuses and rank in (4, 5) and axis in (1, rank - 1)


def trains(layer: Any, training: Any) -> bool | None:
    """Whether a layer that is called with `training` trains; None where that is a tensor."""
    if not layer.trainable:
        return False
    # Keras 2 has a learning phase for where nobody says.
    value = getattr(layer, "_get_training_value", lambda given: given)(training)
    if tf.is_tensor(value):
        value = tf.get_static_value(value)
        return None if value is None else bool(value)
    return bool(value)


def update_of_layer(layer: Any, update: Callable[[], Any]) -> None:
    """Makes an update that each step of the layer in training makes."""
    if hasattr(layer, "add_update"):  # Keras 2, which collects them in graphs.
        layer.add_update(update)
    else:
        update()


def layers_in(layer: Any) -> list[Any]:
    """A layer of Keras and all that are in it, at any depth, each once."""
    return list({id(each): each for each in layer._flatten_layers()}.values())


def _without_slots_in_saved_models(base: Any) -> Any:
    class SavedOptimizer(base):
        def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> Any:
            children = super()._trackable_children(save_type, **kwargs)
            if save_type == "savedmodel":
                left_out = self.not_in_saved_models()
                return {name: each for name, each in children.items() if name not in left_out}
            return children

    return SavedOptimizer


def _optimizer_of_keras_2(base: Any) -> Any:
    class KerasOptimizer(base):
        def __init__(self, learning_rate: Any, name: str, **clipping: Any) -> None:
            super().__init__(name, weight_decay=None, jit_compile=False, **clipping)
            self._learning_rate = self._build_learning_rate(learning_rate)

        def build(self, var_list: Any) -> None:
            if not getattr(self, "_built", False):
                super().build(var_list)
                self.make_slots(list(var_list))
                self._built = True

        def apply_gradients(self, grads_and_vars: Any, name: Any = None, **kwargs: Any) -> Any:
            # There is one replica, and so nothing to aggregate.
            kwargs["skip_gradients_aggregation"] = True
            return super().apply_gradients(grads_and_vars, name, **kwargs)

        def _clip_gradients(self, grads: Any) -> Any:
            return grads

        def _deduplicate_sparse_grad(self, grads: Any) -> Any:
            return grads

        def _internal_apply_gradients(self, grads_and_vars: Any) -> Any:
            self.take_step(list(grads_and_vars), self.learning_rate)
            return self.iterations.assign_add(1)

    return KerasOptimizer


def _optimizer_of_keras_3(base: Any) -> Any:
    class KerasOptimizer(base):
        def __init__(self, learning_rate: Any, name: str, **clipping: Any) -> None:
            super().__init__(learning_rate=learning_rate, name=name, **clipping)

        def build(self, variables: Any) -> None:
            if not self.built:
                with tf.init_scope():
                    super().build(list(variables))
                    self.make_slots(list(variables))

        def _check_variables_are_known(self, variables: Any) -> None:
            """take_step() does, of gradients that are in one tensor too."""

        def _clip_gradients(self, grads: Any) -> Any:
            return grads

        def _backend_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
            self.take_step(list(zip(grads, variables)), learning_rate)

    return KerasOptimizer

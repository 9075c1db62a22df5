"""Adapts the training of a session with hooks for a guard."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from npu_precision import _tf_compat, scope
from npu_precision.flight import tensor_watch
from npu_precision.guard.training import MOST_ELEMENTS, SEVERAL, Outcome, Training
from npu_precision.options import OPTIMIZER_NAME, PrecisionOptions
from npu_precision.session import rewriter_config

tf1 = tf.compat.v1
# Ops that write a variable, and ops that may call such an op.
_WRITES = re.compile(r".*(Apply|Assign|Scatter).*|If|Case|While|(Stateful)?PartitionedCall")
# Ops that pass a variable into a loop or a branch.
_HANDS_ON = ("Identity", "Enter", "RefEnter", "Switch", "RefSwitch", "_SwitchN")
# Ops that yield the next batch; when a step is run again, its batch is fed.
_BATCHES = ("IteratorGetNext", "QueueDequeue", "ReaderRead")
_NEED_LOSS = "PrecisionGuard: the graph has no losses in its collection: give loss=TENSOR"


class GuardedGraph:
    """The tensors and ops that a guard adds to a training's graph before it is finalized.

    Args:
        loss: the loss, as a tensor or its name; None for the losses in the graph's collection.
        count: how often TensorFlow may have to prepare the graph again.

    Raises:
        ValueError: there is no loss, or no such tensor.
    """

    def __init__(self, loss: Any, count: int) -> None:
        self.graph = tf1.get_default_graph()
        losses = tf1.get_collection(tf1.GraphKeys.LOSSES) if loss is None else [loss]
        if not losses:
            raise ValueError(_NEED_LOSS)
        tensors = [self._tensor(each) for each in losses]
        with scope.keep_dtype_scope(), tf.name_scope("precision_guard"):
            self.loss = tf.add_n([tf.reduce_mean(tf.cast(each, tf.float32)) for each in tensors])
            self.variables = variables = tf1.global_variables()
            self.reads = [tf.identity(each) for each in variables]
            self._fed = [tf1.placeholder(each.dtype.base_dtype, each.shape) for each in variables]
            self._assigns = tf.group(*map(tf1.assign, variables, self._fed))
            self.weights = tf1.trainable_variables()
            floats = [each for each in self.weights if each.dtype.base_dtype.is_floating]
            finite = [
                tf.reduce_all(tf.math.is_finite(tf.cast(each, tf.float32))) for each in floats
            ]
            self.is_finite = tf.reduce_all(tf.stack([*finite, tf.constant(True)]))
            self.tables = tf1.tables_initializer()
            # Fetching another of these makes TensorFlow prepare the graph again.
            self.marks = [tf.no_op() for _ in range(count + 2)]
        self.step = tf1.train.get_global_step()
        self.batches = [_made_feedable(each) for each in _batches_of(tensors)]
        self._trains: dict[frozenset[Any], bool] = {}

    def trains(self, fetches: Any) -> bool:
        """Whether a run with these fetches is a training step, which writes trained weights.

        Other runs, such as one that reads the global step, may feed less than the loss needs, and
        must not take a batch.
        """
        found = (
            self.graph.as_graph_element(each, allow_tensor=True, allow_operation=True)
            for each in tf.nest.flatten(fetches, expand_composites=True)
        )
        ops = frozenset(getattr(each, "op", each) for each in found)
        if ops not in self._trains:
            handles = {getattr(each, "handle", each).op for each in self.weights}
            self._trains[ops] = any(
                _WRITES.fullmatch(op.type) and not handles.isdisjoint(map(_source, op.inputs))
                for op in _before(ops)
            )
        return self._trains[ops]

    def fetches(self) -> dict[str, Any]:
        """The guard's additional fetches of a step."""
        return {"loss": self.loss, "batches": self.batches}

    def restore(self, run: Callable[..., Any], values: Sequence[np.ndarray]) -> None:
        """Sets all variables, by a session's `run`."""
        run(self._assigns, dict(zip(self._fed, values)))

    def _tensor(self, loss: Any) -> tf.Tensor:
        if not isinstance(loss, str):
            return loss
        name = loss if ":" in loss else f"{loss}:0"
        try:
            return self.graph.get_tensor_by_name(name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"loss: got {loss!r}, which is no tensor of the graph") from error


def _batches_of(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The batches from iterators and queues that the tensors depend on."""
    ops = _before(each.op for each in tensors)
    found = [each for op in ops if op.type.startswith(_BATCHES) for each in op.outputs]
    return sorted(found, key=lambda each: each.name)


def _before(ops: Iterable[tf.Operation]) -> set[tf.Operation]:
    """These ops and all ops that they depend on."""
    seen: set[tf.Operation] = set()
    queue = list(ops)
    while queue:
        op = queue.pop()
        if op not in seen:
            seen.add(op)
            queue.extend(each.op for each in op.inputs)
            queue.extend(op.control_inputs)
    return seen


def _source(tensor: tf.Tensor) -> tf.Operation:
    op = tensor.op
    while op.type in _HANDS_ON:
        op = op.inputs[0].op
    return op


def _made_feedable(batch: tf.Tensor) -> tf.Tensor:
    """Replaces the batch by a tensor. TensorFlow 1.15 optimizes no graph with a fed batch."""
    name = f"precision_guard/{batch.op.name}_{batch.value_index}"
    stands_for = tf1.placeholder_with_default(batch, batch.shape, name)
    _tf_compat.replace_in_readers(batch, stands_for)
    return stands_for


@dataclasses.dataclass
class Run:
    """The arguments of a session's run.

    Attributes:
        fetches, feed_dict, options, run_metadata: as Session.run has them.
        batches: the batches that the first run read from iterators and queues.
    """

    fetches: dict[Any, Any]
    feed_dict: Mapping[Any, Any]
    options: Any
    run_metadata: Any
    batches: Mapping[Any, Any] = dataclasses.field(default_factory=dict)


class SessionTraining(Training):
    """Makes the steps of a session.

    Args:
        session: the session, whose variables are initialized.
        run: the session's own run.
        graph: the session's graph.
        key: the key of GuardedGraph.fetches() in a step's fetches.
    """

    needs_file = True

    def __init__(
        self, session: tf.compat.v1.Session, run: Callable[..., Any], graph: GuardedGraph, key: Any
    ) -> None:
        self._own_run, self._graph, self._key = run, graph, key
        self._config = _tf_compat.config_of_session(session)
        self._mark = 0
        # A session with other options, and the number of watches that were opened before it.
        self._trial: tuple[tf.compat.v1.Session, int] | None = None
        self._last: list[np.ndarray] = []

    def run(self, inputs: Run) -> Outcome:
        """See Training; the result has the values of the fetches."""
        graph = self._graph
        feeds = {**inputs.feed_dict, **inputs.batches}
        fetches = {"step": inputs.fetches, "mark": graph.marks[self._mark]}
        if self._trial is None:
            arguments = (inputs.options, inputs.run_metadata)
            result = self._own_run(fetches, feeds, *arguments)["step"]
        else:
            # A graph that was prepared before a watch was opened is not watched.
            watched = tensor_watch.openings() > self._trial[1]
            fetches["mark"] = graph.marks[-1 if watched else -2]
            result = self._trial[0].run(fetches, feeds)["step"]
        seen = result[self._key]
        inputs.batches = dict(zip(graph.batches, seen["batches"]))
        is_finite = bool(self._run(graph.is_finite))
        self._last = self._values_of_small()
        return Outcome(result, float(seen["loss"]), is_finite)

    def save(self, inputs: Any = None) -> Any:
        """See Training."""
        values = self._run(self._graph.reads)
        if inputs is not None:
            self._last = self._values_of_small()
        return values

    def changes(self) -> Any:
        """See Training; only variables of few elements."""
        return {
            index: now
            for index, (now, before) in enumerate(zip(self._values_of_small(), self._last))
            if now.tobytes() != before.tobytes()
        }

    def change(self, changes: Any) -> None:
        """See Training."""
        if changes:
            values = self._run(self._graph.reads)
            small = self._small()
            for index, value in changes.items():
                values[small[index]] = value
            self.restore(values)

    def restore(self, state: Any) -> None:
        """See Training."""
        self._graph.restore(self._own_run if self._trial is None else self._trial[0].run, state)

    def unchanged(self, state: Any) -> set[str]:
        """See Training."""
        graph = self._graph
        now = self._run(graph.reads)
        saved = {each.name: pair for each, *pair in zip(graph.variables, state, now)}
        if graph.step is not None:
            before, after = saved[graph.step.name]
            if after < before + SEVERAL:
                return set()
        return {
            each.name
            for each in graph.weights
            if each.name in saved and np.array_equal(*saved[each.name])
        }

    def size_of(self, inputs: Run) -> int:
        """See Training."""
        values = itertools.chain(inputs.feed_dict.values(), inputs.batches.values())
        return sum(np.asarray(each).nbytes for each in values)

    def options(self) -> PrecisionOptions | None:
        """See Training."""
        rewrite = self._config.graph_options.rewrite_options
        for each in rewrite.custom_optimizers:
            if each.name == OPTIMIZER_NAME:
                return PrecisionOptions.from_parameter_map(each.parameter_map)
        return None

    @contextlib.contextmanager
    def under(self, options: PrecisionOptions | None, is_diagnosis: bool = False) -> Iterator[None]:
        """See Training."""
        config = config_pb2.ConfigProto.FromString(self._config.SerializeToString())
        rewrite = config.graph_options.rewrite_options
        rewrite.ClearField("custom_optimizers")
        rewrite.ClearField("remapping")
        rewrite.ClearField("layout_optimizer")
        if options is not None:
            rewriter_config.configure(rewrite, options.to_parameter_map())
        if is_diagnosis:
            rewriter_config.leave_out_remapper(rewrite)
        before = self._trial
        with _tf_compat.session_configs_kept():
            trial = tf1.Session(graph=self._graph.graph, config=config)
        with trial as session:
            session.run(self._graph.tables)
            self._trial = (session, tensor_watch.openings())
            try:
                yield
            finally:
                self._trial = before

    def use(self, options: PrecisionOptions) -> None:
        """See Training; the config's file is read when TensorFlow prepares the graph."""
        self._mark += 1

    def _run(self, fetches: Any) -> Any:
        return self._own_run(fetches) if self._trial is None else self._trial[0].run(fetches)

    def _small(self) -> list[int]:
        """The variables that others may set between steps, such as the learning rate."""
        return [
            index
            for index, each in enumerate(self._graph.variables)
            if each.shape.is_fully_defined() and each.shape.num_elements() <= MOST_ELEMENTS
        ]

    def _values_of_small(self) -> list[np.ndarray]:
        values = self._run([self._graph.reads[index] for index in self._small()])
        return [np.asarray(each) for each in values]

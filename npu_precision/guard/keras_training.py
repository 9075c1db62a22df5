"""Adapts the training of Model.fit for a guard."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _tf_compat, scope
from npu_precision.guard.training import MOST_ELEMENTS, SEVERAL, Outcome, Training
from npu_precision.options import PrecisionOptions
from npu_precision.session import functions
from npu_precision.training import noting


class KerasTraining(Training):
    """Makes the steps of a compiled model, one batch at a time.

    Args:
        model: a model within fit; its train_step is called.
    """

    needs_file = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self._strategy = model.distribute_strategy
        # XLA compiles the steps if it compiles those of the model, but not what is diagnosed, whose
        # tensors are watched one by one.
        self.is_compiled = _is_compiled(model)
        self._plain_step = _tf_compat.traced(self._in_all_replicas)
        self._step = self._plain_step
        if self.is_compiled:
            self._step = _tf_compat.traced(self._in_all_replicas, jit_compile=True)
        self._diagnoses = False
        # The variables that a step changes.
        self._handles: list[tuple[tf.Tensor, tf.DType]] = []
        # The function that reads them, and the values of small ones after the last step.
        self._reads: Any = None
        self._small: list[np.ndarray] = []
        # The options with the healed mixlist; and a list with the options of a trial.
        self._healed: PrecisionOptions | None = None
        self._trial: list[PrecisionOptions | None] = []

    def run(self, inputs: Any) -> Outcome:
        """See Training; the result is the logs by name."""
        with self.in_force():
            step = self._plain_step if self._diagnoses else self._step
            logs, loss, is_finite = step(inputs)
        self._small = self._read_small()
        return Outcome(logs, float(loss), bool(is_finite))

    def save(self, inputs: Any = None) -> Any:
        """See Training. A variable and its saved value share memory until the variable changes."""
        if inputs is not None:
            with self.in_force():
                step = self._step.get_concrete_function(inputs)
            self._handles = _tf_compat.captured_variables(step)
            self._small = self._read_small()
        values = [
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
            for handle, dtype in self._handles
        ]
        return values, self._weights(), self._iterations()

    def changes(self) -> Any:
        """See Training; only variables of few elements."""
        return {
            index: now
            for index, (now, before) in enumerate(zip(self._read_small(), self._small))
            if now.tobytes() != before.tobytes()
        }

    def change(self, changes: Any) -> None:
        """See Training."""
        for index, value in changes.items():
            tf.raw_ops.AssignVariableOp(resource=self._handles[index][0], value=value)

    def restore(self, state: Any) -> None:
        """See Training."""
        values, *_ = state
        for (handle, _), value in zip(self._handles, values):
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)

    def unchanged(self, state: Any) -> set[str]:
        """See Training."""
        _, weights, iterations = state
        if self._iterations() < iterations + SEVERAL:
            return set()
        names = [getattr(each, "path", each.name) for each in self._model.trainable_variables]
        return {
            name
            for name, now, before in zip(names, self._weights(), weights)
            if bool(tf.reduce_all(tf.equal(now, before)))
        }

    def size_of(self, inputs: Any) -> int:
        """See Training."""
        local = self._strategy.experimental_local_results(inputs)
        tensors = tf.nest.flatten(local, expand_composites=True)
        return sum(int(tf.size(each)) * each.dtype.size for each in tensors)

    def scopes(self) -> set[str]:
        """See Training."""
        return _tf_compat.numbered_scopes(self._model)

    def options(self) -> PrecisionOptions | None:
        """See Training."""
        return self._healed or functions.active_options()

    @contextlib.contextmanager
    def under(self, options: PrecisionOptions | None, is_diagnosis: bool = False) -> Iterator[None]:
        """See Training."""
        before = self._trial, self._diagnoses
        self._trial, self._diagnoses = [options], is_diagnosis
        try:
            yield
        finally:
            self._trial, self._diagnoses = before

    def use(self, options: PrecisionOptions) -> None:
        """See Training."""
        self._healed = options
        functions.read_files_anew()

    def _read_small(self) -> list[np.ndarray]:
        """The values of the variables, in their order; those with many elements are empty."""
        if self._reads is None:
            sizes = [
                int(np.prod(tf.raw_ops.VariableShape(input=handle))) for handle, _ in self._handles
            ]

            @tf.function(autograph=False)
            def reads() -> list[tf.Tensor]:
                return [
                    tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
                    if size <= MOST_ELEMENTS
                    else tf.zeros([0])
                    for size, (handle, dtype) in zip(sizes, self._handles)
                ]

            self._reads = reads
        with functions.entered(None):
            return [each.numpy() for each in self._reads()]

    def in_force(self) -> contextlib.AbstractContextManager[Any]:
        """A context with the options of the next step."""
        if self._trial:
            return functions.entered(self._trial[0])
        if self._healed is not None:
            return functions.entered(self._healed)
        return contextlib.nullcontext()

    def _iterations(self) -> int:
        return _number(self._model.optimizer.iterations)

    def _weights(self) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(each) for each in self._model.trainable_variables]

    def _in_all_replicas(self, inputs: Any) -> Any:
        outputs = self._strategy.run(self._in_replica, (inputs,))
        local = [self._strategy.experimental_local_results(each)[0] for each in outputs[1:]]
        logs = tf.nest.map_structure(
            lambda each: self._strategy.experimental_local_results(each)[0], outputs[0]
        )
        return (logs, *local)

    def _in_replica(self, inputs: Any) -> Any:
        losses: list[Any] = []
        with noting.losses(self._model, losses):
            logs = _tf_compat.converted(self._model.train_step)(inputs)
        if hasattr(self._model, "_train_counter"):  # Keras 2 counts after each step.
            self._model._train_counter.assign_add(1)
        replicas = self._strategy.num_replicas_in_sync
        # In a replica, compute_loss gives a share of the batch's loss. A train_step may compute the
        # loss itself.
        loss = losses[0] if len(losses) == 1 and replicas == 1 else logs["loss"]
        with scope.keep_dtype_scope():
            loss = tf.cast(loss, tf.float32)
            finite = [tf.reduce_all(tf.math.is_finite(each)) for each in self._weights()]
            is_finite = tf.reduce_all(tf.stack([*finite, tf.constant(True)]))
            if replicas > 1:
                both = tf.stack([loss, tf.cast(is_finite, tf.float32)])
                context = tf.distribute.get_replica_context()
                loss, share = tf.unstack(context.all_reduce(tf.distribute.ReduceOp.MEAN, both))
                is_finite = tf.greater(share, 1 - 0.5 / replicas)
        return logs, loss, is_finite


def _is_compiled(model: Any) -> bool:
    """Whether XLA compiles the model's steps, and the mode in force lowers what XLA compiles."""
    options = functions.active_options()
    return (
        _tf_compat.is_compiled_by_xla(model)
        and model.distribute_strategy.num_replicas_in_sync == 1
        and (options is None or options.lower_compiled is not False)
    )


def _number(value: Any) -> int:
    """The value of a number or a variable, which may have one component per replica."""
    return int(value.numpy() if hasattr(value, "numpy") else value)


class GuardedFunction:
    """Replaces a model's train_function.

    Args:
        model: the model; its own train_function is restored after an error.
        step: makes a step with a batch, and returns its logs.
    """

    def __init__(self, model: Any, step: Any) -> None:
        self._model, self._step = model, step
        self.original = model.train_function
        if isinstance(self.original, GuardedFunction):
            self.original = self.original.original

    def __call__(self, iterator: Any) -> Any:
        """Makes as many steps as the model makes in a call."""
        logs = None
        try:
            for _ in range(_number(getattr(self._model, "steps_per_execution", 1) or 1)):
                logs = self._step(next(iterator))
        except (StopIteration, tf.errors.OutOfRangeError):
            if logs is None:
                raise
        except BaseException:
            give_back(self._model)
            raise
        return logs


class HealedFunction:
    """Replaces a model's test_function, so that it runs with the options of the training's steps.

    Args:
        model: the model.
        training: its training.
    """

    def __init__(self, model: Any, training: KerasTraining) -> None:
        self._training, self.original = training, model.test_function
        if isinstance(self.original, HealedFunction):
            self.original = self.original.original

    def __call__(self, *arguments: Any) -> Any:
        """Evaluates as many batches as the model does in a call."""
        with self._training.in_force():
            return self.original(*arguments)


def give_back(model: Any) -> None:
    """Restores a model's own train_function and test_function."""
    if isinstance(model.train_function, GuardedFunction):
        model.train_function = model.train_function.original
    if isinstance(model.test_function, HealedFunction):
        model.test_function = model.test_function.original

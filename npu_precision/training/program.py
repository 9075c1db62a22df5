"""Builds a training from a user's function, and makes its steps one by one."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from npu_precision import _errors, _tf_compat, scope
from npu_precision.accuracy.model_inputs import called
from npu_precision.accuracy.model_run import first_line
from npu_precision.loss_scaling import gradients as gradient_values
from npu_precision.loss_scaling.observed_gradients import forward_op
from npu_precision.training import noting

_EXPECTED = (
    "expected (model, batches), a compiled Keras model and an iterable of what its train_step "
    "takes; or (step, variables, batches), where step(*batch) returns the loss, or the loss and "
    "the gradients of the variables"
)

# The most characters of an error to show.
_LONGEST = 300
# Parts in the text of an error that TensorFlow re-raised: the first error's name, and the lines
# after its message.
_RAISED = re.compile(r"[\w.]*(Error|Exception): ")
_ARGUMENTS = ("Call arguments received", "Arguments received by")


class Step(NamedTuple):
    """The outcome of a step.

    Attributes:
        loss: the loss.
        norms: the norms of the variables' gradients.
        batch: a checksum of the step's batch.
    """

    loss: float
    norms: list[float]
    batch: int


class Program:
    """A training that was built.

    Args:
        name: the name of the user's function, for messages.
        step: makes a step with a batch; returns the loss and the norms of the gradients.
        variables: the variables of these gradients.
        batches: the batches of the steps; after the last one, the first follows.
        ops: for each variable, the op of the model that its gradient belongs to, or None, as far
            as it is known after the first step.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[Any], tuple[Any, list[Any]]],
        variables: list[Any],
        batches: Iterable[Any],
        ops: list[str | None],
    ) -> None:
        self._name, self._step, self._variables = name, step, variables
        self._batches, self.ops = batches, ops

    @property
    def names(self) -> list[str]:
        """The names of the variables."""
        names = [_name(each, index) for index, each in enumerate(self._variables)]
        return [
            f"{name} ({names[:index].count(name) + 1})" if names.count(name) > 1 else name
            for index, name in enumerate(names)
        ]

    def weights(self) -> list[np.ndarray]:
        """The values of the variables."""
        return [np.asarray(each) for each in self._variables]

    def set_weights(self, values: list[np.ndarray]) -> None:
        """Sets the values of the variables."""
        for variable, value in zip(self._variables, values):
            variable.assign(value)

    def steps(self) -> Iterator[Step]:
        """Yields the results of steps, which it makes one by one.

        Raises:
            ValueError: there are no batches, or the step returns a wrong value.
        """
        for batch in self._endless():
            loss, norms = _run(self._name, self._step, batch)
            if np.size(loss) != 1 or loss is None:
                raise ValueError(
                    f"{self._name}: its step returned {_errors.got(loss)} as the loss, "
                    "expected one number"
                )
            yield Step(float(loss), [float(each) for each in norms], _checksum(batch))

    def _endless(self) -> Iterator[Any]:
        count = 0
        while True:
            before = count
            for batch in self._batches:
                count += 1
                yield batch
            if count == before:
                raise ValueError(
                    f"{self._name}: its batches end after {count}, and cannot be read again; "
                    "expected more, or a list or a tf.data.Dataset"
                )


def build(name: str, function: Callable[..., Any], seed: int) -> Program:
    """Calls the user's function, with all generators of random numbers set to the seed.

    Args:
        name: the name of the function, for messages.
        function: the user's function, which takes the seed, or nothing.
        seed: the seed.

    Raises:
        ValueError: the function fails, or returns a wrong value.
    """
    tf.keras.backend.clear_session()  # So names are the same in each run.
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    _tf_compat.seed_keras(seed)
    takes_seed = bool(inspect.signature(function).parameters)
    built = called(name, function, *([seed] if takes_seed else []))
    if not isinstance(built, tuple) or len(built) not in (2, 3):
        raise ValueError(f"{name} returned {_errors.got(built)}, {_EXPECTED}")
    *_, batches = built
    if not hasattr(batches, "__iter__"):
        raise ValueError(f"{name} returned {_errors.got(batches)} as its batches, {_EXPECTED}")
    if len(built) == 3:
        return _of_step(name, *built)
    model = built[0]
    if not isinstance(model, tf.keras.Model) or getattr(model, "optimizer", None) is None:
        raise ValueError(f"{name} returned {_errors.got(model)} as its first, {_EXPECTED}")
    policy = _tf_compat.low_policy_of(model)
    if policy:
        raise ValueError(
            f"{name}: its model has {policy}, Keras' own mixed precision, so that nothing of it "
            "runs in float32; build it without the policy, and give the mode with --mode"
        )
    return _of_model(name, model, batches)


def _of_model(name: str, model: Any, batches: Iterable[Any]) -> Program:
    variables: list[Any] = []
    ops: list[str | None] = []

    def traced(batch: Any) -> tuple[Any, list[Any]]:
        losses: list[Any] = []
        pairs: list[tuple[Any, Any]] = []
        with noting.losses(model, losses), noting.gradients(model.optimizer, pairs):
            logs = _tf_compat.converted(model.train_step)(batch)
        if not variables:
            variables.extend(variable for _, variable in pairs)
            ops.extend(forward_op(gradient) for gradient, _ in pairs)
        loss = losses[0] if len(losses) == 1 else logs["loss"]
        return loss, _norms([gradient for gradient, _ in pairs])

    step = _tf_compat.traced(traced)
    # Traced here, so that the weights exist before the first step.
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise ValueError(f"{name}: its batches are empty")
    _run(name, step.get_concrete_function, first)
    if iterator is batches:  # It does not begin again.
        batches = itertools.chain([first], iterator)
    return Program(name, step, variables, batches, ops)


def _of_step(name: str, step: Any, variables: Any, batches: Iterable[Any]) -> Program:
    if not callable(step):
        raise ValueError(f"{name} returned {_errors.got(step)} as its first, {_EXPECTED}")
    variables = list(variables)

    def run(batch: Any) -> tuple[Any, list[Any]]:
        result = step(*batch) if isinstance(batch, (tuple, list)) else step(batch)
        if not isinstance(result, tuple):
            return result, []
        loss, gradients = result
        names = [_name(each, index) for index, each in enumerate(variables)]
        if len(gradients) != len(variables):
            raise ValueError(
                f"it returned {len(gradients)} gradients of {len(variables)} variables: "
                f"{', '.join(names)}"
            )
        without = [name for name, gradient in zip(names, gradients) if gradient is None]
        if without:
            raise ValueError(f"no gradient of {', '.join(without)}; the loss does not depend on it")
        return loss, _norms(list(gradients))

    return Program(name, run, variables, batches, [None] * len(variables))


def _run(name: str, step: Callable[[Any], Any], batch: Any) -> Any:
    """Calls the function, with its output going to stderr.

    Raises:
        ValueError: the function fails.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return step(batch)
    except Exception as error:
        text = _what(error)
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        raise ValueError(
            f"{name}: its step raised {type(error).__name__} with a batch of "
            f"{_shapes(batch)}: {shown}"
        ) from error


def _what(error: Exception) -> str:
    """The message of an error, without the traceback and arguments that TensorFlow adds."""
    if isinstance(error, tf.errors.OpError):
        return first_line(error.message)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    starts = [number for number, line in enumerate(lines) if _RAISED.match(line)]
    lines = lines[starts[-1] :] if starts else lines
    ends = [number for number, line in enumerate(lines) if line.startswith(_ARGUMENTS)]
    return " ".join(lines[: ends[0]] if ends else lines)


def _shapes(batch: Any) -> str:
    arrays = tf.nest.flatten(batch)
    return ", ".join(str(tuple(np.shape(each))) for each in arrays) or "nothing"


def _norms(gradients: list[Any]) -> list[Any]:
    with scope.keep_dtype_scope():
        values = [gradient_values.values_of(each) for each in gradients]
        return [tf.norm(tf.cast(each, tf.float32)) for each in values]


def _name(variable: Any, index: int) -> str:
    name = getattr(variable, "path", None) or getattr(variable, "name", None)
    return str(name or f"variable {index}").partition(":")[0]


def _checksum(batch: Any) -> int:
    total = 0
    for each in tf.nest.flatten(batch):
        array = np.asarray(each)
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        total = zlib.crc32(content, total)
    return total

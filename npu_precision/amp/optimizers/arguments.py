"""Checks the arguments of the fused optimizers, which are those of Ascend's Apex."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _errors

# Arguments that Keras' optimizers and these take.
OF_KERAS = ("clipnorm", "clipvalue", "global_clipnorm", "name")
# Arguments of torch's optimizers that have no meaning here.
_OF_TORCH = {
    "params": "the variables are those that compile() or apply_gradients() gives",
    "maximize": "minimize the negative loss",
    "foreach": "small variables are always updated together",
    "fused": "the update is always fused",
    "capturable": "it is for CUDA graphs of torch",
    "differentiable": "TensorFlow takes no gradient of an update",
}
_OTHER_NAMES = {
    "learning_rate": "lr",
    "beta_1": "betas",
    "beta_2": "betas",
    "epsilon": "eps",
    "use_ema": "",
    "decay": "",
}


def check_first(values: Sequence[Any]) -> None:
    """Raises ValueError if the first positional argument is a model's parameters, as in torch."""
    first = values[0] if values else None
    is_number = isinstance(first, (str, numbers.Number, tf.Variable)) or tf.is_tensor(first)
    if isinstance(first, Iterable) and not is_number and not isinstance(first, np.ndarray):
        raise ValueError(
            f"lr: got a {type(first).__name__}, expected a number or a learning-rate schedule; "
            f"there is no argument for variables: {_OF_TORCH['params']}"
        )


def of_keras(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Returns the arguments for Keras' class.

    Args:
        given: arguments by name that the optimizer itself does not take.
        known: the names that it takes.

    Raises:
        ValueError: an argument of torch that makes no sense here, or a wrong value.
        TypeError: an unknown argument.
    """
    for name, value in given.items():
        if name in _OF_TORCH:
            raise ValueError(
                f"{name}: got {_errors.got(value)}, but there is no such argument here: "
                f"{_OF_TORCH[name]}"
            )
        if name not in OF_KERAS:
            names = [*known, *OF_KERAS]
            other = _OTHER_NAMES.get(name)
            hint = f" (did you mean {other!r}?)" if other else _errors.did_you_mean(name, names)
            raise TypeError(
                f"unknown argument {name!r}{hint}; the arguments are {', '.join(names)}"
            )
        if name != "name" and value is not None:
            number(name, value, least=0.0, is_open=True)
    clips = [name for name in OF_KERAS if name != "name" and given.get(name) is not None]
    if len(clips) > 1:
        raise ValueError(f"{clips[0]}: got {clips[1]} too, expected one of them")
    return dict(given)


def number(
    name: str, value: Any, least: float = 0.0, below: float = math.inf, is_open: bool = False
) -> float:
    """The value as a float.

    Raises:
        ValueError: it is no number, or is outside of [least, below), or of (least, below) if
            is_open.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not least <= value < below or (is_open and value == least):
        bound = f"{'above' if is_open else 'from'} {least:g}"
        if below < math.inf:
            bound += f" to below {below:g}"
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a finite number {bound}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Raises ValueError unless the value is a bool; returns it."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}: got {_errors.got(value)}, expected a bool")
    return bool(value)


def pair_of_betas(value: Any) -> tuple[float, float]:
    """Returns a pair of numbers from 0 to below 1.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"betas: got {_errors.got(value)}, expected a pair of numbers")
    first, second = (number(f"betas[{i}]", beta, 0.0, 1.0) for i, beta in enumerate(value))
    return first, second


def learning_rate(value: Any) -> Any:
    """Returns the learning rate as a float, or a schedule unchanged.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, tf.keras.optimizers.schedules.LearningRateSchedule):
        return value
    if tf.is_tensor(value) or isinstance(value, (tf.Variable, np.ndarray)):
        value = float(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise ValueError(
            f"lr: got {_errors.got(value)}, expected a number or a "
            "tf.keras.optimizers.schedules.LearningRateSchedule"
        )
    return number("lr", value)

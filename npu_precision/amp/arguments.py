"""Parses the arguments of initialize(), whose types show its form: with models, or without."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _errors, _tf_compat


class Arguments(NamedTuple):
    """The arguments of a call of initialize().

    Attributes:
        models: None in the form without models; else as given.
        optimizers: as given; None for inference.
        opt_level: as given, or None.
        session_config: a ConfigProto, or None.
        enabled: as given, or None.
    """

    models: Any
    optimizers: Any
    opt_level: Any
    session_config: Any
    enabled: Any


def parse(first: Any, second: Any, third: Any, opt_level: Any) -> Arguments:
    """Detects the form: (optimizers, opt_level, config), or Apex's (models, optimizers, enabled).

    Raises:
        ValueError: neither form; the text says which of the two was probably meant.
        TypeError: something is given twice.
    """
    _refuse_other_frameworks("models" if not _are(first, _is_optimizer) else "optimizer", first)
    _refuse_other_frameworks("optimizers", second)
    if _are(first, _is_optimizer):
        if _are(second, _is_model):
            raise ValueError(
                "got an optimizer and then a model: the order is initialize(model, optimizer, "
                "opt_level=...)"
            )
        if second is not None and _are(second, _is_optimizer):
            raise ValueError(
                "got optimizers twice, expected initialize(model, optimizer), or one list of them"
            )
        if second is not None and opt_level is not None:
            raise TypeError(f"opt_level: got {second!r} and {opt_level!r}, expected one")
        return Arguments(None, first, second or opt_level, third, None)
    if not _are(first, _is_model):
        raise ValueError(
            f"optimizer: got {_errors.got(first)}, expected an optimizer of Keras or a "
            "tf.compat.v1.train.Optimizer, or a list of them; or a model, and then its optimizer"
        )
    if isinstance(second, str):
        raise ValueError(
            f"optimizers: got {second!r}, expected an optimizer, such as "
            "tf.keras.optimizers.Adam(), or None for inference; a level is given as opt_level='O1'"
        )
    if second is not None and not _are(second, _is_optimizer):
        raise ValueError(
            f"optimizers: got {_errors.got(second)}, expected an optimizer of Keras, a list of "
            "them, or None for inference"
        )
    if any(isinstance(one, _tf_compat.tf1.train.Optimizer) for one in as_list(second)):
        raise ValueError(
            "optimizers: got one of tf.compat.v1.train, whose session needs a config: "
            "`optimizer, config = initialize(optimizer, opt_level)`, without the model"
        )
    if third is not None and not isinstance(third, bool):
        raise ValueError(f"enabled: got {_errors.got(third)}, expected a bool")
    return Arguments(first, second, opt_level, None, third)


def as_list(given: Any) -> list[Any]:
    """Returns one object, several or None as a list."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _are(given: Any, kind: Any) -> bool:
    return bool(as_list(given)) and all(kind(one) for one in as_list(given))


def _is_optimizer(one: Any) -> bool:
    return hasattr(one, "apply_gradients") and not isinstance(one, type)


def _is_model(one: Any) -> bool:
    # Asks the class, because an unbuilt Sequential raises an error when its variables are read.
    has_variables = hasattr(type(one), "trainable_variables") or isinstance(one, tf.Module)
    return has_variables and not _is_optimizer(one) and not isinstance(one, type)


def _refuse_other_frameworks(name: str, given: Any) -> None:
    for one in as_list(given):
        framework = type(one).__module__.partition(".")[0]
        if framework in ("torch", "apex", "torch_npu", "jax", "optax", "paddle", "mindspore"):
            raise ValueError(
                f"{name}: got a {type(one).__module__}.{type(one).__name__}, which is of "
                f"{framework}; expected models and optimizers of Keras"
            )

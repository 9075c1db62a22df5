"""Wraps the parts of Keras 2 and 3 that differ: sessions, policies, variables and layers."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf


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


def imports_keras_later() -> bool:
    """Whether tf.keras is a package of its own, which TensorFlow imports at its first use."""
    return tuple(int(part) for part in tf.__version__.split(".")[:2]) >= (2, 6)


def map_callbacks_of_fit(transform: Callable[[Any], list[Any]]) -> None:
    """Gives each later fit() of a Keras model transform(callbacks) in place of its callbacks."""
    model = tf.keras.Model
    original = model.fit
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.arguments["callbacks"] = transform(given.arguments.get("callbacks"))
        return original(*given.args, **given.kwargs)

    model.fit = fit


def seed_keras(seed: int) -> None:
    """Seeds the generator that Keras draws initial values from once set_random_seed was called.

    Before, and in Keras 3 always, they come from the generators of Python and TensorFlow.
    """
    backend = sys.modules.get("keras.src.backend") or sys.modules.get("keras.backend")
    generator = getattr(getattr(backend, "_SEED_GENERATOR", None), "generator", None)
    if generator is not None:
        generator.seed(seed)


def keras_computes_in_float16() -> bool:
    """Whether Keras scales losses by itself under its global policy."""
    policy = getattr(getattr(tf.keras, "mixed_precision", None), "global_policy", None)
    return policy is not None and policy().compute_dtype == "float16"


def plain_variable(variable: Any) -> tf.Variable:
    """The tf.Variable in a variable of Keras 3, or the tf.Variable itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


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
    """Whether a batch norm of Keras is one op, whose moving variance is unbiased."""
    fuses = hasattr(tf.keras.layers.BatchNormalization, "_fused_batch_norm")  # Keras 2
    return fuses and rank in (4, 5) and axis in (1, rank - 1)


def trains(layer: Any, training: Any) -> bool | None:
    """Whether a layer that is called with `training` trains; None where that is a tensor."""
    if not layer.trainable:
        return False
    # Keras 2 falls back to its learning phase.
    value = getattr(layer, "_get_training_value", lambda given: given)(training)
    if tf.is_tensor(value):
        value = tf.get_static_value(value)
        return None if value is None else bool(value)
    return bool(value)


def update_of_layer(layer: Any, update: Callable[[], Any]) -> None:
    """Adds an update to each training step of the layer."""
    if hasattr(layer, "add_update"):  # Keras 2, which collects them in graphs.
        layer.add_update(update)
    else:
        update()


def layers_in(layer: Any) -> list[Any]:
    """A layer of Keras and all layers in it, at any depth, each once."""
    return list({id(each): each for each in layer._flatten_layers()}.values())


def low_policy_of(model: Any) -> str | None:
    """The mixed-precision policy of Keras that one of a model's layers has, or None."""
    for layer in layers_in(model):
        compute = getattr(layer, "compute_dtype", None)
        if compute in ("float16", "bfloat16") and compute != getattr(layer, "variable_dtype", None):
            return f"mixed_{compute}"
    return None


def is_compiled_by_xla(model: Any) -> bool:
    """Whether compile() had jit_compile=True, or Keras 3 chose it."""
    own = getattr(model, "jit_compile", None)
    return bool(getattr(model, "_jit_compile", None) if own is None else own)


def numbered_scopes(model: Any) -> set[str]:
    """The names of layers in Keras 3, which numbers the scopes of a layer's calls; else empty."""
    is_keras_2 = hasattr(model, "_train_counter")
    return set() if is_keras_2 else {layer.name for layer in layers_in(model)}

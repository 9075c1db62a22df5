"""convert_syncbn_model: makes a model's batch norms use the statistics of all replicas."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.amp.parallel.sync_batch_norm import SyncBatchNorm

_LOGGER = logging.getLogger("npu_precision")


def convert_syncbn_model(module: Any, process_group: Any = None, channel_last: bool = False) -> Any:
    """Makes each BatchNormalization of a Keras model a SyncBatchNorm, in place.

        with strategy.scope():
            model = npu_precision.amp.parallel.convert_syncbn_model(make_model())

    Layers stay the same objects, with their variables, names and `trainable`. So optimizers,
    checkpoints and models that share a layer work as before. A layer that is synchronized already,
    such as BatchNormalization(synchronized=True), is left alone.

    Convert before the first step: a tf.function that was traced before has the old batch norms.
    fit(), evaluate() and predict() of the given model are traced again, compiled or not. For a
    model around it, they are traced again only after compile() is called again.

    Args:
        module: a Keras model or layer: Sequential, functional, subclassed or nested. Layers that a
            subclassed model makes when it is built are found after that.
        process_group: None, for all replicas.
        channel_last: accepted for scripts of Apex; the `axis` of a layer gives its channels'
            position.

    Returns:
        The model or layer itself. A model without batch norms is logged.

    Raises:
        ValueError: no model and no layer of Keras; another process_group; a batch norm that is of a
            subclass, or has a virtual_batch_size. Nothing is changed then.

    Source: apex.parallel.convert_syncbn_model(module, process_group, channel_last).
    """
    if not isinstance(module, tf.keras.layers.Layer):
        raise ValueError(f"module: got {module!r}, expected a model or a layer of Keras")
    if process_group is not None:
        raise ValueError(
            f"process_group: got {process_group!r}, expected None: the statistics are those of all "
            "replicas of the tf.distribute strategy"
        )
    kinds = _tf_compat.batch_norms()
    found = [each for each in _tf_compat.layers_in(module) if isinstance(each, kinds)]
    ordinary = [each for each in found if not getattr(each, "synchronized", False)]
    for layer in ordinary:
        _check(layer)
    for layer in ordinary:
        layer.__class__ = SyncBatchNorm
        layer.synchronized = True
        if hasattr(layer, "fused"):  # Keras 2: super().call() would do this.
            layer.fused = False
    if ordinary:
        for function in ("train_function", "test_function", "predict_function"):
            if getattr(module, function, None) is not None:
                setattr(module, function, None)
    if not found:
        _LOGGER.warning(
            "convert_syncbn_model: %s has no batch norms%s; it is returned as it is",
            module.name,
            "" if module.built else " before it is built",
        )
    return module


def _check(layer: Any) -> None:
    kind = type(layer)
    if kind is not tf.keras.layers.BatchNormalization:
        raise ValueError(
            f"layer {layer.name!r}: got {kind.__module__}.{kind.__name__}, expected "
            "tf.keras.layers.BatchNormalization itself; let the class inherit from "
            "npu_precision.amp.parallel.SyncBatchNorm instead, or set synchronized=True"
        )
    if getattr(layer, "virtual_batch_size", None) is not None:
        raise ValueError(
            f"layer {layer.name!r}: got virtual_batch_size={layer.virtual_batch_size}, expected "
            "None: its batches are parts of that of a replica, and not those of all"
        )

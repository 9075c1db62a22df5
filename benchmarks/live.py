"""LiveTask: calls of a Keras 3 model in a tf.function, for inference or a training step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import contenders
import live_models
import measure
import numpy as np
import tensorflow as tf
from runner import Ran, Runner

_LEARNING_RATE = 1e-3


class _InFunction:
    """A Runner whose step is a call of a tf.function in the contender's precision."""

    def __init__(self, contender: str, step: Callable[[], tf.Tensor]):
        self._contender, self._step = contender, step
        self._casts: int | None = None

    def first(self) -> np.ndarray:
        """As Runner."""
        result, self._casts = measure.casts_in_functions(self.step)
        return result

    def step(self) -> np.ndarray:
        """As Runner."""
        with _precision(self._contender):
            return self._step().numpy()

    def what_ran(self) -> Ran:
        """As Runner, but only the Casts: each of them runs once in a step."""
        return self._casts, None, None


class LiveTask:
    """A model, called for inference or for training; all contenders begin with the same weights.

    Args:
        name: one of live_models.NAMES.
        is_training: whether a step changes the weights, and results in the loss.
    """

    def __init__(self, name: str, is_training: bool):
        self._name, self._is_training = name, is_training
        model = live_models.built(name, "float32")
        live_models.calibrate(model)
        self._weights = model.get_weights()

    @contextlib.contextmanager
    def runner(self, contender: str) -> Iterator[Runner]:
        """Context of a Runner with a model of this contender."""
        is_policy = contender == contenders.POLICY
        model = live_models.built(self._name, "mixed_bfloat16" if is_policy else "float32")
        model.set_weights(self._weights)
        arguments = [tf.constant(each) for each in live_models.batch(self._name, model)]
        function = inference(model)
        if self._is_training:
            import keras

            function = training_step(model, keras.optimizers.SGD(_LEARNING_RATE))
        yield _InFunction(contender, lambda: function(*arguments))


def inference(model: Any, compiled: bool = False) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A tf.function of inputs and labels that yields the logits; perhaps compiled by XLA."""
    return tf.function(lambda x, labels: model(x, training=False), jit_compile=compiled)


def training_step(
    model: Any, optimizer: Any, compiled: bool = False
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A tf.function that makes a step with inputs and labels, and yields the loss."""
    import keras

    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=compiled)
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


@contextlib.contextmanager
def _precision(contender: str) -> Iterator[None]:
    if contenders.is_ours(contender):
        import npu_precision

        options = npu_precision.PrecisionOptions(**contenders.fields(contender))
        with npu_precision.autocast(options):
            yield
        return
    toggles = {} if contender == contenders.POLICY else contenders.toggles(contender)
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(toggles)
    try:
        yield
    finally:
        # Not given before: TensorFlow's default of each of these options is the opposite.
        tf.config.optimizer.set_experimental_options(
            {name: before.get(name, not is_on) for name, is_on in toggles.items()}
        )

"""model.fit in every mode: losses and weight updates are close to float32's, or equal to them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf
from support import keras_models
from support.keras_comparison import (
    UNIT,
    assert_matrix_ops_ran_low,
    assert_nothing_changed,
    each_small_model_and_mode,
)
from support.tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision

pytestmark = [needs_functions_by_default, needs_keras_2]

# The rates are small: a step should not leave the region where its gradient is valid.
LEARNING_RATE = {"lstm_gru": 0.01, "bert_small": 0.001, "bert_base": 0.0001}
LEARNING_RATE_OF_CONVOLUTIONAL_NETS = 3e-5
RECURRENT_OR_ATTENTION = list(LEARNING_RATE)
BATCH, STEPS = 16, 3
# TensorFlow's float16 gradients of convolutions take seconds per image on a CPU.
FEW, ONE = 4, 1
IN_FLOAT16 = ["allow_mix_precision", "allow_mix_precision_fp16", "force_fp16"]
# How far the loss of a step may be off, in units, by the unit. The loss is a mean over examples;
# each example's loss is off by as much as a logit may be, with either sign. The float16 kernels
# also sum in float16.
FLOAT16, BFLOAT16 = 2.0**-11, 2.0**-8
UNITS_OF_LOSS = {FLOAT16: 256, BFLOAT16: 64}
# How far the sum of all updates may be off, as a fraction of its length. In a convolutional net,
# the sum consists of gradients through a hundred layers of batch norms, each over a few numbers.
# Some gradients are also too small for float16 without loss scaling. An update in a random
# direction would be at 1.4, no update at 1. Measured errors are half of each limit.
UPDATE = {FLOAT16: 0.5, BFLOAT16: 0.5}
UPDATE_WITHOUT_CONVOLUTIONS = {FLOAT16: 0.02, BFLOAT16: 0.1}
# The limit if nothing is rounded, for sums in another order.
SAME = 1e-4


class Training:
    """Fits a model from the same weights again and again."""

    def __init__(self, name):
        self.name = name
        self._model = keras_models.build(name)
        self._inputs = keras_models.examples(self._model, BATCH)
        self._labels = np.arange(BATCH) % keras_models.CLASSES
        self._initial = self._model.get_weights()
        self._compile()
        self._float32 = {}

    def size(self, mode):
        """The size of a batch, and the number of steps."""
        few = mode in IN_FLOAT16 and self.name not in RECURRENT_OR_ATTENTION
        return (FEW, ONE) if few else (BATCH, STEPS)

    def fit(self, batch, steps, scope=None):
        """The losses of the steps, and the sum of their changes of the weights."""
        self._model.set_weights(self._initial)
        if self.name == "lstm_gru":
            # The layers are functions that TensorFlow does not inline: they keep the options that
            # were in force when the step was traced.
            self._compile()
        # Dropout needs the same seed.
        keras_models.set_seed()
        before = self._trainable()
        with scope or contextlib.nullcontext():
            inputs, labels = self._inputs[:batch], self._labels[:batch]
            history = self._model.fit(inputs, labels, batch, epochs=steps, shuffle=False, verbose=0)
        return np.array(history.history["loss"]), self._trainable() - before

    def fit_float32(self, *size):
        if size not in self._float32:
            self._float32[size] = self.fit(*size)
        return self._float32[size]

    def most(self, mode):
        """How far the loss of a step, and the update, may be from float32's in the mode."""
        if mode not in UNIT:
            return SAME, SAME
        unit = UNIT[mode]
        without = self.name in RECURRENT_OR_ATTENTION
        update = (UPDATE_WITHOUT_CONVOLUTIONS if without else UPDATE)[unit]
        return UNITS_OF_LOSS[unit] * unit, update

    def _compile(self):
        rate = LEARNING_RATE.get(self.name, LEARNING_RATE_OF_CONVOLUTIONAL_NETS)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(tf.keras.optimizers.SGD(rate), loss)

    def _trainable(self):
        variables = self._model.trainable_variables
        return np.concatenate([variable.numpy().ravel() for variable in variables])


@pytest.fixture(scope="module")
def training(request):
    return Training(request.param)


@pytest.fixture
def assert_fit_follows(training, ledgers, tmp_path):
    def check(mode):
        size = training.size(mode)
        expected_losses, expected_update = training.fit_float32(*size)
        scope = npu_precision.autocast(precision_mode=mode, strict=True, report_dir=tmp_path)
        losses, update = training.fit(*size, scope)

        of_loss = np.abs(losses - expected_losses).max()
        of_update = np.linalg.norm(update - expected_update) / np.linalg.norm(expected_update)
        most_of_loss, most_of_update = training.most(mode)
        assert of_loss < most_of_loss
        assert of_update < most_of_update
        if mode not in UNIT:
            assert_nothing_changed(ledgers(tmp_path))
            return
        assert of_loss > 0
        assert of_update > 0
        # Without what reads and writes the batches and the history.
        step = [ledger for ledger in ledgers(tmp_path) if ledger.totals["casts"]]
        assert_matrix_ops_ran_low(step, mode)
        lowered = {node.op for part in step for node in part.nodes if node.decision == "lowered"}
        assert not [op for op in lowered if "Apply" in op or "Variable" in op or "Assign" in op]

    return check


@each_small_model_and_mode("training")
def test_losses_and_updates_follow_float32(assert_fit_follows, mode):
    assert_fit_follows(mode)


@pytest.mark.full
@pytest.mark.parametrize("training", [keras_models.LARGE], indirect=True)
def test_losses_and_updates_of_a_large_model_follow_float32(assert_fit_follows):
    assert_fit_follows("allow_mix_precision_bf16")

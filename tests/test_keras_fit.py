"""model.fit in mixed precision: losses and updates of the weights are float32's, rounded."""

from __future__ import annotations

import contextlib

import keras_models
import numpy as np
import pytest
import tensorflow as tf
from keras_comparison import UNIT, assert_matrix_ops_ran_low
from tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision

pytestmark = [needs_functions_by_default, needs_keras_2]

BATCH = 16
# Small: a step should not leave the region where its gradient holds.
LEARNING_RATE = {"lstm_gru": 0.01, "bert_small": 0.001}
LEARNING_RATE_OF_CONVOLUTIONAL_NETS = 3e-5
RECURRENT_OR_ATTENTION = list(LEARNING_RATE)
# TensorFlow's float16 gradients of convolutions take seconds per step on a CPU.
STEPS = {"allow_mix_precision_bf16": 3, "allow_mix_precision": 3}
STEPS_OF_FLOAT16_CONVOLUTIONS = 1
# How far the loss of a step may be, in units: it is a mean over examples whose losses are off by as
# much as a logit may be, with either sign. Seen: 28, and 20 in float16.
UNITS_OF_LOSS = 64
# How far the sum of all updates may be, as a fraction of its length. That of a convolutional net
# is made of gradients through a hundred layers of batch norms, each over a few numbers; those of
# float16 are also too small for it in part, without loss scaling. Seen: half of each. An update in
# a random direction would be at 1.4, none at all at 1.
UPDATE = {"allow_mix_precision_bf16": 0.5, "allow_mix_precision": 0.3}
UPDATE_WITHOUT_CONVOLUTIONS = {"allow_mix_precision_bf16": 0.1, "allow_mix_precision": 0.02}


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

    def steps(self, mode):
        few = mode == "allow_mix_precision" and self.name not in RECURRENT_OR_ATTENTION
        return STEPS_OF_FLOAT16_CONVOLUTIONS if few else STEPS[mode]

    def fit(self, steps, scope=None):
        """The losses of the steps, and by how much they changed the weights in all."""
        self._model.set_weights(self._initial)
        if self.name == "lstm_gru":
            # Its layers are functions that TensorFlow does not inline: they keep what was in force
            # when the step was traced.
            self._compile()
        # For the dropout.
        tf.keras.utils.set_random_seed(keras_models.SEED)
        before = self._trainable()
        with scope or contextlib.nullcontext():
            history = self._model.fit(
                self._inputs, self._labels, BATCH, epochs=steps, shuffle=False, verbose=0
            )
        return np.array(history.history["loss"]), self._trainable() - before

    def fit_float32(self, steps):
        if steps not in self._float32:
            self._float32[steps] = self.fit(steps)
        return self._float32[steps]

    def _compile(self):
        rate = LEARNING_RATE.get(self.name, LEARNING_RATE_OF_CONVOLUTIONAL_NETS)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._model.compile(tf.keras.optimizers.SGD(rate), loss)

    def _trainable(self):
        variables = self._model.trainable_variables
        return np.concatenate([variable.numpy().ravel() for variable in variables])


@pytest.fixture(scope="module", params=keras_models.SMALL)
def training(request):
    return Training(request.param)


@pytest.mark.parametrize("mode", STEPS)
def test_losses_and_updates_follow_float32(training, mode, ledgers, tmp_path):
    steps = training.steps(mode)
    expected_losses, expected_update = training.fit_float32(steps)
    scope = npu_precision.autocast(precision_mode=mode, strict=True, report_dir=tmp_path)
    losses, update = training.fit(steps, scope)

    difference = np.abs(losses - expected_losses).max()
    assert 0 < difference < UNITS_OF_LOSS * UNIT[mode]
    without = training.name in RECURRENT_OR_ATTENTION
    most = (UPDATE_WITHOUT_CONVOLUTIONS if without else UPDATE)[mode]
    difference = np.linalg.norm(update - expected_update) / np.linalg.norm(expected_update)
    assert 0 < difference < most

    step = [ledger for ledger in ledgers(tmp_path) if ledger.totals["lowered"]]
    assert_matrix_ops_ran_low(step, mode)
    lowered = {node.op for part in step for node in part.nodes if node.decision == "lowered"}
    assert not [op for op in lowered if "Apply" in op or "Variable" in op or "Assign" in op]

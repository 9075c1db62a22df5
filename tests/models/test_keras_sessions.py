"""Keras models built in a graph, as TF1 scripts do, and run in sessions of every mode."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support import keras_models
from support.keras_comparison import (
    UNIT,
    assert_close_but_rounded,
    assert_follows,
    assert_matrix_ops_ran_low,
    each_small_model_and_mode,
)
from support.tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision

tf1 = tf.compat.v1
pytestmark = [needs_functions_by_default, needs_keras_2]


class GraphModel:
    """A model in a graph of its own, which several sessions run."""

    def __init__(self, name):
        model = keras_models.build(name)
        self.name = name
        self._x = keras_models.examples(model)
        self.logits = model(self._x, training=False).numpy()
        # The variables of this first model do not belong to a graph.
        self._weights = model.get_weights()
        with tf.Graph().as_default() as self._graph:
            self._model = keras_models.MODELS[name]()
            self._inputs = tf1.placeholder(self._x.dtype, self._x.shape)
            self._output = self._model(self._inputs, training=False)

    def run(self, **options):
        """The logits that a session with the options computes."""
        config = npu_precision.npu_config_proto(strict=True, **options)
        with self._graph.as_default(), tf1.Session(config=config) as session:
            tf1.keras.backend.set_session(session)
            self._model.set_weights(self._weights)
            return session.run(self._output, {self._inputs: self._x})


@pytest.fixture(scope="module")
def model(request):
    return GraphModel(request.param)


@pytest.fixture
def assert_session_follows(model, ledgers, tmp_path):
    def check(mode):
        logits = model.run(precision_mode=mode, report_dir=tmp_path)
        # Sessions that initialize and assign have ledgers too.
        assert_follows(mode, ledgers(tmp_path), logits, model.logits, model.name)

    return check


@each_small_model_and_mode("model")
def test_a_session_follows_the_mode(assert_session_follows, mode):
    assert_session_follows(mode)


@pytest.mark.full
@pytest.mark.parametrize("model", [keras_models.LARGE], indirect=True)
def test_a_session_of_a_large_model_runs_low(assert_session_follows):
    assert_session_follows("allow_mix_precision_bf16")


# Keras makes v1 loops, with Enter, Exit and a TensorArray, if all of TF2's behavior is off.
TF1_SCRIPT = """\
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import npu_precision

tf.disable_v2_behavior()
layers = tf.keras.layers
weights = list(np.load("weights.npz").values())
x = np.load("x.npy")
for mode in sys.argv[1:]:
    config = npu_precision.npu_config_proto(precision_mode=mode, strict=True, report_dir=mode)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        tf.keras.backend.set_session(session)
        inputs = tf.placeholder(tf.float32, x.shape)
        net = [
            layers.LSTM(32, return_sequences=True, recurrent_activation="sigmoid"),
            layers.GRU(24, recurrent_activation="sigmoid", reset_after=True),
            layers.Dense(10),
        ]
        model = tf.keras.Sequential(net)
        logits = model(inputs)
        model.set_weights(weights)
        np.save(mode, session.run(logits, {inputs: x}))
"""


def test_v1_loops_run_low_and_agree(run_python, ledgers, tmp_path):
    model = keras_models.build("lstm_gru")
    x = keras_models.examples(model)
    expected = model(x).numpy()
    np.savez(tmp_path / "weights.npz", *model.get_weights())
    np.save(tmp_path / "x.npy", x)
    run_python(TF1_SCRIPT, "must_keep_origin_dtype", *UNIT)
    unchanged = np.load(tmp_path / "must_keep_origin_dtype.npy")
    np.testing.assert_allclose(unchanged, expected, atol=1e-4)
    for mode in UNIT:
        logits = np.load(tmp_path / (mode + ".npy"))
        assert_close_but_rounded(logits, expected, "lstm_gru", mode)
        assert_matrix_ops_ran_low(ledgers(tmp_path / mode), mode)
        ops = {node.op for ledger in ledgers(tmp_path / mode) for node in ledger.nodes}
        assert ops >= {"Enter", "Exit", "TensorArrayWriteV3"}

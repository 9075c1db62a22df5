"""Keras models built in a graph, as TF1 scripts do, and run in a session that lowers them."""

from __future__ import annotations

import keras_models
import numpy as np
import pytest
import tensorflow as tf
from keras_comparison import MIXED, UNIT, assert_close_but_rounded, assert_matrix_ops_ran_low
from tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision

tf1 = tf.compat.v1
pytestmark = [needs_functions_by_default, needs_keras_2]


def run_in_session(build, weights, x, config):
    """The logits of a model that is built in a graph of its own, and given the weights."""
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        tf1.keras.backend.set_session(session)
        model = build()
        inputs = tf1.placeholder(x.dtype, x.shape)
        logits = model(inputs, training=False)
        model.set_weights(weights)
        return session.run(logits, {inputs: x})


@pytest.fixture(scope="module", params=keras_models.SMALL)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def trained(name):
    """Weights, inputs and float32's logits; a Keras model itself does not survive a graph's."""
    model = keras_models.build(name)
    x = keras_models.examples(model)
    return model.get_weights(), x, model(x, training=False).numpy()


@pytest.mark.parametrize("mode", MIXED)
def test_it_runs_low_and_agrees(name, trained, mode, ledgers, tmp_path):
    weights, x, expected = trained
    config = npu_precision.npu_config_proto(precision_mode=mode, strict=True, report_dir=tmp_path)
    logits = run_in_session(keras_models.MODELS[name], weights, x, config)
    assert_close_but_rounded(logits, expected, name, mode)
    # Sessions that initialize and assign have ledgers too.
    assert_matrix_ops_ran_low(ledgers(tmp_path), mode)


# Keras makes v1 loops, with Enter, Exit and a TensorArray, where all of TF2's behavior is off.
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

"""Exported Keras models, converted, loaded by TensorFlow as it is, and run."""

from __future__ import annotations

import keras_models
import pytest
import tensorflow as tf
from keras_comparison import MIXED, UNIT, assert_close_but_rounded, assert_matrix_ops_ran_low
from tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision

pytestmark = [needs_functions_by_default, needs_keras_2]


@pytest.fixture(
    scope="module", params=[name for name in keras_models.MODELS if name != "bert_base"]
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return keras_models.build(name)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    model.export(str(folder))
    return folder


@pytest.mark.parametrize("mode", MIXED)
def test_converted_it_runs_low_and_agrees(name, model, exported, mode, tmp_path):
    ledgers = npu_precision.convert_saved_model(
        exported, tmp_path / "converted", precision_mode=mode, strict=True
    )
    assert_matrix_ops_ran_low([part for ledger in ledgers for part in ledger], mode)
    x = keras_models.examples(model)
    expected = model(x, training=False).numpy()
    loaded = tf.saved_model.load(str(tmp_path / "converted"))
    assert_close_but_rounded(loaded.serve(x).numpy(), expected, name, mode)
    assert {variable.dtype for variable in loaded.variables} <= {tf.float32, tf.int64}


@pytest.mark.parametrize("mode", UNIT)
def test_saved_with_all_its_layers_a_recurrent_net_runs_low_and_agrees(mode, tmp_path):
    """Keras saves a function per layer, and one for training."""
    model = keras_models.build("lstm_gru")
    model.save(tmp_path / "model", save_format="tf")
    ledgers = npu_precision.convert_saved_model(
        tmp_path / "model", tmp_path / "converted", precision_mode=mode, strict=True
    )
    assert_matrix_ops_ran_low([part for ledger in ledgers for part in ledger], mode)
    x = keras_models.examples(model)
    loaded = tf.saved_model.load(str(tmp_path / "converted"))
    serve = loaded.signatures["serving_default"]
    for logits in (*serve(tf.constant(x)).values(), loaded(x, training=True)):
        assert_close_but_rounded(logits.numpy(), model(x).numpy(), "lstm_gru", mode)

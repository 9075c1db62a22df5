"""Exported Keras models that are converted, loaded by TensorFlow without this package, and run."""

from __future__ import annotations

import pytest
import tensorflow as tf
from support import keras_models
from support.keras_comparison import (
    CHANGES_NOTHING,
    UNIT,
    assert_close_but_rounded,
    assert_follows,
    assert_matrix_ops_ran_low,
    each_small_model_and_mode,
)
from support.tf_versions import needs_functions_by_default, needs_keras_2
from tensorflow.core.protobuf import saved_model_pb2

import npu_precision

pytestmark = [needs_functions_by_default, needs_keras_2]


class Exported:
    """A model in a folder, an example of its inputs, and float32's outputs for it."""

    def __init__(self, name, folder):
        model = keras_models.build(name)
        model.export(str(folder))
        self.name = name
        self.folder = folder
        self.x = keras_models.examples(model)
        self.logits = model(self.x, training=False).numpy()


@pytest.fixture(scope="module")
def exported(request, tmp_path_factory):
    return Exported(request.param, tmp_path_factory.mktemp("exported") / "model")


def graph_of(folder):
    saved_model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    return saved_model.meta_graphs[0].graph_def


@pytest.fixture
def assert_converted_follows(exported, tmp_path):
    def check(mode):
        ledgers = npu_precision.convert_saved_model(
            exported.folder, tmp_path / "converted", precision_mode=mode, strict=True
        )
        loaded = tf.saved_model.load(str(tmp_path / "converted"))
        assert_follows(
            mode,
            [part for ledger in ledgers for part in ledger],
            loaded.serve(exported.x).numpy(),
            exported.logits,
            exported.name,
        )
        assert {variable.dtype for variable in loaded.variables} <= {tf.float32, tf.int64}
        unchanged = graph_of(tmp_path / "converted") == graph_of(exported.folder)
        assert unchanged == (mode in CHANGES_NOTHING)

    return check


@each_small_model_and_mode("exported")
def test_converted_it_follows_the_mode(exported, assert_converted_follows, mode):
    assert_converted_follows(mode)


@pytest.mark.full
@pytest.mark.parametrize("exported", [keras_models.LARGE], indirect=True)
def test_a_large_model_converted_runs_low(assert_converted_follows):
    assert_converted_follows("allow_mix_precision_bf16")


@pytest.mark.full
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

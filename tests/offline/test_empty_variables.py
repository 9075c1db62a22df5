"""A model that Keras 3 saves is read with the values that tf.saved_model.load gives it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

from npu_precision.accuracy import comparison, frozen, verification
from npu_precision.offline import model_file
from npu_precision.options import PrecisionOptions

pytestmark = needs_functions_by_default
EXACT = PrecisionOptions(precision_mode="must_keep_origin_dtype")


def saved_model(folder):
    """Saves a model with shared, trained, counted and unread variables; returns it and a batch."""
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    inputs = tf.keras.Input([8], name="features")
    hidden = layers.BatchNormalization()(layers.Dense(4, "relu")(inputs))
    model = tf.keras.Model(inputs, layers.Dense(2)(layers.Dropout(0.5)(hidden)))
    model.compile("adam", "mse")
    features = np.random.default_rng(0).normal(size=[6, 8]).astype(np.float32)
    model.fit(features, np.ones([6, 2]), verbose=0)
    tf.saved_model.save(model, str(folder))
    return model, features


def feeds(inputs, features):
    (given,) = inputs.values()
    return [{given.tensor: features}]


def test_a_frozen_model_of_keras_has_the_values_of_its_weights(tmp_path):
    model, features = saved_model(tmp_path / "model")
    flat = frozen.freeze(model_file.load_model(tmp_path / "model"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(flat.graph_def, name="")
        (output,) = flat.output_names.values()
        found = session.run(output, *feeds(flat.inputs, features))
    np.testing.assert_allclose(found, model(features), rtol=1e-5, atol=1e-6)


def test_a_model_of_keras_can_be_compared_and_verified(tmp_path):
    _, features = saved_model(tmp_path / "model")
    model = model_file.load_model(tmp_path / "model")
    flat = frozen.freeze(model)
    compared = comparison.Comparer(flat, EXACT).run(feeds(flat.inputs, features))
    assert compared.rows
    assert compared.error() == 0
    batches = feeds(frozen.inputs_of(model).inputs, features)
    assert verification.Verifier(model, batches).verify(model).worst()[1] == 0

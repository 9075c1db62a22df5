"""A .keras or .h5 file is read like the SavedModel that Keras makes of it."""

from __future__ import annotations

import pathlib
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

from npu_precision.accuracy import frozen, verification
from npu_precision.offline import model_file, saved_model

pytestmark = needs_functions_by_default
layers = tf.keras.layers
# Keras before 2.12 has no .keras files.
SUFFIXES = [".keras", ".h5"]


class Doubled(layers.Layer):
    """A layer that Keras does not find by itself."""

    def call(self, inputs):
        return 2 * inputs


def small_model(*more):
    return tf.keras.Sequential(
        [tf.keras.Input([8], name="features"), layers.Dense(4, "relu"), *more, layers.Dense(2)]
    )


@pytest.fixture(params=SUFFIXES)
def file(request, tmp_path):
    """file(model) -> the path of a file with the model."""

    def save(model):
        path = tmp_path / f"model{request.param}"
        model.save(str(path))
        return path

    return save


def test_the_model_has_the_values_of_the_file(file):
    model = small_model()
    path = file(model)
    loaded = model_file.load_model(path)
    assert loaded.path == str(path)
    assert loaded.shown_kind == "Keras model, exported to a SavedModel"
    assert loaded.signature == "serving_default"
    flat = frozen.freeze(loaded)
    (given,) = flat.inputs.values()
    features = np.random.default_rng(0).normal(size=[3, 8]).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(flat.graph_def, name="")
        (found,) = session.run(list(flat.output_names.values()), {given.tensor: features})
    np.testing.assert_allclose(found, model(features), rtol=1e-5, atol=1e-6)


def test_a_converted_model_is_verified_next_to_the_file(file, tmp_path):
    loaded = model_file.load_model(file(small_model()))
    saved_model.convert_saved_model(
        loaded.folder, tmp_path / "low", precision_mode="allow_mix_precision_bf16"
    )
    converted = model_file.load_model(tmp_path / "low")
    (given,) = frozen.inputs_of(loaded).inputs.values()
    features = np.random.default_rng(0).normal(size=[3, 8]).astype(np.float32)
    verified = verification.Verifier(loaded, [{given.tensor: features}]).verify(converted)
    assert verified.worst()[1] < 0.05


def test_a_class_that_keras_does_not_find_is_named_and_what_to_do(file):
    path = file(small_model(Doubled()))
    with pytest.raises(ValueError, match=r"Keras cannot load .*Doubled.*import MODULE.*export"):
        model_file.load_model(path)


def test_weights_alone_are_no_model(tmp_path):
    path = tmp_path / "some.weights.h5"
    small_model().save_weights(str(path))
    with pytest.raises(ValueError, match=r"Keras cannot load and export '.*some\.weights\.h5'"):
        model_file.load_model(path)


def test_another_zip_archive_is_no_model(tmp_path):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(ValueError, match="is a zip archive, but not one that Keras writes"):
        model_file.load_model(path)


def test_an_exported_model_lies_in_the_folder_of_temporary_files(file, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = model_file.load_model(file(small_model())).folder
    assert tmp_path in pathlib.Path(folder).parents

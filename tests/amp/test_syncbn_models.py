"""convert_syncbn_model: the layers that it changes, leaves unchanged, or refuses."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_synchronized_batch_norm

from npu_precision import amp

pytestmark = needs_synchronized_batch_norm
layers = tf.keras.layers


def sequential():
    return tf.keras.Sequential(
        [
            layers.Input([6, 6, 3]),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(name="first", momentum=0.9, epsilon=1e-4),
            layers.ReLU(),
            layers.BatchNormalization(name="frozen", scale=False, trainable=False),
        ]
    )


def functional():
    x = layers.Input([6, 6, 3])
    y = layers.BatchNormalization(name="first")(layers.Conv2D(3, 3, padding="same")(x))
    y = layers.BatchNormalization(name="frozen", trainable=False)(layers.Add()([x, y]))
    return tf.keras.Model(x, y)


def nested():
    x = layers.Input([6, 6, 3])
    return tf.keras.Model(x, functional()(layers.Conv2D(3, 1)(x)))


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [layers.Conv2D(4, 3), layers.BatchNormalization(name="first")]
        self.last = layers.BatchNormalization(name="frozen", trainable=False)

    def call(self, inputs, training=None):
        for block in self.blocks:
            inputs = block(inputs)
        return self.last(inputs, training=training)


def subclassed():
    model = Subclassed()
    model(tf.zeros([1, 6, 6, 3]))
    return model


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=[8, 6, 6, 3]).astype(np.float32)


def batch_norms(model):
    found = {each.name: each for each in model._flatten_layers() if hasattr(each, "moving_mean")}
    return [found["first"], found["frozen"]]


@pytest.mark.parametrize("make", [sequential, functional, nested, subclassed])
def test_a_converted_model_is_the_same_but_for_its_batch_norms(make, images):
    plain, model = make(), make()
    weights = [weight + 0.25 for weight in plain.get_weights()]
    plain.set_weights(weights)
    model.set_weights(weights)
    variables = [id(variable) for variable in model.weights]
    trained = [id(variable) for variable in model.trainable_variables]
    configs = [layer.get_config() for layer in batch_norms(model)]

    assert amp.parallel.convert_syncbn_model(model) is model
    assert [type(layer) for layer in batch_norms(model)] == [amp.parallel.SyncBatchNorm] * 2
    assert [id(variable) for variable in model.weights] == variables
    assert [id(variable) for variable in model.trainable_variables] == trained
    for before, layer in zip(configs, batch_norms(model)):
        assert {**layer.get_config(), "synchronized": None} == {**before, "synchronized": None}

    for training in (False, True, None, False):
        expected, got = plain(images, training=training), model(images, training=training)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
        for ours, theirs in zip(model.get_weights(), plain.get_weights()):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_layer_may_be_converted_before_it_is_built(images):
    layer = amp.parallel.convert_syncbn_model(layers.BatchNormalization(momentum=0.5))
    expected = layers.BatchNormalization(momentum=0.5)(images, training=True)
    np.testing.assert_allclose(layer(images, training=True), expected, rtol=1e-4, atol=1e-4)


def test_a_compiled_model_goes_on_with_its_optimizer(images):
    model = tf.keras.Sequential([sequential(), layers.Flatten(), layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "mse", jit_compile=False)
    fit = {"x": images, "y": np.zeros([8, 1]), "batch_size": 8, "verbose": 0}
    model.fit(**fit)
    before = model.train_function
    amp.parallel.convert_syncbn_model(model)
    model.fit(**fit)
    assert model.train_function is not before
    assert int(model.optimizer.iterations) == 2


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_converted_model_is_saved_and_loaded(suffix, images, tmp_path):
    model = amp.parallel.convert_syncbn_model(sequential())
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    assert [type(layer) for layer in batch_norms(loaded)] == [amp.parallel.SyncBatchNorm] * 2
    np.testing.assert_array_equal(loaded(images, training=True), model(images, training=True))


def test_a_saved_model_has_its_inference(images, tmp_path):
    model = amp.parallel.convert_syncbn_model(sequential())
    tf.saved_model.save(model, str(tmp_path / "saved"))
    (signature,) = tf.saved_model.load(str(tmp_path / "saved")).signatures.values()
    (output,) = signature(tf.constant(images)).values()
    np.testing.assert_allclose(output, model(images), rtol=1e-5, atol=1e-5)


def test_a_mask_and_float64_are_as_keras_has_them():
    mask = np.arange(10) < [[4], [9], [10]]
    x = np.random.default_rng(0).normal(size=[3, 10, 2])
    for options, given in ({}, {"mask": mask}), ({"dtype": "float64"}, {}):
        norms = amp.parallel.SyncBatchNorm(**options), layers.BatchNormalization(**options)
        got, expected = (
            norm(x.astype(options.get("dtype", "float32")), training=True, **given)
            for norm in norms
        )
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_is_synchronized_already_stays():
    model = tf.keras.Sequential(
        [
            layers.Input([3]),
            layers.BatchNormalization(synchronized=True),
            amp.parallel.SyncBatchNorm(),
        ]
    )
    kinds = [type(layer) for layer in model.layers]
    assert amp.parallel.convert_syncbn_model(model) is model
    assert [type(layer) for layer in model.layers] == kinds


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: tf.keras.Sequential([layers.Input([3]), layers.Dense(1)]),
            "no batch norms; it is",
        ),
        (lambda: tf.keras.Sequential([layers.Dense(1)]), "no batch norms before it is built"),
    ],
)
def test_a_model_without_batch_norms_is_returned_as_it_is(model, message, caplog):
    model = model()
    with caplog.at_level(logging.WARNING, "npu_precision"):
        assert amp.parallel.convert_syncbn_model(model) is model
    assert message in caplog.text


class OfAUser(layers.BatchNormalization):
    pass


def test_an_error_changes_nothing():
    model = tf.keras.Sequential(
        [layers.Input([3]), layers.BatchNormalization(), OfAUser(name="own")]
    )
    with pytest.raises(ValueError, match="layer 'own': got .*OfAUser, expected tf.keras.*itself"):
        amp.parallel.convert_syncbn_model(model)
    assert type(model.layers[0]) is layers.BatchNormalization


def test_other_arguments_are_refused():
    with pytest.raises(ValueError, match="process_group: got 'some', expected None"):
        amp.parallel.convert_syncbn_model(sequential(), process_group="some")
    with pytest.raises(ValueError, match="module: got 3, expected a model or a layer of Keras"):
        amp.parallel.convert_syncbn_model(3)
    with pytest.raises(ValueError, match="got synchronized=False, expected True"):
        amp.parallel.SyncBatchNorm(synchronized=False)

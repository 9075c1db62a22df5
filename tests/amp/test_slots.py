"""npu_precision.amp.optimizers: checkpoints, Keras' files, and configs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_fused_optimizers, needs_keras_2

from npu_precision import amp

pytestmark = needs_fused_optimizers
X = np.random.RandomState(0).rand(64, 4).astype(np.float32)
MAKERS = {
    "momentum": lambda: amp.optimizers.NpuFusedSGD(0.01, 0.9),
    "adam": lambda: amp.optimizers.NpuFusedAdam(0.01, amsgrad=True),
    "adamw": lambda: amp.optimizers.NpuFusedAdamW(0.01),
}
each_optimizer = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def model_with(optimizer):
    """A model with small variables and a large one."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input([4]), layers.Dense(130, "tanh"), layers.Dense(130), layers.Dense(1)]
    )
    model.compile(optimizer, tf.keras.losses.MeanSquaredError())
    return model


def fit(model, epochs):
    model.fit(X, X.sum(1), epochs=epochs, verbose=0, shuffle=False)
    return model.get_weights()


def assert_goes_on_alike(first, second):
    for mine, other in zip(fit(first, 2), fit(second, 2)):
        np.testing.assert_array_equal(mine, other)


@each_optimizer
@pytest.mark.parametrize(
    ("when", "small"), [("before the first step", 0), ("after it", 10**6)], ids=["0", "10^6"]
)
def test_a_checkpoint_goes_on_with_another_grouping(make, when, small, tmp_path, monkeypatch):
    model = model_with(make())
    fit(model, 2)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = checkpoint.save(str(tmp_path / "checkpoint"))
    monkeypatch.setattr("npu_precision.amp.optimizers.parts.SMALL", small)
    other = model_with(make())
    if when == "after it":
        fit(other, 1)
    status = tf.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
    assert_goes_on_alike(model, other)
    status.assert_existing_objects_matched()


def test_the_slots_of_a_checkpoint_are_under_the_names_of_the_variables(tmp_path):
    model_with(MAKERS["momentum"]())  # numbers its layers before those of the next
    model = model_with(MAKERS["momentum"]())
    fit(model, 1)
    path = tf.train.Checkpoint(optimizer=model.optimizer).save(str(tmp_path / "checkpoint"))
    names = [name for name, _ in tf.train.list_variables(path) if "momentum_buffer" in name]
    slots = sorted(name.rpartition("ATTRIBUTES/")[2] for name in names)
    layers = ("dense", "dense_1", "dense_2")
    assert slots == sorted(f"{layer}:{kind}" for layer in layers for kind in ("bias", "kernel"))


def test_a_checkpoint_without_a_slot_is_refused(tmp_path):
    variables = [tf.Variable(1.0, name="first"), tf.Variable(1.0, name="second")]
    one, both = MAKERS["momentum"](), MAKERS["momentum"]()
    one.build(variables[:1])
    both.build(variables)
    path = tf.train.Checkpoint(optimizer=one).save(str(tmp_path / "checkpoint"))
    with pytest.raises(tf.errors.NotFoundError, match="second"):
        tf.train.Checkpoint(optimizer=both).restore(path)


@each_optimizer
@pytest.mark.parametrize(
    ("suffix", "initialized"),
    [(".keras", False), (".keras", True), pytest.param(".h5", True, marks=needs_keras_2)],
    ids=["keras", "amp keras", "amp h5"],
)
def test_a_saved_model_goes_on(make, suffix, initialized, tmp_path):
    optimizer = make()
    if initialized:
        amp.initialize(optimizer, "O1", loss_scale=8.0, verbosity=0)
    model = model_with(optimizer)
    fit(model, 2)
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    again = tf.keras.models.load_model(path)
    assert type(again.optimizer).__name__ == type(optimizer).__name__
    if initialized:
        amp.initialize(again.optimizer, "O1", loss_scale=8.0, verbosity=0)
    assert_goes_on_alike(model, again)


@needs_keras_2
def test_a_saved_model_has_no_slots_and_says_so(tmp_path, caplog):
    model = model_with(MAKERS["adam"]())
    fit(model, 1)
    model.save(str(tmp_path / "model"))
    assert "NpuFusedAdam: a SavedModel does not have its slots" in caplog.text
    again = tf.keras.models.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(X, verbose=0), model.predict(X, verbose=0))
    fit(again, 1)


def test_a_file_that_lacks_slots_is_refused():
    variables = [tf.Variable(1.0, name="first"), tf.Variable(1.0, name="second")]
    one, both, store = MAKERS["momentum"](), MAKERS["momentum"](), {}
    one.build(variables[:1])
    both.build(variables)
    one.save_own_variables(store)
    with pytest.raises(ValueError, match=r"expected \['momentum_buffer.second'\] too"):
        both.load_own_variables(store)


def test_a_file_without_any_slots_is_only_warned_of(caplog):
    optimizer = MAKERS["momentum"]()
    store = {"0": np.int64(3), "1": np.float32(0.5)}
    optimizer.build([tf.Variable(1.0)])
    optimizer.load_own_variables(store)
    assert "the file has no slots" in caplog.text


def test_weights_of_another_shape_are_refused():
    optimizer = MAKERS["momentum"]()
    optimizer.build([tf.Variable(1.0)])
    with pytest.raises(ValueError, match="weights: got arrays of the shapes"):
        optimizer.set_weights([np.zeros(3)])


@each_optimizer
def test_a_config_makes_the_same_optimizer(make):
    optimizer = make()
    config = tf.keras.optimizers.serialize(optimizer)
    again = tf.keras.optimizers.deserialize(config)
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()


def test_compile_takes_its_name():
    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(1)])
    model.compile(amp.optimizers.NpuFusedAdam.__name__, "mse")
    assert model.optimizer.get_config() == amp.optimizers.NpuFusedAdam().get_config()


def test_a_config_keeps_schedule_and_clipping():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 10, 0.5)
    optimizer = amp.optimizers.NpuFusedAdam(schedule, global_clipnorm=2.0, name="mine")
    again = amp.optimizers.NpuFusedAdam.from_config(optimizer.get_config())
    assert again.get_config() == optimizer.get_config()
    assert again.global_clipnorm == 2.0
    assert again.name == "mine"


def test_the_package_does_not_import_keras_for_them(run_cold_python):
    script = """
import sys, tensorflow as tf, npu_precision
from npu_precision import amp
assert "npu_precision.amp.optimizers" not in sys.modules
print(amp.optimizers.NpuFusedAdam.__name__)
"""
    assert run_cold_python(script).stdout == "NpuFusedAdam\n"

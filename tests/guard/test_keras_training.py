"""PrecisionGuard in Model.fit: the faults that it heals, those it does not, and its messages."""

from __future__ import annotations

import json
import logging
import os
import re

import numpy as np
import pytest
import tensorflow as tf
from support import ROOT, keras_models
from support.large_layer import Large
from support.tf_versions import needs_functions_by_default, needs_keras_2

import npu_precision
from npu_precision import TrainingFailed, amp
from npu_precision.guard.keras_training import KerasTraining
from npu_precision.guard.training import SEVERAL

pytestmark = needs_functions_by_default
layers = tf.keras.layers
RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.normal(size=[256, 16]).astype(np.float32)
DIGITS = np.argmax(IMAGES[:, :4], 1)


def model_of(size=1.0, optimizer=None, **compiled):
    keras_models.set_seed()
    model = tf.keras.Sequential(
        [
            layers.Dense(32, "relu", name="hidden"),
            Large(size, name="large"),
            Large(1.0, name="second"),
            layers.Dense(4, name="digits"),
        ],
        name="model",
    )
    model.build([None, 16])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = optimizer or tf.keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizer, loss, jit_compile=False, **compiled)
    return model


def fit(model, guard, images=IMAGES, epochs=2, dtype="float16", **arguments):
    """Fits the model; returns the loss of each epoch."""
    mode = npu_precision.autocast(dtype=dtype) if dtype else npu_precision.autocast(enabled=False)
    callbacks = [] if guard is None else [guard]
    with mode:
        arguments = {"batch_size": 32, "shuffle": False, "verbose": 0, **arguments}
        history = model.fit(images, DIGITS, epochs=epochs, callbacks=callbacks, **arguments)
    return history.history["loss"]


def test_a_weight_stands_still_only_where_the_optimizer_has_made_several_steps():
    """Loss scaling skips steps, and a warm-up may begin with a rate of zero."""
    model = model_of()
    training = KerasTraining(model)
    state = training.save()
    unchanged = []
    for _ in range(SEVERAL + 1):
        model.optimizer.iterations.assign_add(1)
        unchanged.append(len(training.unchanged(state)))
    assert unchanged == [0] * (SEVERAL - 1) + [len(model.trainable_variables)] * 2


def entries(path):
    text = "\n".join(
        line for line in path.read_text().splitlines() if not line.strip().startswith("//")
    )
    return json.loads(text)["black-list"]["to-add"]


def in_layer(name):
    """The message about an overflow in a layer. Keras 3 builds the layer once before."""
    return re.compile(rf"it begins as overflow of float16 in model(_1)?/{name}(_1)?/")


def warnings_of(caplog):
    return [each.message for each in caplog.records if each.message.startswith("PrecisionGuard")]


def test_an_op_that_overflows_is_kept_and_training_goes_on(tmp_path, caplog):
    """float16 alone gives NaN; with a guard, the losses are float32's."""
    assert not np.isfinite(fit(model_of(1e6), None)).all()
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with caplog.at_level(logging.WARNING):
        healed = fit(model_of(1e6), guard)
    np.testing.assert_allclose(healed, fit(model_of(1e6), None, dtype=None), rtol=2e-3)
    assert guard.heals == 1
    (message,) = warnings_of(caplog)
    assert message.startswith("PrecisionGuard: step 0: ")
    assert in_layer("large").search(message)
    assert message.endswith("healed.json (heal 1 of 3)")
    kept = entries(tmp_path / "healed.json")
    assert kept
    assert all("large" in entry for entry in kept)
    # The reason stands above each.
    lines = (tmp_path / "healed.json").read_text().splitlines()
    reasons = [before for before, line in zip(lines, lines[1:]) if '"node:' in line]
    assert len(reasons) == len(kept)
    assert all("of float16 in" in reason and reason.strip().startswith("//") for reason in reasons)


def test_an_input_that_overflows_behind_a_reshape_is_healed(tmp_path, caplog):
    """A Dense layer on sequences reshapes its input before the product."""

    def trained(*callbacks, dtype="float16"):
        keras_models.set_seed()
        model = tf.keras.Sequential(
            [
                layers.Dense(8, name="first"),
                layers.LayerNormalization(),
                layers.GlobalAveragePooling1D(),
                layers.Dense(1),
            ]
        )
        model.compile(tf.keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
        sequences = (np.random.default_rng(2).random([64, 4, 16]) * 1e5).astype(np.float32)
        mode = npu_precision.autocast(enabled=dtype is not None, dtype=dtype or "float16")
        with mode:
            arguments = {"batch_size": 32, "shuffle": False, "verbose": 0}
            labels = np.ones([64, 1], np.float32)
            return model.fit(sequences, labels, callbacks=[*callbacks], **arguments)

    assert not np.isfinite(trained().history["loss"]).all()
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with caplog.at_level(logging.WARNING):
        losses = trained(guard).history["loss"]
    np.testing.assert_allclose(losses, trained(dtype=None).history["loss"], rtol=1e-2)
    (message,) = warnings_of(caplog)
    assert "it begins as overflow of float16 in inputs (_Arg)" in message
    kept = entries(tmp_path / "healed.json")
    assert kept
    assert all("first" in entry and "MatMul" in entry for entry in kept)


def test_a_mixlist_of_before_is_in_force_from_the_first_step(tmp_path, caplog):
    first = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    fit(model_of(1e6), first)
    text = (tmp_path / "healed.json").read_text()
    again = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        losses = fit(model_of(1e6), again)
    assert np.isfinite(losses).all()
    assert again.heals == 0
    assert warnings_of(caplog) == []
    assert (tmp_path / "healed.json").read_text() == text


def test_the_entries_of_the_users_mixlist_stay(tmp_path, mixlist):
    path = mixlist(black=["Tanh"])
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    mode = {"precision_mode": "allow_mix_precision", "modify_mixlist": path}
    with npu_precision.autocast(**mode):
        model_of(1e6).fit(IMAGES, DIGITS, epochs=1, verbose=0, callbacks=[guard])
    assert entries(tmp_path / "healed.json")[0] == "Tanh"
    assert len(entries(tmp_path / "healed.json")) > 1


def test_what_is_kept_already_is_not_kept_again(tmp_path):
    """Its value is in float32, and overflows when the next op rounds it."""
    (tmp_path / "own.json").write_text('{"black-list": {"to-add": ["node:.*large.*/mul"]}}')
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    options = {"precision_mode": "allow_mix_precision", "modify_mixlist": tmp_path / "own.json"}
    with npu_precision.autocast(**options):
        losses = model_of(1e6).fit(IMAGES, DIGITS, verbose=0, callbacks=[guard]).history["loss"]
    assert np.isfinite(losses).all()
    kept = entries(tmp_path / "healed.json")
    assert kept[0] == "node:.*large.*/mul"
    assert len(kept) == len(set(kept))


def test_validation_is_healed_too(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with npu_precision.autocast(dtype="float16"):
        model, data = model_of(1e6), (IMAGES[:64], DIGITS[:64])
        history = model.fit(
            IMAGES, DIGITS, epochs=2, verbose=0, validation_data=data, callbacks=[guard]
        ).history
        assert np.isfinite(history["val_loss"]).all()
        # From then on, the user has to name the file.
        assert not np.isfinite(model.evaluate(*data, verbose=0))
    with npu_precision.autocast(
        precision_mode="allow_mix_precision", modify_mixlist=tmp_path / "healed.json"
    ):
        assert np.isfinite(model.evaluate(*data, verbose=0))


def test_gradients_that_vanish_under_a_fixed_scale_are_kept(tmp_path, caplog):
    def trained(guard):
        keras_models.set_seed()
        model = tf.keras.Sequential([layers.Dense(8, "relu"), layers.Dense(4)])
        optimizer = tf.keras.optimizers.SGD(1e8)
        model, optimizer = amp.initialize(
            model, optimizer, opt_level="O1", loss_scale=2.0, verbosity=0
        )

        def small(labels, logits):
            labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
            exact = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            return tf.reduce_mean(exact) * 1e-9

        model.compile(optimizer, small, jit_compile=False)
        before = None
        callbacks = [] if guard is None else [guard]
        model.build([None, 16])
        before = model.get_weights()
        labels = DIGITS.astype(np.int32)
        model.fit(
            IMAGES, labels, batch_size=32, epochs=2, verbose=0, shuffle=False, callbacks=callbacks
        )
        return [np.abs(now - then).max() for now, then in zip(model.get_weights(), before)]

    assert trained(None)[0] == 0
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with caplog.at_level(logging.WARNING):
        moved = trained(guard)
    assert moved[0] > 1e-3
    (message,) = warnings_of(caplog)
    assert "have not changed since the last state was saved" in message
    assert "nothing but zeros of float16 in gradient_tape/" in message


def test_a_learning_rate_that_diverges_in_float32_is_not_healed(tmp_path, caplog):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    model = model_of(1.0, tf.keras.optimizers.SGD(300.0))
    with caplog.at_level(logging.WARNING), pytest.raises(TrainingFailed) as raised:
        fit(model, guard, epochs=20)
    assert "float32 fails on this batch too" in str(raised.value)
    assert "so the model or its data is at fault, not the precision" in str(raised.value)
    assert guard.heals == 0
    assert entries(tmp_path / "healed.json") == []
    # The model's state is that of the last good step.
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_a_nan_in_the_data_is_named(tmp_path):
    images = IMAGES.copy()
    images[200, 3] = np.nan
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    model = model_of()
    with pytest.raises(TrainingFailed) as raised:
        fit(model, guard, images)
    assert str(raised.value).startswith("PrecisionGuard: step 6: ")
    assert "float32 fails on this batch too" in str(raised.value)
    assert "begins as nan in inputs (_Arg)" in str(raised.value)
    assert entries(tmp_path / "healed.json") == []
    assert int(model.optimizer.iterations) == 6


CRASH = """
import os, sys
import numpy as np
import tensorflow as tf
import npu_precision
from npu_precision.guard import healer
sys.path.insert(0, sys.argv[2])
from test_keras_training import DIGITS, IMAGES, Grows, model_of

def crash(*_):
    print("crashed within a heal", flush=True)
    os._exit(9)

healer.Healer._blamed = crash
folder = sys.argv[1]
guard = npu_precision.PrecisionGuard(folder + "/healed.json", snapshot_every=2)
save = tf.keras.callbacks.ModelCheckpoint(
    folder + "/model.weights.h5", save_weights_only=True, save_freq=1
)
with npu_precision.autocast(dtype="float16"):
    callbacks = [guard, save, Grows({4: 1e6})]
    model_of().fit(IMAGES, DIGITS, batch_size=32, verbose=0, callbacks=callbacks)
"""


def test_after_a_crash_in_the_middle_of_a_heal_what_is_on_disk_is_whole(run_python, tmp_path):
    here = ROOT / "tests" / "guard"
    path = os.pathsep.join(map(str, (here, here.parent, ROOT)))
    process = run_python(CRASH, tmp_path, here, check=False, PYTHONPATH=path)
    assert process.stdout.strip().endswith("crashed within a heal")
    assert process.returncode == 9
    model = model_of()
    model.load_weights(str(tmp_path / "model.weights.h5"))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert entries(tmp_path / "healed.json") == []
    assert sorted(file.name for file in tmp_path.iterdir() if "heal" in file.name) == [
        "healed.json"
    ]
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    model.get_layer("large").large.assign(1e6)
    assert np.isfinite(fit(model, guard, epochs=1)).all()
    assert guard.heals == 1


def test_a_loss_out_of_its_band_stops_or_is_healed(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", band=(0, 1e-6))
    with pytest.raises(TrainingFailed, match="out of its band, 0 to 1e-06; float32 fails on this"):
        fit(model_of(), guard)


class Grows(tf.keras.callbacks.Callback):
    """Sets a value between batches, as a schedule sets the learning rate."""

    def __init__(self, sizes, layer="large"):
        super().__init__()
        self.sizes, self.layer = sizes, layer

    def on_train_batch_end(self, batch, logs=None):
        if batch in self.sizes:
            self.model.get_layer(self.layer).large.assign(self.sizes[batch])


def test_what_other_callbacks_change_stays_changed(tmp_path, caplog):
    """The restored state is older than the change."""
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=8)
    model = model_of(1.0)
    with caplog.at_level(logging.WARNING), npu_precision.autocast(dtype="float16"):
        arguments = {"batch_size": 32, "epochs": 1, "shuffle": False, "verbose": 0}
        model.fit(IMAGES, DIGITS, callbacks=[guard, Grows({2: 2.0, 4: 1e6})], **arguments)
    (message,) = warnings_of(caplog)
    assert "step 5: " in message
    assert in_layer("large").search(message)
    assert float(model.get_layer("large").large) == 1e6
    assert int(model.optimizer.iterations) == 8
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_a_mixlist_that_cannot_be_written_is_in_force_all_the_same(tmp_path, monkeypatch, caplog):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")

    def write(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(guard._mixlist, "_write", write)
    with caplog.at_level(logging.WARNING):
        losses = fit(model_of(1e6), guard)
    assert np.isfinite(losses).all()
    assert warnings_of(caplog)[0] == (
        "PrecisionGuard: No space left on device; its entries are in force all the same"
    )
    assert entries(tmp_path / "healed.json") == []


def test_it_heals_as_often_as_it_may(tmp_path):
    """One layer overflows, and then another one."""
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", max_heals=1)
    callbacks = [guard, Grows({0: 1e6}), Grows({2: 1e6}, "second")]
    with npu_precision.autocast(dtype="float16"), pytest.raises(TrainingFailed) as raised:
        model_of().fit(IMAGES, DIGITS, batch_size=32, verbose=0, callbacks=callbacks)
    assert str(raised.value).startswith("PrecisionGuard: step 3: ")
    assert in_layer("second").search(str(raised.value))
    assert "it was healed as often as max_heals, 1, allows" in str(raised.value)
    assert guard.heals == 1
    assert all("/large" in entry for entry in entries(tmp_path / "healed.json"))


def test_nothing_changes_where_nothing_goes_wrong(tmp_path):
    plain, guarded = model_of(), model_of()
    losses = fit(plain, None)
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=3)
    np.testing.assert_allclose(fit(guarded, guard), losses, rtol=1e-6)
    for before, after in zip(plain.get_weights(), guarded.get_weights()):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-7)
    assert guard.heals == 0


def test_a_flight_recorder_may_be_open_around_it(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with npu_precision.FlightRecorder(tmp_path / "flight", 1) as recorder:
        losses = fit(model_of(1e6), guard)
    assert np.isfinite(losses).all()
    assert "recorded" in recorder.summary()


def test_large_inputs_have_states_saved_more_often(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", memory=3 * 32 * (16 * 4 + 8))
    fit(model_of(), guard, epochs=1)
    assert guard._healer._snapshot_every == 3


def test_a_file_that_no_guard_wrote_is_refused(tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(FileExistsError, match="mine.json' exists, and no PrecisionGuard wrote it"):
        npu_precision.PrecisionGuard(tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mixlist": 3}, "mixlist: got 3 (int), expected str or os.PathLike"),
        ({"snapshot_every": 0}, "snapshot_every: got 0"),
        ({"max_heals": -1}, "max_heals: got -1"),
        ({"band": 3}, "band: got 3 (int), expected the lowest and the highest loss"),
        ({"band": (2, 1)}, "band: got (2, 1) (tuple)"),
    ],
)
def test_wrong_arguments_are_errors(arguments, message, tmp_path):
    with pytest.raises(ValueError) as raised:
        npu_precision.PrecisionGuard(**{"mixlist": tmp_path / "healed.json", **arguments})
    assert message in str(raised.value)


def test_a_loss_is_for_sessions(tmp_path):
    with pytest.raises(ValueError, match="PrecisionGuard: loss is for sessions"):
        fit(model_of(), npu_precision.PrecisionGuard(tmp_path / "healed.json", loss="loss:0"))


@needs_keras_2
def test_keras_own_mixed_precision_is_refused(tmp_path):
    """With Keras' policy, no float32 run could be compared."""
    model = tf.keras.Sequential([layers.Dense(4, dtype="mixed_float16")])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="mixed_float16, Keras' own mixed precision, is in the"):
        model.fit(
            IMAGES,
            IMAGES[:, :4],
            callbacks=[npu_precision.PrecisionGuard(tmp_path / "healed.json")],
        )


def test_a_file_of_a_guard_that_is_damaged_stays_as_it_is(tmp_path):
    path = tmp_path / "healed.json"
    npu_precision.PrecisionGuard(path)
    damaged = path.read_text().replace("}", "", 1)
    path.write_text(damaged)
    with pytest.raises(ValueError, match="healed.json"):
        npu_precision.PrecisionGuard(path)
    assert path.read_text() == damaged


def test_a_model_that_xla_compiles_is_healed_and_stays_compiled(tmp_path, caplog):
    def compiled():
        model = model_of(1e6)
        model.compile(model.optimizer, model.loss, jit_compile=True)
        return model

    assert not np.isfinite(fit(compiled(), None)).all()
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with caplog.at_level(logging.WARNING):
        healed = fit(compiled(), guard)
    np.testing.assert_allclose(healed, fit(compiled(), None, dtype=None), rtol=2e-3)
    assert guard.heals == 1
    (message,) = warnings_of(caplog)
    assert in_layer("large").search(message)
    assert all("large" in entry for entry in entries(tmp_path / "healed.json"))


def test_a_mode_that_leaves_out_what_xla_compiles_runs_without_it_and_that_is_said(
    tmp_path, caplog
):
    model = model_of()
    model.compile(model.optimizer, model.loss, jit_compile=True)
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with caplog.at_level(logging.WARNING), npu_precision.autocast(
        dtype="float16", lower_compiled=False
    ):
        model.fit(IMAGES[:64], DIGITS[:64], batch_size=32, verbose=0, callbacks=[guard])
    assert "its steps run without XLA" in warnings_of(caplog)[0]


def test_a_model_that_runs_eagerly_is_refused(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with pytest.raises(ValueError, match="the model runs eagerly"):
        fit(model_of(run_eagerly=True), guard)

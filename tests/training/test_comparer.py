"""npu-precision compare --training and tune --training."""

from __future__ import annotations

import csv
import importlib
import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

from npu_precision.cli.main import main
from npu_precision.training import compared, curves, program
from npu_precision.training.curves import Curves

pytestmark = needs_functions_by_default

TRAININGS = '''
import os

import numpy as np
import tensorflow as tf

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(size=[256, 16]).astype(np.float32)
DIGITS = np.argmax(IMAGES[:, :4], 1)
layers = tf.keras.layers
calls = []


class Large(layers.Layer):
    """The identity, by way of values that float16 does not have."""

    def build(self, shape):
        size = tf.keras.initializers.Constant(1e6)
        self.large = self.add_weight(name="large", shape=(), initializer=size, trainable=False)
        self.identity = self.add_weight(
            name="identity", shape=(8, 8), initializer="identity", trainable=False
        )

    def call(self, x):
        return tf.matmul(x * self.large, self.identity, name="product") / self.large


def batches(seed):
    order = np.random.default_rng(seed).permutation(256)
    return tf.data.Dataset.from_tensor_slices((IMAGES[order], DIGITS[order])).batch(32)


def model_of(*between):
    model = tf.keras.Sequential(
        [layers.Dense(8, "relu", name="hidden"), *between, layers.Dense(4, name="digits")],
        name="model",
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), loss, jit_compile=False)
    return model


def usual(seed):
    calls.append(seed)
    return model_of(), batches(seed)


def large(seed):
    return model_of(Large(name="large")), batches(seed)


def by_hand(seed):
    return by_hand_of(tf.Variable(tf.random.normal([16, 4]) / 4, name="weight"), seed)


def by_hand_of(weight, seed):
    @tf.function
    def step(x, labels):
        with tf.GradientTape() as tape:
            logits = tf.matmul(x, weight)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(loss)
        gradient = tape.gradient(loss, weight)
        weight.assign_sub(0.1 * gradient)
        return loss, [gradient]

    return step, [weight], batches(seed)


def other_batches(seed):
    return model_of(), batches(int.from_bytes(os.urandom(4), "little"))


def other_weights(seed):
    model, data = usual(seed)
    model.build([None, 16])
    kernel = np.random.default_rng().normal(size=[16, 8])
    model.layers[0].kernel.assign(kernel.astype(np.float32))
    return model, data


def same_for_each_seed():
    return by_hand_of(tf.Variable(tf.ones([16, 4]), name="weight"), 0)


def two_of_one_name(seed):
    step, (weight,), data = by_hand(seed)
    return step, [weight, tf.Variable(1.0, name="weight")], data


def nothing(seed):
    pass


def no_model(seed):
    return 3, batches(seed)


def no_batches(seed):
    return by_hand(seed)[0], [], []


def no_batches_for_a_model(seed):
    return model_of(), []


def nothing_for_a_model(seed):
    return model_of(), None


def too_few_batches(seed):
    return model_of(), iter(list(batches(seed)))


def wrong_batches(seed):
    return by_hand(seed)[0], [], [(np.ones([3, 5], np.float32), DIGITS[:3])]


def not_finite(seed):
    step, weights, data = by_hand(seed)
    return (lambda *batch: step(*batch)[0] * np.nan), weights, data


def weight_not_finite(seed):
    step, weights, data = by_hand(seed)
    gradients = [tf.zeros([16, 4]), tf.zeros([])]
    lost = tf.Variable(np.inf, name="lost")
    return (lambda *batch: (step(*batch)[0], gradients)), [*weights, lost], data


def no_loss(seed):
    step, weights, data = by_hand(seed)
    return (lambda *batch: None), weights, data


def loss_per_example(seed):
    step, weights, data = by_hand(seed)
    return (lambda *batch: tf.ones([32])), weights, data


def too_few_gradients(seed):
    step, weights, data = by_hand(seed)
    return step, [*weights, tf.Variable(1.0, name="lost")], data


def fails_within(seed):
    model, _ = usual(seed)
    return model, [(np.ones([3, 16], np.float32), np.ones([7], np.int64))]


def fails_in_a_layer(seed):
    model, data = usual(seed)
    model.build([None, 16])
    return model, [(np.ones([3, 5], np.float32), DIGITS[:3])]


def eager(seed):
    step, weights, data = by_hand(seed)
    return step.python_function, weights, data


def fails(seed):
    raise KeyError("lost")
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The trainings above, in a module that no other code has imported."""
    (tmp_path / "trainings.py").write_text(TRAININGS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "trainings", raising=False)
    return tmp_path


@pytest.fixture
def keras_generator():
    """The state after a program's own set_random_seed: Keras draws from its own generator."""
    if not hasattr(tf.keras.utils, "set_random_seed"):
        pytest.skip("TensorFlow 1.15 has no such generator")
    tf.keras.utils.set_random_seed(5)


def run(training, *more, command="compare", mode="allow_mix_precision", steps=30):
    return main(
        [
            *(command, "--training", f"trainings:{training}"),
            *("--mode", mode, "--steps", str(steps), *more),
        ]
    )


def data_of(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
@pytest.mark.parametrize("training", ["usual", "by_hand"])
def test_what_a_mode_rounds_is_less_than_what_another_seed_makes(training, mode, module, capsys):
    assert run(training, "--json", mode=mode) == 0
    data = data_of(capsys)
    assert data["within"]
    assert 0 < data["ratio"] < 1
    losses = data["losses"]
    assert losses["float32"] != losses["mode"]
    np.testing.assert_allclose(losses["float32"], losses["mode"], rtol=0.1)
    assert losses["float32"][-1] < 0.8 * losses["float32"][0]
    assert all(0 < row["ratio"] < 1 for row in data["variables"])
    assert all(0 < row["distance"] < 0.3 for row in data["variables"])


def test_keras_own_generator_of_initial_values_is_seeded_too(module, keras_generator):
    assert run("usual") == 0


def test_gradients_have_the_op_that_they_belong_to(module, capsys):
    run("usual", "--json")
    ops = {row["name"].split("/")[-2:][0]: row["op"] for row in data_of(capsys)["variables"]}
    assert set(ops) == {"hidden", "digits"}
    # Keras 3 builds the model once before.
    assert all(re.search(rf"/{name}(_1)?/", op) for name, op in ops.items())


def test_a_loss_that_is_nan_in_the_mode_alone_is_said_first(module, capsys):
    assert run("large") == 0
    printed = capsys.readouterr().out
    assert "the loss is not finite from step 0 on; in float32 it is finite" in printed
    assert "4 of 4 gradients leave what other seeds make of theirs, first that of" in printed


def test_both_begin_with_the_same_weights_and_get_the_same_batches(module):
    import trainings

    exact = curves.run("usual", trainings.usual, None, 1, 4)
    again = curves.run("usual", trainings.usual, None, 2, 4, exact.first)
    for one, other in zip(exact.first, again.first):
        np.testing.assert_array_equal(one, other)
    assert (exact.batches != again.batches).any()
    assert curves.first_difference(exact, curves.run("usual", trainings.usual, None, 1, 4)) == ""


def test_the_files_have_the_curves(module, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    files = [tmp_path / name for name in ("curves.csv", "curves.png", "page.html")]
    assert run("usual", "--csv", str(files[0]), "--plot", str(files[1]), "-o", str(files[2])) == 0
    rows = list(csv.DictReader(files[0].open()))
    assert len(rows) == 30
    assert [int(row["step"]) for row in rows] == list(range(30))
    assert {"loss_float32", "loss_mode", "difference", "yardstick"} < set(rows[0])
    assert sum(name.startswith("norm_mode ") for name in rows[0]) == 4
    assert files[1].read_bytes().startswith(b"\x89PNG")
    text = files[2].read_text(encoding="utf-8")
    page = json.loads(text.partition('id="report-data">')[2].partition("</script>")[0])
    losses = page["sections"][0]["charts"][0]["series"][0]["y"]
    np.testing.assert_allclose(losses, [float(row["loss_float32"]) for row in rows])


def test_runs_that_are_in_the_state_are_not_made_again(module, tmp_path, capsys):
    import trainings

    state = ("--state", str(tmp_path / "state"), "--json")
    assert run("usual", *state) == 0
    first, made = data_of(capsys), len(trainings.calls)
    assert made == 5  # float32, again, two other seeds, the mode.
    assert run("usual", *state) == 0
    assert len(trainings.calls) == made
    assert data_of(capsys) == first
    assert run("usual", *state, mode="allow_mix_precision_bf16") == 0
    assert len(trainings.calls) == made + 1
    capsys.readouterr()
    assert run("usual", *state, steps=20) == 2
    assert "is about another --steps; expected a new folder" in capsys.readouterr().err


def test_a_damaged_state_is_an_error(module, tmp_path, capsys):
    state = tmp_path / "state"
    assert run("usual", "--state", str(state)) == 0
    for file in state.glob("*.npz"):
        file.write_bytes(b"damaged")
    assert run("usual", "--state", str(state)) == 2
    assert "is no run of a training" in capsys.readouterr().err


def test_what_no_mode_reaches_is_said(module, capsys):
    assert run("eager") == 0
    assert "nothing differs to the bit: no op of a step is lowered" in capsys.readouterr().out


def test_variables_of_one_name_are_told_apart(module):
    function = importlib.import_module("trainings").two_of_one_name
    assert program.build("trainings:two", function, 1).names == ["weight (1)", "weight (2)"]


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ("nothing", "trainings:nothing returned None (NoneType), expected (model, batches)"),
        ("no_model", "trainings:no_model returned 3 (int) as its first, expected (model, batch"),
        ("no_batches", "trainings:no_batches: its batches end after 0, and cannot be read again"),
        ("no_batches_for_a_model", "trainings:no_batches_for_a_model: its batches are empty"),
        ("nothing_for_a_model", "returned None (NoneType) as its batches, expected (model, batch"),
        ("too_few_batches", "its batches end after 8, and cannot be read again; expected more, or"),
        ("no_loss", "its step returned None (NoneType) as the loss, expected one number"),
        ("loss_per_example", "as the loss, expected one number"),
        ("too_few_gradients", "it returned 1 gradients of 2 variables: weight, lost"),
        ("fails_within", "its step raised ValueError with a batch of (3, 16), (7,): "),
        (
            "fails_in_a_layer",
            "expected axis -1 of input shape to have value 16, but received input",
        ),
        ("wrong_batches", "its step raised ValueError with a batch of (3, 5), (3,): "),
        ("not_finite", "goes wrong in float32 itself: the loss of step 0, nan, is not finite; Pre"),
        ("weight_not_finite", "goes wrong in float32 itself: lost after the last step, is not fi"),
        ("fails", "trainings:fails raised KeyError: 'lost'"),
        ("lost", "module 'trainings' has no function 'lost'"),
        ("same_for_each_seed", "trainings:same_for_each_seed makes nothing of its seed: float32 w"),
        ("other_batches", "two runs in float32 with the same seed differ first in the batch of st"),
        ("other_weights", "with the same seed differ first in the initial value of"),
    ],
)
def test_what_cannot_be_compared_is_refused(training, message, module, capsys):
    assert run(training) == 2
    assert message in capsys.readouterr().err


def test_tune_keeps_what_overflows_and_little_else(module, tmp_path, capsys):
    file = tmp_path / "found.json"
    assert run("large", "--json", "-o", str(file), command="tune") == 0
    found = data_of(capsys)
    assert found["complete"]
    assert set(found["kept"]) == {"model/large/mul", "model/large/product"} or (
        all("large" in name for name in found["kept"])
    )
    assert found["lowered"] > len(found["kept"])
    assert run("large", "--mixlist", str(file), "--json") == 0
    assert data_of(capsys)["within"]


def test_tune_keeps_nothing_where_nothing_has_to_be_kept(module, tmp_path, capsys):
    file = tmp_path / "found.json"
    assert run("usual", "-o", str(file), command="tune") == 0
    assert "kept 0 of" in capsys.readouterr().out
    assert json.loads(file.read_text()) == {"black-list": {"to-add": []}}


def test_a_mode_without_lists_cannot_be_tuned(module, tmp_path, capsys):
    assert run("usual", "-o", str(tmp_path / "x.json"), command="tune", mode="force_fp16") == 2
    assert "does not use the lists that a mixlist edits" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def curves_of(losses, norms=None):
    losses = np.asarray(losses, float)
    norms = np.zeros([len(losses), 0]) if norms is None else np.asarray(norms, float)
    return Curves(losses, norms, np.zeros(len(losses), np.int64), [], [], [], [])


def test_noise_is_not_taken_for_loss_of_precision():
    """A distance is noise if seeds differ as much, and otherwise a loss of precision."""
    random = np.random.default_rng(1)
    falling = np.exp(-np.arange(100) / 30)

    def noisy(size):
        return curves_of(falling + size * random.normal(size=100))

    exact = noisy(0.1)
    mode = curves_of(exact.losses + 0.02)
    assert compared.compare(exact, mode, [noisy(0.1), noisy(0.1)]).is_within
    quiet = [curves_of(exact.losses + shift) for shift in (0.001, 0.002)]
    beyond = compared.compare(exact, mode, quiet)
    assert beyond.first_step == 0
    assert beyond.ratio > 5


def test_the_step_is_named_from_which_the_curve_leaves():
    exact = curves_of(np.linspace(1, 0.5, 100))
    others = [curves_of(exact.losses + shift) for shift in (0.01, -0.01)]
    mode = curves_of(exact.losses + np.where(np.arange(100) < 60, 0.0, 0.5))
    found = compared.compare(exact, mode, others)
    assert 55 <= found.first_step <= 60
    # A difference in a single step is noise.
    alone = curves_of(exact.losses + np.where(np.arange(100) == 60, 0.5, 0.0))
    assert compared.compare(exact, alone, others).is_within


def test_a_loss_that_is_not_finite_is_never_within():
    exact = curves_of(np.ones(30))
    others = [curves_of(np.zeros(30))]
    mode = curves_of(np.where(np.arange(30) == 7, np.nan, 1.0))
    found = compared.compare(exact, mode, others)
    assert found.first_bad == 7
    assert not found.is_within

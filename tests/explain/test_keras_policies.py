"""explain --for keras: a mode's decisions as Keras' own policies, a layer each."""

from __future__ import annotations

import collections
import importlib
import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_keras_3

import npu_precision
from npu_precision.explain import keras_policies

pytestmark = needs_keras_3
keras = tf.keras
DIGITS = range(10)
BF16 = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision_bf16")
APPLICATIONS = {
    "ResNet50": 64,
    "MobileNetV2": 64,
    "MobileNetV3Small": 64,
    "EfficientNetB0": 64,
    "DenseNet121": 64,
    "ResNet50V2": 64,
    "Xception": 96,
    "InceptionV3": 96,
    "NASNetMobile": 64,
    "ConvNeXtTiny": 64,
}
SHORT = ("MobileNetV2", "DenseNet121")
# These scale pixels of 0 to 255 themselves.
OF_PIXELS = ("MobileNetV3Small", "EfficientNetB0", "ConvNeXtTiny")


def classifier():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    image = keras.Input([8, 8, 4], name="image")
    x = layers.Conv2D(16, 3, padding="same", name="filters")(image)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    x = keras.Sequential([layers.Dense(16, "relu", name="hidden")], name="inner")(x)
    x = layers.Dropout(0.5, name="drop")(x)
    x = layers.Activation("exponential", name="grow")(x)
    x = layers.Dropout(0.5, name="late")(x)
    return keras.Model(image, layers.Dense(4, name="digits")(x), name="classifier")


def of(policies):
    return {path: policy.name for path, policy in policies.items()}


def test_a_layer_has_the_policy_that_most_of_its_nodes_are_computed_in():
    found = of(keras_policies.of_model(classifier(), BF16))
    low = {layer for layer, name in found.items() if name == "mixed_bfloat16"}
    assert low == {"filters", "inner/hidden", "drop", "digits"}
    kept = {"norm", "pool", "inner", "grow", "late", "classifier"}
    assert {layer for layer in found if "input" not in layer and layer != "image"} == low | kept


def test_a_sequential_model_has_policies_too():
    layers = keras.layers
    stack = [keras.Input([8]), layers.Dense(8, name="low"), layers.Softmax(name="digits")]
    found = of(keras_policies.of_model(keras.Sequential(stack, name="stack"), BF16))
    assert found["stack/low"] == "mixed_bfloat16"
    with pytest.raises(ValueError, match="a model without known inputs"):
        keras_policies.of_model(keras.Sequential([layers.Dense(8)]), BF16)


def test_several_inputs_keep_their_structure():
    layers = keras.layers
    inputs = {"a": keras.Input([8], name="a"), "b": keras.Input([8], name="b")}
    x = layers.Dense(8, name="of_a")(inputs["a"]) - layers.Dense(8, name="of_b")(inputs["b"])
    found = of(keras_policies.of_model(keras.Model(inputs, x), BF16))
    assert found["of_a"] == found["of_b"] == "mixed_bfloat16"


def test_a_mixlist_counts():
    edits = json.dumps({"black-list": {"to-add": ["node:.*/hidden_1/.*"]}})
    options = npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision", mixlist_edits=edits
    )
    found = of(keras_policies.of_model(classifier(), options))
    assert (found["filters"], found["inner/hidden"]) == ("mixed_float16", "float32")


def test_a_mixlist_that_keeps_one_node_of_a_layer_keeps_the_layer():
    edits = json.dumps({"black-list": {"to-add": ["node:.*/hidden_1/Relu"]}})
    options = npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision", mixlist_edits=edits
    )
    found = of(keras_policies.of_model(classifier(), options))
    assert (found["inner/hidden"], found["digits"]) == ("float32", "mixed_float16")


def applied(model, policies):
    for layer in model._flatten_layers():
        layer.dtype_policy = policies[layer.path or layer.name]
    return tf.function(lambda x: model(x, training=False))


def test_the_command_writes_what_keras_alone_loads(command, tmp_path):
    classifier().save(tmp_path / "model.keras")
    flags = ("--mode", "allow_mix_precision_bf16", "--float32-nodes", tmp_path / "policies.json")
    printed = command("explain", tmp_path / "model.keras", *flags, "--for", "keras")
    assert "layers stay float32" in printed
    config = json.loads((tmp_path / "policies.json").read_text())
    policies = importlib.import_module("keras").saving.deserialize_keras_object(config)
    # Loading a model gives some of its layers other paths.
    model = keras.models.load_model(tmp_path / "model.keras")
    layers = {keras_policies.key(layer) for layer in model._flatten_layers()}
    assert {layer for layer in policies if "input" not in layer} <= layers
    assert of(policies)["filters"] == of(policies)["hidden"] == "mixed_bfloat16"
    x = np.random.default_rng(0).normal(size=[4, 8, 8, 4]).astype(np.float32)
    exact = model(x, training=False).numpy()
    low = np.asarray(applied(model, policies)(x), np.float32)
    assert 1e-4 < np.abs(low - exact).max() / np.abs(exact).max() < 0.03


def overflowing(scale):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    image = keras.Input([8, 8, 4], name="image")
    x = layers.Conv2D(8, 3, activation="relu", name="filters")(image)
    x = layers.Flatten(name="flat")(x)
    x = layers.Dense(16, name="large")(x)
    x = layers.Dense(16, activation="relu", name="small")(x)
    model = keras.Model(image, layers.Dense(4, name="digits")(x), name="overflowing")
    for name, factor in (("large", scale), ("small", 1 / scale)):
        kernel, bias = model.get_layer(name).get_weights()
        model.get_layer(name).set_weights([kernel * factor, bias])
    return model


def test_tune_writes_policies_that_keep_its_limit(command, tmp_path):
    overflowing(1e6).save(tmp_path / "model.keras")
    x = np.random.default_rng(0).normal(size=[16, 8, 8, 4]).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=x)
    flags = ("--inputs", tmp_path / "images.npz", "--max-error", 0.01, "-o", tmp_path / "list.json")
    written = ("--float32-nodes", tmp_path / "policies.json", "--for", "keras")
    printed = command("tune", tmp_path / "model.keras", *flags, *written)
    assert "layers stay float32" in printed
    config = json.loads((tmp_path / "policies.json").read_text())
    policies = importlib.import_module("keras").saving.deserialize_keras_object(config)
    model = keras.models.load_model(tmp_path / "model.keras")
    exact = model(x, training=False).numpy()
    low = {layer for layer, name in of(policies).items() if name == "mixed_float16"}
    assert "large" not in low
    assert low >= {"filters", "digits"}
    error = np.abs(np.asarray(applied(model, policies)(x), np.float32) - exact).max()
    assert 0 < error < 0.01 * np.abs(exact).max()
    untuned = npu_precision.PrecisionOptions(precision_mode="allow_mix_precision")
    assert of(keras_policies.of_model(model, untuned))["large"] == "mixed_float16"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mode", "force_fp16"), "expected a mixed mode"),
        (("--mode", "allow_mix_precision", "--fetch", "x"), "fetch"),
    ],
)
def test_what_it_cannot_write_is_an_error(arguments, message, command, tmp_path):
    classifier().save(tmp_path / "model.keras")
    flags = (*arguments, "--float32-nodes", tmp_path / "policies.json", "--for", "keras")
    assert message in command("explain", tmp_path / "model.keras", *flags, status=2)
    assert not (tmp_path / "policies.json").exists()


def test_a_saved_model_has_no_layers(command, tmp_path):
    classifier().export(tmp_path / "exported")
    flags = ("--mode", "allow_mix_precision", "--float32-nodes", tmp_path / "policies.json")
    printed = command("explain", tmp_path / "exported", *flags, "--for", "keras", status=2)
    assert "--for keras: expected a model that Keras saved" in printed


@pytest.fixture
def policies_of_classifier(command, tmp_path):
    """The files of the policies and of the model that they are of."""
    classifier().save(tmp_path / "model.keras")
    flags = ("--mode", "allow_mix_precision_bf16", "--float32-nodes", tmp_path / "policies.json")
    command("explain", tmp_path / "model.keras", *flags, "--for", "keras")
    return tmp_path / "policies.json", tmp_path / "model.keras"


def test_policies_of_the_model_have_nothing_said_of_them(policies_of_classifier, command):
    policies, model = policies_of_classifier
    printed = command("lint", policies, "--model", model)
    assert printed.splitlines() == [
        f"{policies}: read as DTypePolicyMap",
        f"{policies}: nothing to be said",
    ]


def test_policies_of_other_layers_are_an_error(policies_of_classifier, command, tmp_path):
    policies, _ = policies_of_classifier
    overflowing(1.0).save(tmp_path / "other.keras")
    printed = command("lint", policies, "--model", tmp_path / "other.keras", status=1)
    assert f"'hidden' matches no layer of '{tmp_path / 'other.keras'}'" in printed
    assert "'filters'" not in printed
    assert (
        "4 layers, such as 'overflowing', have no policy in it: float32 [default-policy]" in printed
    )


def test_an_entry_may_be_an_expression(policies_of_classifier, command):
    policies, model = policies_of_classifier
    content = json.loads(policies.read_text())
    low = content["config"]["policy_map"]["digits"]
    names = ("inner/.*|hidden", "filt(", "digit")
    content["config"]["policy_map"] = dict.fromkeys(names, low)
    policies.write_text(json.dumps(content))
    printed = command("lint", policies, "--model", model, status=1)
    assert "'filt(' matches no layer" in printed
    assert "'digit' matches no layer" in printed
    assert "did you mean 'digits'?" in printed
    assert "inner" not in printed


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "is a DTypePolicyMap: expected --model, and no --fix"),
        (
            ("--model", "model.keras", "--fix"),
            "is a DTypePolicyMap: expected --model, and no --fix",
        ),
    ],
)
def test_policies_need_a_model(flags, message, policies_of_classifier, command):
    assert message in command("lint", policies_of_classifier[0], *flags, status=2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace('"policy_map": {', '"policy_mapp": {'), "has no 'policy_map'"),
        (lambda text: text[: len(text) // 2], "line "),
    ],
)
def test_a_damaged_map_is_one_error(damage, message, policies_of_classifier, command):
    policies, model = policies_of_classifier
    policies.write_text(damage(policies.read_text()))
    printed = command("lint", policies, "--model", model, status=2)
    assert f"{str(policies)!r}: Keras cannot read it" in printed
    assert message in printed
    assert printed.count("\n") == 1


def test_layers_of_one_path_share_an_entry(command, tmp_path):
    layers = keras.layers
    image = keras.Input([8])
    inner = keras.Sequential([keras.Input([8]), layers.Dense(8, name="same")], name="inner")
    keras.Model(image, layers.Dense(8, name="same")(inner(image))).save(tmp_path / "model.keras")
    flags = ("--mode", "allow_mix_precision_bf16", "--float32-nodes", tmp_path / "policies.json")
    printed = command("explain", tmp_path / "model.keras", *flags, "--for", "keras")
    assert "; 1 more share the entry of a layer with the same path" in printed


LAYERS = """
import keras


@keras.saving.register_keras_serializable()
class Scale(keras.layers.Layer):
    def call(self, x):
        return 2 * x
"""
SAVES_A_MODEL = """
import keras
import own_layers

image = keras.Input([8])
x = keras.layers.Dense(8)(own_layers.Scale(name="scale")(image))
keras.Model(image, x).save("model.keras")
"""
CALLS_THE_COMMAND = "import own_layers, npu_precision_command; npu_precision_command.main()"


def test_layers_of_ones_own_are_imported_first(command, run_python, tmp_path):
    (tmp_path / "own_layers.py").write_text(LAYERS)
    run_python(SAVES_A_MODEL)
    model, policies = tmp_path / "model.keras", tmp_path / "policies.json"
    flags = ("--mode", "allow_mix_precision_bf16", "--float32-nodes", policies, "--for", "keras")
    printed = command("explain", model, *flags, status=2)
    assert "python -c 'import MODULE, npu_precision_command; " in printed
    written = run_python(CALLS_THE_COMMAND, "explain", model, *flags)
    assert "layers stay float32" in written.stdout
    printed = command("lint", policies, "--model", model, status=2)
    assert f"Keras cannot load {str(model)!r}: TypeError: " in printed
    assert printed.count("\n") == 1


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def norms_of(model):
    return [each for each in model._flatten_layers() if hasattr(each, "moving_variance")]


def calibrate(model, x):
    """Gives batch norms the statistics of x, so that values keep their size."""
    for norm in norms_of(model):
        norm.momentum = 0.0
    model(x, training=True)


def application(name):
    keras.utils.set_random_seed(0)
    size = APPLICATIONS[name]
    return getattr(keras.applications, name)(
        weights=None, input_shape=(size, size, 3), classes=len(DIGITS)
    )


def three_ways(model, x):
    """What the model computes in float32, in the mode, and by the policies of the mode."""
    policies = keras_policies.of_model(model, BF16)
    assert "mixed_bfloat16" in of(policies).values()
    function = tf.function(lambda x: model(x, training=False))
    with npu_precision.autocast(BF16):
        ours = function(x).numpy()
    exact = function(x).numpy()
    return exact, ours, np.asarray(applied(model, policies)(x), np.float32)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in SHORT else pytest.mark.full) for name in APPLICATIONS],
)
def test_layers_of_an_application_have_the_policy_of_most_of_their_nodes(name):
    model = application(name)
    policies = of(keras_policies.of_model(model, BF16))
    spec = tf.TensorSpec([None, *model.input_shape[1:]])
    traced = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec)
    graph_def, fetches = traced.graph.as_graph_def(), [traced.outputs[0].op.name]
    _, ledger = npu_precision.rewrite_graph_def(graph_def, fetches, options=BF16)
    # What does not depend on the images, such as the scale of a norm, has no batch.
    of_images = {
        op.name
        for op in traced.graph.get_operations()
        if op.outputs and op.outputs[0].shape[:1] == [None]
    }
    votes = collections.defaultdict(collections.Counter)
    for node in ledger.nodes:
        if node.name in of_images and node.role in ("", "computes"):
            _, layer, *_ = [*node.name.split("/"), ""]
            votes[layer][node.decision == "lowered"] += 1
    wanted = {}
    for layer in model.layers:
        count = votes.get(f"{layer.name}_1", {})  # its second call
        if count and not isinstance(layer, keras.Model):
            wanted[layer.path or layer.name] = count[True] > count[False]
    assert len(wanted) > len(model.layers) / 2
    found = {layer: policies[layer] == "mixed_bfloat16" for layer in wanted}
    assert found == wanted


@pytest.mark.parametrize("name", SHORT)
def test_an_application_is_as_exact_as_in_the_mode(name):
    model = application(name)
    x = np.random.default_rng(0).random([8, *model.input_shape[1:]]).astype(np.float32)
    calibrate(model, x)
    exact, ours, theirs = three_ways(model, x)
    assert exact.std() > 1e-2  # Its probabilities differ.
    # Weights that were not trained make much of any rounding.
    assert np.abs(theirs - exact).max() < 2 * np.abs(ours - exact).max() + 1e-2


def train_on_patterns(model, largest):
    """Trains it to tell ten patterns in noise; returns sixteen more images and their labels."""
    random = np.random.default_rng(0)
    size = model.input_shape[1]
    patterns = random.random([len(DIGITS), 8, 8, 3]).repeat(size // 8, 1).repeat(size // 8, 2)
    labels = np.arange(80) % len(DIGITS)

    def images():
        noise = random.normal(size=[len(labels), size, size, 3])
        return ((patterns[labels] + 0.1 * noise) * largest).astype(np.float32)

    for norm in norms_of(model):
        norm.momentum = 0.8  # So few steps do not move statistics of momentum 0.99.
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    for _ in range(25):
        model.fit(images(), labels, batch_size=40, verbose=0)
    return images()[:16], labels[:16]


@pytest.mark.full  # It trains for one to five minutes.
@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_trained_application_computes_what_it_computes_in_the_mode(name):
    model = application(name)
    x, labels = train_on_patterns(model, 255 if name in OF_PIXELS else 1)
    exact, ours, theirs = three_ways(model, x)
    assert (exact.argmax(-1) == labels).all()
    assert np.abs(theirs - ours).max() < 1e-2
    # A softmax that is sure hides what its inputs lost; their differences are in its logarithm.
    ours, theirs = (np.log(np.maximum(each, 1e-30)) for each in (ours, theirs))
    assert 0 < rms(theirs - ours) < 0.08 * rms(ours)

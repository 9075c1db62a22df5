"""A DTypePolicyMap that explain wrote, in Keras on JAX and PyTorch, without TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from support.packages import skip_without
from support.tf_versions import needs_keras_3

import npu_precision

pytestmark = needs_keras_3
MODE = "allow_mix_precision_bf16"
# What a user of Keras writes; see docs/hand-offs.md.
SCRIPT = """
import json
import sys

import keras
import numpy as np

model = keras.saving.load_model("model.keras", compile=False)
x = np.load("x.npy")
np.save("exact.npy", keras.ops.convert_to_numpy(model(x, training=False)))
policies = keras.saving.deserialize_keras_object(json.load(open("policies.json")))
for layer in model._flatten_layers():
    layer.dtype_policy = policies[layer.path or layer.name]
dtypes = {}
for layer in model._flatten_layers():
    def noted(*args, _layer=layer, _call=layer.call, **kwargs):
        result = _call(*args, **kwargs)
        for each in keras.tree.flatten(result):
            dtypes.setdefault(_layer.name, str(keras.backend.standardize_dtype(each.dtype)))
        return result
    if not isinstance(layer, keras.Model):
        layer.call = noted
low = keras.ops.cast(model(x, training=False), "float32")
np.save("low.npy", keras.ops.convert_to_numpy(low))
print(json.dumps([keras.backend.backend(), "tensorflow" in sys.modules, dtypes]))
"""


def mlp():
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input([32], name="features"),
            layers.Dense(64, activation="gelu", name="hidden"),
            layers.LayerNormalization(name="norm"),
            layers.Activation("exponential", name="grow"),
            layers.Dense(10, activation="softmax", name="digits"),
        ]
    )


def application(name, size):
    def make():
        shape = (size, size, 3)
        return getattr(tf.keras.applications, name)(weights=None, input_shape=shape, classes=10)

    return make


MODELS = {
    "mlp": mlp,
    "MobileNetV2": application("MobileNetV2", 64),
    **{
        name: pytest.param(application(name, size), marks=pytest.mark.full)
        for name, size in [
            ("ResNet50", 64),
            ("MobileNetV3Small", 64),
            ("EfficientNetB0", 64),
            ("DenseNet121", 64),
            ("ResNet50V2", 64),
            ("Xception", 96),
            ("InceptionV3", 96),
            ("NASNetMobile", 64),
            ("ConvNeXtTiny", 64),
        ]
    },
}


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_keras_computes_in_the_dtypes_that_were_decided(make, backend, command, tmp_path):
    skip_without((backend,), "backends")
    tf.keras.utils.set_random_seed(0)
    model = make()
    x = np.random.default_rng(0).random([8, *model.input_shape[1:]]).astype(np.float32)
    # Gives batch norms the statistics of x, so that values keep their size.
    for layer in model._flatten_layers():
        if hasattr(layer, "moving_variance"):
            layer.momentum = 0.0
    model(x, training=True)
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "x.npy", x)
    flags = ("--mode", MODE, "--float32-nodes", tmp_path / "policies.json", "--for", "keras")
    command("explain", tmp_path / "model.keras", *flags)
    with npu_precision.autocast(precision_mode=MODE):
        ours = tf.function(lambda x: model(x, training=False))(x).numpy()

    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    used, has_tensorflow, dtypes = json.loads(process.stdout.splitlines()[-1])
    assert (used, has_tensorflow) == (backend, False)
    policies = json.loads((tmp_path / "policies.json").read_text())["config"]["policy_map"]
    computed = {name.rpartition("/")[2]: each for name, each in policies.items()}
    for name, dtype in dtypes.items():
        low = "bfloat16" in json.dumps(computed[name])
        assert dtype == ("bfloat16" if low else "float32"), name
    assert "bfloat16" in dtypes.values()
    exact, low = np.load(tmp_path / "exact.npy"), np.load(tmp_path / "low.npy")
    error = np.abs(low - exact).max()
    # Weights that were not trained make much of any rounding.
    assert 0 < error < 2 * np.abs(ours - model(x, training=False).numpy()).max() + 1e-2

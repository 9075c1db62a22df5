"""Keras models whose steps XLA compiles: fit, evaluate and predict are lowered in a mode."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_compiled_functions, needs_keras_3, needs_logical_devices
from support.tiers import mostly_full

import npu_precision
from npu_precision.ledger import Ledger

pytestmark = needs_compiled_functions
layers = tf.keras.layers
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=[64, 8, 8, 3]).astype(np.float32)
Y = RANDOM.integers(0, 10, 64)


def compiled_model(**options):
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            layers.Input((8, 8, 3)),
            layers.Conv2D(8, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(32, activation="gelu"),
            layers.LayerNormalization(),
            layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"jit_compile": True, **options}
    model.compile(tf.keras.optimizers.Adam(1e-3), loss, **options)
    return model


def trained(**options):
    """The losses of fit(), the loss of evaluate(), and the outputs of predict()."""
    model = compiled_model(**options)
    losses = model.fit(X, Y, batch_size=16, epochs=3, shuffle=False, verbose=0).history["loss"]
    return losses, model.evaluate(X, Y, verbose=0), model.predict(X, verbose=0)


@pytest.mark.parametrize("steps", mostly_full([1, 2], [1]))
def test_losses_are_close_to_those_of_float32_and_every_step_is_lowered(steps, tmp_path):
    exact = trained(steps_per_execution=steps)
    npu_precision.enable(precision_mode="allow_mix_precision_bf16", report_dir=str(tmp_path))
    lowered = trained(steps_per_execution=steps)
    npu_precision.disable()
    for want, got in zip(exact, lowered):
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
        assert np.abs(np.subtract(want, got)).max() > 0
    ledgers = [Ledger.from_json(file.read_text()) for file in tmp_path.glob("*.json")]
    compiled = [each for each in ledgers if each.compiled and each.totals["products"]]
    # Three products, in training with two gradients each, but one of the first.
    assert {each.totals["products"] for each in compiled} == {3, 8}
    assert all(each.totals["products_changed"] == each.totals["products"] for each in compiled)
    again = trained(steps_per_execution=steps)
    for want, got in zip(exact, again):
        np.testing.assert_array_equal(got, want)


@needs_keras_3
@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", None])
def test_what_keras_compiles_by_itself_is_lowered_where_the_options_say_so(
    mode, monkeypatch, tmp_path
):
    """As on a machine with a GPU, where compile() chooses XLA."""
    gpu = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
    with monkeypatch.context() as patch:
        patch.setattr(tf.config, "list_physical_devices", lambda *_: [gpu])
        model = compiled_model(jit_compile="auto")
    assert model.jit_compile is True
    npu_precision.enable(precision_mode=mode, report_dir=str(tmp_path))
    model.fit(X, Y, batch_size=16, verbose=0)
    npu_precision.disable()
    ledgers = [Ledger.from_json(file.read_text()) for file in tmp_path.glob("*.json")]
    products = [each.totals["products_changed"] for each in ledgers if each.compiled]
    # Three products, and two gradients each, but one of the first; XLA on a CPU is not lowered.
    assert max(products, default=0) == (8 if mode else 0)


REPLICAS = """
import sys

import numpy as np
import tensorflow as tf

import npu_precision

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x = tf.constant(np.random.default_rng(1).normal(size=[4, 32]).astype(np.float32))
exact = tf.matmul(x, x, transpose_b=True)


@tf.function(jit_compile=True)
def product(x):
    return tf.matmul(x, x, transpose_b=True)


@tf.function
def step(x):
    return strategy.run(product, args=(x,))


for call in (step, lambda x: strategy.run(product, args=(x,))):
    for scope in (npu_precision.autocast(dtype="bfloat16"), npu_precision.autocast(enabled=False)):
        with scope:
            values = strategy.experimental_local_results(call(x))
        assert len(values) == 2
        print(*(bool(tf.reduce_max(abs(value - exact)) > 1e-3) for value in values))
"""


@needs_logical_devices
def test_replicas_run_lowered_code(run_python):
    printed = run_python(REPLICAS).stdout.splitlines()
    assert printed == ["True True", "False False"] * 2


CLUSTERED = """
import numpy as np
import tensorflow as tf

import npu_precision
from npu_precision.ledger import Ledger

x = tf.constant(np.random.default_rng(1).normal(size=[64, 64]).astype(np.float32))
exact = tf.nn.relu(x @ x) @ x
step = tf.function(lambda x: tf.nn.relu(x @ x) @ x)
with npu_precision.autocast(dtype="bfloat16"):
    print(float(tf.reduce_max(abs(step(x) - exact)) / tf.reduce_max(abs(exact))))
print(float(tf.reduce_max(abs(step(x) - exact)) / tf.reduce_max(abs(exact))))
"""


def test_automatic_clusters_are_made_of_lowered_ops(run_python):
    """XLA chooses its clusters after the optimizer."""
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=1"
    process = run_python(CLUSTERED, TF_XLA_FLAGS=flags)
    assert "Compiled cluster using XLA" in process.stderr
    lowered, float32 = map(float, process.stdout.split())
    assert 1e-4 < lowered < 5e-2
    assert float32 < 1e-6

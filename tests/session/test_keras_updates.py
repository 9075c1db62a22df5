"""The optimizers of Keras, whose updates fused_updates makes one op for each variable."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default, needs_onednn_in_bfloat16
from tensorflow.python.eager import context

import npu_precision

pytestmark = [
    needs_functions_by_default,
    needs_onednn_in_bfloat16,
    pytest.mark.cpu("updates are fused on CPUs alone"),
]
# Grappler gives the first two an Rsqrt, which TensorFlow's kernel computes to two units; and it
# multiplies the two factors of the last one first. The next product in bfloat16 makes more of it.
INEXACT = ("RMSprop", "Adagrad", "SGD, clipped")
keras = tf.keras

OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.01),
    "SGD, momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    "SGD, nesterov": lambda: keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "SGD, clipped": lambda: keras.optimizers.SGD(0.01, global_clipnorm=0.5),
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "Adam, amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "Adam, clipped": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.5),
    "AdamW": lambda: keras.optimizers.AdamW(0.01),
    "Lamb": lambda: keras.optimizers.Lamb(0.01),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.01),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.01),
}


def model():
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.layers.Input([20]),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(4),
        ]
    )


def model_of_words():
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.layers.Input([6], dtype=tf.int32),
            keras.layers.Embedding(50, 24),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(4),
        ]
    )


def train(name, reports, rewrites, of_words=False):
    """The losses, the values of all variables, and how many updates there are."""
    network, optimizer = model_of_words() if of_words else model(), OPTIMIZERS[name]()
    random = np.random.default_rng(0)
    x = tf.constant(random.normal(size=[32, 20]), tf.float32)
    if of_words:  # some words are there several times
        x = tf.constant(random.integers(0, 50, [32, 6]), tf.int32)
    labels = tf.constant(random.integers(0, 4, 32))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(network.trainable_variables)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(labels, network(x, training=True))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables))
        return loss

    options = npu_precision.PrecisionOptions(
        precision_mode="allow_mix_precision_bf16",
        rewrites=rewrites,
        report_dir=str(reports),
        strict=True,
    )
    with npu_precision.autocast(options):
        losses = [float(step()) for _ in range(1 if name in INEXACT else 12)]
    variables = [*network.trainable_variables, *_variables_of(optimizer)]
    entries = [
        entry["by"]
        for path in reports.rglob("*.json")
        for entry in json.loads(path.read_text())["rewrites"]
    ]
    return losses, [each.numpy() for each in variables], entries.count("fused_updates")


def _variables_of(optimizer):
    variables = optimizer.variables
    return variables() if callable(variables) else variables


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_same(name, tmp_path):
    kind = name.partition(",")[0]
    if not hasattr(keras.optimizers, kind):
        pytest.skip(f"the Keras of TensorFlow {tf.__version__} has no {kind}")
    losses, values, fused = train(name, tmp_path / "fused", "all")
    expected, expected_values, none = train(name, tmp_path / "single", "-fused_updates")
    assert none == 0
    assert fused >= len(model().trainable_variables)
    assert losses == expected
    for value, other in zip(values, expected_values):
        if name in INEXACT:
            np.testing.assert_allclose(value, other, rtol=1e-6, atol=1e-7)
        else:
            np.testing.assert_array_equal(value, other)
            assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["SGD", "SGD, momentum", "Adam", "AdamW", "Adagrad"])
def test_training_of_an_embedding_is_the_same(name, tmp_path):
    losses, values, fused = train(name, tmp_path / "fused", "all", of_words=True)
    single = train(name, tmp_path / "single", "-fused_updates", of_words=True)
    expected, expected_values, none = single
    assert (fused > 0, none) == (True, 0)
    assert losses == expected
    for value, other in zip(values, expected_values):
        if name in INEXACT:
            np.testing.assert_allclose(value, other, rtol=1e-6, atol=1e-7)
        else:
            np.testing.assert_array_equal(value, other)


def test_a_table_is_not_copied_by_reads_that_nobody_needs(tmp_path):
    """TensorFlow copies a variable of which an op writes single rows whenever it is read."""
    words = tf.Variable(tf.ones([50, 24]))
    moments = tf.Variable(tf.ones([50, 24]))

    @tf.function
    def step():
        moments.assign_add(-moments * 0.1)
        with tf.name_scope("only_here"):
            rows = tf.IndexedSlices(tf.ones([2, 24]), tf.constant([3, 7]))
            moments.scatter_add(rows)
        words.assign_sub(moments * 0.5 / (tf.sqrt(moments) + 1e-7))
        return tf.reduce_sum(words)

    context.enable_graph_collection()
    with npu_precision.autocast(precision_mode="allow_mix_precision_bf16"):
        total = step()
    graphs = context.export_run_metadata().partition_graphs
    context.disable_graph_collection()
    # They are those of all functions of this process.
    (graph,) = (each for each in graphs if any("only_here/" in node.name for node in each.node))
    ops = [node.op for node in graph.node]
    # The last one is of the sum.
    assert (ops.count("NpuPrecisionUpdate"), ops.count("ReadVariableOp")) == (2, 1)
    expected = np.full([50, 24], 0.9, np.float32)
    expected[[3, 7]] += 1
    np.testing.assert_allclose(moments, expected, rtol=1e-6)
    np.testing.assert_allclose(total, (1 - 0.5 * np.sqrt(expected)).sum(), rtol=1e-5)


def test_fit_with_loss_scaling_is_the_same(tmp_path):
    """The updates are in a branch, which is taken if all gradients are finite."""

    def fit(rewrites):
        network = model()
        optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.01))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        network.compile(optimizer, loss, jit_compile=False)
        random = np.random.default_rng(0)
        x = random.normal(size=[64, 20]).astype(np.float32)
        options = npu_precision.PrecisionOptions(
            precision_mode="allow_mix_precision_bf16", rewrites=rewrites, strict=True
        )
        with npu_precision.autocast(options):
            network.fit(x, random.integers(0, 4, 64), batch_size=16, epochs=3, verbose=0)
        return network.get_weights()

    for value, other in zip(fit("all"), fit("-fused_updates")):
        np.testing.assert_array_equal(value, other)

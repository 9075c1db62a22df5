"""What is decided for a GPU moves no tensor out of its memory, or into it, that stayed before.

Loops are left out of the random graphs: what crosses there has another name if a Cast is hoisted.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from support.devices import decided_for
from support.memory_crossings import crossings
from support.random_graphs import random_graph
from support.text_graph import read_graph
from support.tf_versions import needs_fused_optimizers, needs_gpu_kernels
from support.tiers import corpus_settings

import npu_precision

pytestmark = needs_gpu_kernels
MODES = ["allow_mix_precision", "allow_mix_precision_bf16", "force_fp16"]
DEVICES = ["CPU:0", "GPU:0"]


@pytest.mark.parametrize("mode", MODES)
def test_no_tensor_of_a_random_graph_crosses_that_did_not_before(mode):
    @corpus_settings(300)
    @given(seed=st.integers(0, 2**31), size=st.integers(5, 195))
    def check(seed, size):
        graph = random_graph(seed, size)
        with decided_for(DEVICES):
            result, _ = graph.rewrite(npu_precision.PrecisionOptions(precision_mode=mode))
        assert crossings(result) <= crossings(graph.graph_def)

    check()


def training_step(layers, shape):
    """The graph of a training step by Adam, and the nodes that must run."""
    model = tf.keras.Sequential([*layers(tf.keras.layers), tf.keras.layers.Dense(4)])
    model.build([None, *shape])
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, labels):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    concrete = step.get_concrete_function(
        tf.TensorSpec([8, *shape], tf.float32), tf.TensorSpec([8], tf.int32)
    )
    outputs = [concrete.outputs[0].op.name, *(op.name for op in concrete.graph.control_outputs)]
    return concrete.graph.as_graph_def(), outputs


@needs_fused_optimizers
@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        pytest.param(
            lambda of: [
                of.Conv2D(16, 3, use_bias=False),
                of.BatchNormalization(),
                of.ReLU(),
                of.DepthwiseConv2D(3),
                of.LayerNormalization(),
                of.Dropout(0.1),
                of.MaxPooling2D(),
                of.GlobalAveragePooling2D(),
            ],
            (16, 16, 3),
            id="images",
        ),
        pytest.param(
            lambda of: [
                of.Embedding(50, 16),
                of.Bidirectional(of.LSTM(8, return_sequences=True)),
                of.GRU(8),
                of.Dense(8, activation="gelu"),
            ],
            (12,),
            id="sequences",
        ),
    ],
)
def test_no_tensor_of_a_training_step_crosses_that_did_not_before(layers, shape):
    graph, outputs = training_step(layers, shape)
    with decided_for(DEVICES):
        result, ledger = npu_precision.rewrite_graph_def(graph, outputs, precision_mode=MODES[0])
    assert ledger.totals["lowered"] > 0
    before = crossings(graph)
    assert before
    assert crossings(result) <= before


def test_what_crosses_is_found():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        hot = Exp(x)
        warm = Tanh(hot) @ /device:CPU:0
        rows = Shape(hot)
        again = Reshape(warm, rows)
        picked = Const[int32](value=[2, 8])
        end = Reshape(again, picked)
        """
    )
    assert crossings(graph) == {("to host", "hot"), ("to GPU", "warm")}

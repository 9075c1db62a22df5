"""Keras' MultiHeadAttention and Dense: bias and activation run inside their products.

Keras 2 writes the projections as Einsum, Keras 3 as BatchMatMul.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.tf_versions import needs_functions_by_default, needs_kernels, needs_onednn
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import npu_precision

tf1 = tf.compat.v1
pytestmark = [
    needs_functions_by_default,
    needs_onednn,
    needs_kernels("bfloat16", "MatMul", "BiasAdd"),
]
LENGTH, WIDTH = 6, 16


def encoder_block(batch):
    """A frozen block of a Transformer: its GraphDef, the name of its input and of its output."""
    layers = tf.keras.layers
    if not hasattr(layers, "MultiHeadAttention"):
        pytest.skip(f"Keras of TensorFlow {tf.__version__} has no MultiHeadAttention")
    x = tf.keras.Input(batch_shape=(batch, LENGTH, WIDTH))
    attention = layers.MultiHeadAttention(2, 8)(x, x)
    hidden = layers.Dense(24, activation="relu")(layers.Add()([attention, x]))
    model = tf.keras.Model(x, layers.Softmax()(layers.Dense(WIDTH)(hidden)))
    random = np.random.default_rng(0)
    # Zero biases would be folded away.
    model.set_weights([random.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    function = tf.function(lambda x: model(x, training=False)).get_concrete_function(
        tf.TensorSpec([batch, LENGTH, WIDTH], tf.float32)
    )
    frozen = convert_variables_to_constants_v2(function)
    return frozen.graph.as_graph_def(), frozen.inputs[0].name, frozen.outputs[0].name


def fused_ops(nodes):
    return sorted(
        [name.decode() for name in node.attr["fused_ops"].list.s]
        for node in nodes.values()
        if "FusedMatMul" in node.op
    )


@pytest.mark.parametrize("batch", [None, 2])
def test_each_projection_of_a_block_is_fused_with_its_bias(batch, executed_nodes):
    graph_def, fed, fetched = encoder_block(batch)
    x = np.random.default_rng(1).normal(size=(2, LENGTH, WIDTH)).astype("f")
    values, fused = [], []
    low = npu_precision.npu_config_proto(precision_mode="allow_mix_precision_bf16")
    for config in (tf1.ConfigProto(), low):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            with tf1.Session(graph=graph, config=config) as session:
                fused.append(fused_ops(executed_nodes(session, fetched, {fed: x})))
                values.append(session.run(fetched, {fed: x}))
    # Query, key, value, output with the residual sum where its size is known, and two of Dense.
    output = ["BiasAdd"] if batch is None else ["BiasAdd", "Add"]
    assert fused[1] == sorted([*[["BiasAdd"]] * 4, output, ["BiasAdd", "Relu"]])
    assert len(fused[0]) < len(fused[1])
    np.testing.assert_allclose(values[1], values[0], atol=TOLERANCE["bfloat16"])

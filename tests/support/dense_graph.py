"""Fixture: a small graph of TensorFlow 1, for what brings the optimizer to it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

tf1 = tf.compat.v1


@pytest.fixture
def dense_graph():
    """x [4, 8] -> hidden (MatMul), bias, relu -> logits (MatMul) [4, 3] -> probabilities."""
    random = np.random.default_rng(0)

    def weights(name, *shape):
        return tf.constant(random.normal(size=shape).astype(np.float32), name=name)

    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 8], name="x")
        hidden = tf.matmul(x, weights("w1", 8, 16), name="hidden")
        biased = tf.nn.bias_add(hidden, weights("b1", 16), name="bias")
        relu = tf.nn.relu(biased, name="relu")
        logits = tf.matmul(relu, weights("w2", 16, 3), name="logits")
        tf.nn.softmax(logits, name="probabilities")
    return graph.as_graph_def()

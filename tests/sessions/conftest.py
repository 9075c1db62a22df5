"""Fixtures of small programs: a graph, and a product in a tf.function."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.products import X

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


@pytest.fixture(scope="module")
def weights():
    return tf.Variable(np.random.default_rng(0).normal(size=[32, 32]).astype(np.float32))


@pytest.fixture
def product(weights):
    return tf.function(lambda x: tf.matmul(x, weights))


@pytest.fixture
def low_type(weights):
    """The dtype in which the product of X and the weights was computed, found by its error."""
    exact = tf.matmul(X, weights)

    def find(result):
        error = tf.reduce_max(tf.abs(result - exact)).numpy()
        assert result.dtype == tf.float32
        assert error < 0.2
        if error < 1e-5:
            return "float32"
        return "bfloat16" if error > 2e-2 else "float16"

    return find

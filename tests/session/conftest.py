"""A program for what brings the optimizer to it: a product in a tf.function."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.products import X


@pytest.fixture(scope="module")
def weights():
    return tf.Variable(np.random.default_rng(0).normal(size=[32, 32]).astype(np.float32))


@pytest.fixture
def product(weights):
    return tf.function(lambda x: tf.matmul(x, weights))


@pytest.fixture
def low_type(weights):
    """Of the product of X and the weights: the dtype that it was computed in, by its error."""
    exact = tf.matmul(X, weights)

    def find(result):
        error = tf.reduce_max(tf.abs(result - exact)).numpy()
        assert result.dtype == tf.float32
        assert error < 0.2
        if error < 1e-5:
            return "float32"
        return "bfloat16" if error > 2e-2 else "float16"

    return find


@pytest.fixture
def compiled(weights):
    """The product in a function that XLA compiles."""

    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.matmul(x, weights)

    return compiled

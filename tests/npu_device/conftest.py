"""Fixtures for npu_device as a script finds it: with default options and no names installed."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tensorflow as tf

from npu_precision import _no_effect


@pytest.fixture
def npu(monkeypatch):
    """npu_device; a fixture, because TensorFlow 1.15 cannot import it."""
    package = importlib.import_module("npu_precision.npu_device")
    options = importlib.import_module("npu_precision.npu_device.device_options")
    monkeypatch.setattr(package.npu_device, "_options", options.DeviceOptions())
    monkeypatch.setattr(package.npu_device, "_overflow", None)
    monkeypatch.setattr(package.npu_device, "_default", None)
    monkeypatch.setattr(_no_effect, "_named", set())
    return package


@pytest.fixture
def dtype_of_product():
    """A function that returns the dtype to which a matrix product of a tf.function is rounded."""
    random = np.random.default_rng(0)
    x = random.normal(size=[4, 32]).astype(np.float32)
    weights = tf.Variable(random.normal(size=[32, 32]).astype(np.float32))
    exact = x @ weights.numpy()

    def ask():
        product = tf.function(lambda x: tf.matmul(x, weights))(tf.constant(x))
        error = np.abs(product.numpy() - exact).max()
        # The limit for the error of the largest of 128 sums of 32 products: about 30 times the
        # error of one rounding, which is 2**-24, 2**-11 or 2**-8.
        return next(
            name
            for name, bound in (("float32", 1e-5), ("float16", 0.01), ("bfloat16", 0.1))
            if error < bound
        )

    return ask

"""The code that XLA generates for lowered functions: experimental_get_compiler_ir() shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from support.products import X
from support.tf_versions import needs_compiled_functions, needs_compiler_ir

import npu_precision
from npu_precision import autocast

pytestmark = [needs_compiled_functions, needs_compiler_ir]
RANDOM = np.random.default_rng(0)


def results(function, *args, op):
    """The dtypes of what the instructions of this kind yield, in order."""
    text = function.experimental_get_compiler_ir(*args)(stage="hlo")
    return re.findall(rf"= (\w+)\[[\d,]*\]\S* {op}\(", text)


def test_products_are_low_in_a_mode_only(weights):
    inner = tf.function(lambda x: tf.matmul(tf.transpose(x), x))
    step = tf.function(lambda x: inner(tf.nn.relu(tf.matmul(x, weights))), jit_compile=True)
    assert results(step, X, op="dot") == ["f32", "f32"]
    with autocast(dtype="bfloat16"):
        assert results(step, X, op="dot") == ["bf16", "bf16"]
    npu_precision.enable(precision_mode="allow_mix_precision_fp16")
    assert results(step, X, op="dot") == ["f16", "f16"]
    npu_precision.disable()
    assert results(step, X, op="dot") == ["f32", "f32"]


def test_a_scope_in_which_only_code_is_shown_is_not_idle(weights, caplog):
    step = tf.function(lambda x: tf.matmul(x, weights), jit_compile=True)
    with autocast(dtype="bfloat16"):
        assert results(step, X, op="dot") == ["bf16"]
    assert "all in it ran eagerly" not in caplog.text


def test_convolutions_and_their_gradients_are_low():
    image = tf.constant(RANDOM.normal(size=[2, 8, 8, 4]).astype(np.float32))
    kernel = tf.Variable(RANDOM.normal(size=[3, 3, 4, 4]).astype(np.float32))

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.conv2d(tf.nn.conv2d(x, kernel, 1, "SAME"), kernel, 1, "SAME")
            loss = tf.reduce_sum(y**2)
        return tape.gradient(loss, [x, kernel])

    assert set(results(step, image, op="convolution")) == {"f32"}
    with autocast(dtype="bfloat16"):
        assert set(results(step, image, op="convolution")) == {"bf16"}


def test_what_rules_keep_stays_float32():
    """The statistics of a norm, and the exponentials and sum of a softmax."""
    x = tf.constant(RANDOM.normal(size=[4, 32]).astype(np.float32))

    @tf.function(jit_compile=True)
    def step(x):
        y = tf.matmul(x, x, transpose_b=True)
        y -= tf.reduce_mean(y, -1, keepdims=True)
        y *= tf.math.rsqrt(tf.reduce_mean(y**2, -1, keepdims=True) + 1e-6)
        return tf.matmul(tf.exp(y) / tf.reduce_sum(tf.exp(y), -1, keepdims=True), x)

    with autocast(dtype="bfloat16"):
        assert results(step, x, op="dot") == ["bf16", "bf16"]
        for op in ("rsqrt", "exponential", "reduce"):
            assert set(results(step, x, op=op)) == {"f32"}


# By mode: the bits of exponent and mantissa.
ROUNDED = {
    "cube": ({"precision_mode": "cube_fp16in_fp32out"}, "exponent_bits=5, mantissa_bits=10"),
    "fp16": (
        {"precision_mode": "allow_mix_precision_fp16", "emulate": True},
        "exponent_bits=5, mantissa_bits=10",
    ),
    "bf16": (
        {"precision_mode": "allow_mix_precision_bf16", "emulate": True},
        "exponent_bits=8, mantissa_bits=7",
    ),
    "ascend910": (
        {
            "precision_mode": "allow_mix_precision",
            "target": "ascend910",
            "emulate": True,
            "overflow": "inf",
        },
        "exponent_bits=5, mantissa_bits=10",
    ),
}


@pytest.mark.parametrize("mode", ROUNDED)
def test_rounding_is_an_instruction_that_xla_does_not_drop(mode, weights):
    """The values are those of Casts to the last bit, below float16's normal numbers too."""
    options, bits = ROUNDED[mode]

    def product(x):
        return tf.matmul(tf.nn.relu(tf.matmul(x, weights)), weights)

    compiled, plain = tf.function(product, jit_compile=True), tf.function(product)
    for scale in (1.0, 1e-5, 1e3):
        with autocast(**options):
            np.testing.assert_allclose(compiled(X * scale), plain(X * scale), rtol=1e-5)
    with autocast(**options):
        text = compiled.experimental_get_compiler_ir(X)(stage="hlo")
    found = re.findall(r"reduce-precision\(.*?\), (exponent_bits=\d, mantissa_bits=\d+)", text)
    assert found
    assert set(found) == {bits}


def test_saturation_cannot_be_compiled_and_is_an_error(weights):
    step = tf.function(lambda x: tf.matmul(x, weights), jit_compile=True)
    with autocast(precision_mode="allow_mix_precision", target="ascend910", emulate=True):
        with pytest.raises(tf.errors.InvalidArgumentError, match="'saturate', which XLA cannot"):
            step(X)
        with pytest.raises(ValueError, match="'saturate', which XLA cannot"):
            results(step, X, op="dot")

"""The rest of npu_device besides options: overflow, scopes, loops and gelu."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

import npu_precision
from npu_precision import _library

pytestmark = needs_functions_by_default

EMULATED = {"precision_mode": "allow_mix_precision", "target": "ascend910", "emulate": True}


@pytest.fixture(autouse=True)
def _nothing_seen_before():
    _library.take_overflow()
    yield
    _library.take_overflow()


def product_of_300():
    """300 times 300 in a tf.function, which overflows in float16."""
    square = tf.function(lambda x: tf.matmul(x, x))
    return square(tf.constant([[300.0]])).numpy().item()


def set_all(npu, **options):
    for name, value in options.items():
        setattr(npu.global_options(), name, value)


@pytest.mark.parametrize(("mode", "expected"), [(0, 65504.0), (1, math.inf), (None, 65504.0)])
@pytest.mark.parametrize("when", ["before open", "afterwards"])
def test_the_mode_of_overflow_is_that_of_the_emulated_910(npu, mode, expected, when):
    set_all(npu, **EMULATED)
    if mode is not None and when == "before open":
        npu.set_device_sat_mode(mode)
    npu.open().as_default()
    if mode is not None and when == "afterwards":
        npu.npu_device.set_device_sat_mode(mode)
    assert product_of_300() == expected


def test_without_emulation_a_mode_that_saturates_warns(npu, caplog):
    set_all(npu, precision_mode="allow_mix_precision")
    npu.open().as_default()
    npu.set_device_sat_mode(1)
    assert not caplog.messages
    npu.set_device_sat_mode(0)
    (message,) = caplog.messages
    assert message.startswith(
        "npu_device.set_device_sat_mode(0): float16 that overflows becomes an infinity here; set "
        "npu_device.global_options().emulate = True"
    )
    assert product_of_300() == math.inf


def test_a_mode_of_overflow_puts_nothing_in_force_again(npu):
    set_all(npu, **EMULATED)
    npu.open().as_default()
    npu_precision.disable()
    npu.set_device_sat_mode(0)
    assert npu_precision.active_options() is None


@pytest.mark.parametrize("mode", [2, "saturation", None])
def test_another_mode_of_overflow_is_an_error(npu, mode):
    with pytest.raises(ValueError, match=r"expected 0 \(saturation\) or 1 \(INF/NaN\)"):
        npu.set_device_sat_mode(mode)


def test_ops_of_keep_dtype_scope_keep_float32(npu):
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.open().as_default()
    x = tf.constant([[1.0 + 2**-12]])

    @tf.function
    def products(x):
        with npu.keep_dtype_scope():
            kept = tf.matmul(x, x)
        return kept, tf.matmul(x, x)

    kept, lowered = products(x)
    assert kept.numpy().item() == pytest.approx((1 + 2**-12) ** 2, rel=1e-7)
    assert lowered.numpy().item() == 1.0


def test_gelu_is_that_of_the_normal_distribution(npu):
    x = np.linspace(-5, 5, 101).astype(np.float32)
    exact = [each * 0.5 * (1 + math.erf(each / math.sqrt(2))) for each in x.tolist()]
    # The largest error of the approximation by tanh.
    np.testing.assert_allclose(npu.ops.gelu(x), exact, rtol=0, atol=5e-4)


def test_a_loop_makes_the_steps_that_the_script_says(npu, caplog):
    npu.set_npu_loop_size(1)
    assert not caplog.messages
    npu.set_npu_loop_size(32)
    npu.set_npu_loop_size(16)
    assert caplog.messages == ["npu_device: set_npu_loop_size() has no effect on stock TensorFlow"]
    steps = tf.Variable(0)

    @tf.function
    def train(iterator, count):
        for _ in tf.range(count):
            steps.assign_add(next(iterator))

    train(iter(tf.data.Dataset.from_tensors(1).repeat()), tf.constant(5))
    assert steps.numpy() == 5


@pytest.mark.parametrize("size", [0, -1, 2.0, True, None])
def test_another_size_of_a_loop_is_an_error(npu, size):
    with pytest.raises(ValueError, match="expected an integer from 1 on"):
        npu.set_npu_loop_size(size)


def test_options_of_a_run_are_accepted(npu, caplog):
    options = npu.configs.run_context_options()
    options.experimental.graph_memory_optimize_config.recompute = "manual"
    with npu.npu_run_context(options):
        pass
    assert caplog.messages == ["npu_device: npu_run_context() has no effect on stock TensorFlow"]
    with pytest.raises(AttributeError, match="did you mean 'recompute'"):
        options.experimental.graph_memory_optimize_config.recomputed = "auto"

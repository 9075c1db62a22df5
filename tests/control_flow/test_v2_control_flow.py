"""tf.while_loop and tf.cond in a tf.function, with and without gradients.

TensorFlow's tests do not cover these: tf.function called eagerly, While and If bodies, lists across
boundaries. Bodies as graphs are in test_function_bodies.py, sessions in test_control_flow_forms.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.control_flow_programs import PROGRAMS
from support.text_graph import random_values

import npu_precision

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)


@pytest.fixture
def run_lowered(ledgers, tmp_path):
    """Calls a function under autocast; returns its result and the dtypes of all products."""

    def run(function, mode):
        with npu_precision.autocast(precision_mode=mode, report_dir=tmp_path, strict=True):
            result = function()
        products = [
            node.dtypes["T"][1]
            for ledger in ledgers(tmp_path)
            for node in ledger.nodes
            if node.op == "MatMul"
        ]
        return result, products

    return run


def matrices():
    """Positive matrices, so that the branches with the products are taken."""
    return tf.constant(np.abs(random_values("x", [4, 4]))), tf.constant(random_values("w", [4, 4]))


def assert_close(got, want, low):
    error = np.abs(np.array(got) - np.array(want)).max()
    assert 0 < error < TOLERANCE[low] * np.abs(want).max()


@each_program
@each_mode
def test_products_in_a_function_are_lowered(program, mode, low, run_lowered):
    x, w = matrices()
    function = tf.function(program)
    want = function(x, w)
    got, products = run_lowered(lambda: function(x, w), mode)
    assert got.dtype == tf.float32
    assert set(products) == {low}
    assert_close(got, want, low)


def gradients(function, x, w):
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        value = tf.reduce_mean(function(x, w) ** 2)
    return tape.gradient(value, [x, w])


@each_program
def test_gradients_inside_a_function_are_lowered(program, run_lowered):
    x, w = matrices()
    function = tf.function(lambda x, w: gradients(program, x, w))
    want = function(x, w)
    got, products = run_lowered(lambda: function(x, w), "allow_mix_precision")
    assert set(products) == {"float16"}
    assert_close(got, want, "float16")


@each_program
def test_gradients_from_outside_cross_the_boundary_in_float32(program, run_lowered):
    """The tape makes two functions, between which TensorLists hold what the gradient needs."""
    x, w = matrices()
    function = tf.function(program)
    want = gradients(function, x, w)
    got, products = run_lowered(lambda: gradients(function, x, w), "allow_mix_precision")
    assert len(products) == 3
    assert set(products) == {"float16"}
    assert [gradient.dtype for gradient in got] == [tf.float32, tf.float32]
    assert_close(got, want, "float16")

"""The ops and scopes of npu_bridge that compute here what they compute on an NPU."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from npu_precision import npu_ops
from npu_precision.npu_bridge import npu_scope, npu_unary_ops

tf1 = tf.compat.v1


def computed(make, **feeds):
    """The value of what make(placeholders) returns, in a session."""
    with tf.Graph().as_default(), tf1.Session() as session:
        given = {name: tf1.placeholder(tf.float32, np.shape(v)) for name, v in feeds.items()}
        return session.run(make(**given), {given[name]: value for name, value in feeds.items()})


def test_gelu_is_that_of_the_normal_distribution():
    x = np.linspace(-5, 5, 101).astype(np.float32)
    exact = [each * 0.5 * (1 + math.erf(each / math.sqrt(2))) for each in x.tolist()]
    # What the approximation by tanh is off, at most.
    np.testing.assert_allclose(computed(npu_unary_ops.gelu, x=x), exact, rtol=0, atol=5e-4)


def test_gelu_has_the_dtype_of_its_input():
    with tf.Graph().as_default():
        assert npu_unary_ops.gelu(tf.constant([1.0], tf.float16)).dtype == tf.float16


@pytest.mark.parametrize("fed", [False, True], ids=["a number", "a tensor"])
def test_dropout_keeps_with_a_probability_and_divides_by_it(fed):
    x = np.full([100, 100], 3.0, np.float32)
    if fed:
        made = computed(lambda x, p: npu_ops.dropout(x, p, seed=1), x=x, p=np.float32(0.25))
    else:
        made = computed(lambda x: npu_ops.dropout(x, keep_prob=0.25, seed=1), x=x)
    kept = made != 0
    np.testing.assert_allclose(made[kept], 12.0, rtol=1e-6)
    # Four standard deviations of the number that is kept.
    assert abs(kept.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / x.size)


def test_dropout_may_decide_for_rows():
    x = np.ones([50, 8], np.float32)
    made = computed(lambda x: npu_ops.dropout(x, 0.5, noise_shape=[50, 1], seed=1), x=x)
    assert set(map(tuple, made)) == {(0.0,) * 8, (2.0,) * 8}


def test_scopes_of_the_npu_change_nothing_and_are_named_once(caplog, monkeypatch):
    monkeypatch.setattr(npu_scope, "_named", set())
    with caplog.at_level(logging.WARNING, "npu_precision"), tf.Graph().as_default():
        for _ in range(2):
            with npu_scope.without_npu_compile_scope(), npu_scope.npu_weight_prefetch_scope(1):
                node = tf.constant(1.0).op.node_def
    assert not [name for name in node.attr if name.startswith("_")]
    assert [record.getMessage() for record in caplog.records] == [
        "without_npu_compile_scope has no effect on stock TensorFlow",
        "npu_weight_prefetch_scope has no effect on stock TensorFlow",
    ]

"""fold_scales in runs: batch norms of variables are folded into convolutions, anew in each call."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_kernels

import npu_precision

pytestmark = needs_kernels("bfloat16", "Conv2D", "FusedBatchNormV3")
RANDOM = np.random.default_rng(0)


class Norm(tf.Module):
    """A batch norm in inference, as Keras 3 computes it."""

    def __init__(self, channels):
        super().__init__()
        uniform = lambda: RANDOM.uniform(0.5, 1.5, channels).astype(np.float32)  # noqa: E731
        self.gamma, self.beta = tf.Variable(uniform()), tf.Variable(uniform())
        self.mean, self.variance = tf.Variable(uniform()), tf.Variable(uniform())

    def __call__(self, x):
        given = self.mean, self.variance, self.beta, self.gamma
        return tf.nn.batch_normalization(x, *given, 1e-3)


class Block(tf.Module):
    """Two convolutions with a norm each, a residual sum, and a norm of the sum."""

    def __init__(self):
        super().__init__()
        weights = RANDOM.normal(scale=0.2, size=[2, 3, 3, 8, 8]).astype(np.float32)
        self.weights = [tf.Variable(one) for one in weights]
        self.norms = [Norm(8) for _ in range(3)]

    @tf.function
    def __call__(self, x):
        hidden = tf.nn.relu(self.norms[0](tf.nn.conv2d(x, self.weights[0], 1, "SAME")))
        made = x + self.norms[1](tf.nn.conv2d(hidden, self.weights[1], 1, "SAME"))
        return tf.nn.relu(self.norms[2](tf.nn.relu(made)))


@pytest.fixture
def ran(tmp_path, ledgers):
    """The results of a block in float32 and bfloat16 after each change, and what was rewritten."""

    def run(*changes):
        block, x = Block(), RANDOM.normal(size=[2, 12, 12, 8]).astype(np.float32)
        exact, found = [], []
        for change in changes:
            change(block)
            exact.append(block(x).numpy())
            with npu_precision.autocast(
                precision_mode="allow_mix_precision_bf16", report_dir=tmp_path
            ):
                found.append(block(x).numpy())
        entries = [entry for ledger in ledgers(tmp_path) for entry in ledger.rewrites]
        return exact, found, [entry.after for entry in entries if entry.by == "fold_scales"]

    return run


def test_convolutions_take_the_scales_and_what_is_left_is_one_op(ran):
    (exact,), (found,), made = ran(lambda block: None)
    assert sorted(after.partition(" of ")[0] for after in made) == [
        "BiasAdd",
        "BiasAdd",
        "FusedBatchNormV3",
    ]
    assert 0 < np.abs(found - exact).max() < 0.03 * np.abs(exact).max()


def test_an_assignment_counts_in_the_next_call(ran):
    """Nothing that was scaled is kept from call to call."""
    double = lambda block: block.norms[0].gamma.assign(2 * block.norms[0].gamma)  # noqa: E731
    other = lambda block: block.weights[1].assign(-block.weights[1])  # noqa: E731
    exact, found, _ = ran(lambda block: None, double, other)
    for one, result in zip(exact, found):
        assert np.abs(result - one).max() < 0.03 * np.abs(one).max()
    assert np.abs(exact[1] - exact[0]).max() > 0.3 * np.abs(exact[0]).max()
    assert np.abs(exact[2] - exact[1]).max() > 0.3 * np.abs(exact[1]).max()

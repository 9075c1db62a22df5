"""Clipping by global norm: the norm is float32's, even if its squares do not fit into float16."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    UNITS,
    Training,
    check_losses,
    check_variables,
    dense_loss,
    float32_run,
    train,
)

tf1 = tf.compat.v1

LIMIT = 0.25


@functools.lru_cache(maxsize=None)
def clipped_training(scale):
    """Momentum with the clipped gradients of a scaled loss."""

    def build():
        loss, feeds = dense_loss()
        variables = tf1.trainable_variables()
        gradients, norm = tf.clip_by_global_norm(tf.gradients(scale * loss, variables), LIMIT)
        optimizer = tf1.train.MomentumOptimizer(0.3, 0.9)
        step = optimizer.apply_gradients(zip(gradients, variables))
        return Training(loss, step, feeds, {"norm": norm, "gradients": gradients})

    return build


# The squares of the gradients' entries are below float16's numbers, among them, and beyond.
@pytest.mark.parametrize("scale", [2.0**-12, 1.0, 2.0**12])
@pytest.mark.parametrize("mode", MODES)
def test_the_global_norm_is_that_of_float32(mode, scale):
    build = clipped_training(scale)
    run, expected = train(build, mode), float32_run(build)
    # A gradient's entries are off by a few units, and their errors have no common sign.
    np.testing.assert_allclose(
        run.watched["norm"], expected.watched["norm"], rtol=4 * UNITS[mode], atol=0
    )
    for norm, gradients in zip(run.watched["norm"], run.watched["gradients"]):
        clipped = np.sqrt(sum(np.square(g.astype("d")).sum() for g in gradients))
        # Clipping multiplies in float32: the clipped norm is the limit, to float32's unit.
        np.testing.assert_allclose(clipped, min(norm, LIMIT), rtol=1e-5)
    check_variables(run, mode)
    if scale >= 1:
        check_losses(run, expected, mode)

"""Converted SavedModels of TF1 code: loops and branches that collections refer to by name."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.text_graph import random_values

import npu_precision

tf1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("control_flow_v1")


def loop_and_branch(x):
    """A loop that writes an array, with constants inside, and a branch in it and behind it."""
    weights = tf.constant(random_values("w", [16, 16]))

    def step(i, state, states):
        inner = tf.constant(random_values("inner", [16, 16]) / 4, name="inner")
        state = tf.tanh(tf.matmul(tf.matmul(state, weights), inner))
        state = tf1.cond(i > 1, lambda: tf.matmul(state, inner), lambda: state)
        return i + 1, state, states.write(i, state)

    states = tf.TensorArray(tf.float32, 3, name="states")
    _, _, states = tf1.while_loop(lambda i, *_: i < 3, step, [0, x, states])
    last = tf.reduce_max(states.stack(), 0)
    return tf1.cond(
        last[0, 0] > 9,
        lambda: last,
        lambda: tf.matmul(last, tf.constant(random_values("v", [16, 4]))),
    )


@pytest.mark.parametrize("fold_constants", [True, False])
@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16", "must_keep_origin_dtype"])
def test_a_loop_and_a_branch_load_and_agree(mode, fold_constants, tmp_path):
    feed = random_values("x", [4, 16])
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        x = tf1.placeholder(tf.float32, [4, 16], name="x")
        y = tf.identity(loop_and_branch(x), name="y")
        assert graph.get_collection("while_context")
        assert graph.get_collection("cond_context")
        tf1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": y})
        want = session.run(y, {x: feed})
    (ledger,) = npu_precision.convert_saved_model(
        tmp_path / "model", tmp_path / "low", precision_mode=mode, fold_constants=fold_constants
    )
    assert (ledger.totals["lowered"] > 0) == (mode != "must_keep_origin_dtype")
    with tf1.Session(graph=tf.Graph()) as session:
        tf1.saved_model.load(session, ["serve"], str(tmp_path / "low"))
        got = session.run("y:0", {"x:0": feed})
    np.testing.assert_allclose(got, want, TOLERANCE["float16"], TOLERANCE["float16"])

"""Large average pools, and gradients of those whose windows overlap a lot, add up in float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import run
from support.live_rewrite import rewrite_and_run
from support.tf_versions import need_kernels, needs_onednn_in_bfloat16

import npu_precision

DTYPE = {"allow_mix_precision_bf16": "bfloat16", "allow_mix_precision_fp16": "float16"}


def pooled(window, strides):
    """A graph with the gradient of an average pool between two products, as the node "end"."""
    size = [1, *(max(2 * edge, 1) if edge > 1 else 1 for edge in window), 4]
    x = np.random.default_rng(0).random(size, "f")
    with tf.Graph().as_default() as graph:
        z = tf.reshape(tf.matmul(tf.reshape(tf.constant(x), [-1, 4]), tf.eye(4)), size)
        pool = tf.nn.avg_pool2d if len(window) == 2 else tf.nn.avg_pool3d
        y = tf.matmul(tf.reshape(pool(z, window, strides, "SAME"), [-1, 4]), tf.eye(4))
        tf.identity(tf.gradients(y, z)[0], "end")
    return graph.as_graph_def()


def averaged(window):
    """A graph with the mean over a window, "mean", between two products, the last one "end"."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [window[0] * window[1], 4])
        z = tf.reshape(tf.abs(tf.matmul(x, tf.eye(4))), [1, *window, 4])
        mean = tf.nn.avg_pool2d(z, window, 1, "VALID", name="mean")
        tf.matmul(tf.reshape(mean, [1, 4]), tf.eye(4), name="end")
    return graph.as_graph_def()


@pytest.mark.parametrize("mode", DTYPE)
@pytest.mark.parametrize(
    ("window", "strides", "is_kept"),
    [
        ([8, 4], 1, False),
        ([11, 3], 1, True),
        ([10, 12], 2, False),
        ([12, 11], 2, True),
        ([1, 32], 1, False),
        ([1, 33], 1, True),
        ([4, 4, 2], 1, False),
        ([4, 3, 3], 1, True),
        ([64, 64], 64, False),
    ],
    ids=str,
)
def test_where_more_than_32_windows_overlap_they_are_added_in_float32(
    window, strides, is_kept, mode
):
    need_kernels(DTYPE[mode], "AvgPoolGrad" if len(window) == 2 else "AvgPool3DGrad")
    graph = pooled(window, strides)
    low, ledger = npu_precision.rewrite_graph_def(graph, "end", precision_mode=mode)
    (node,) = (node for node in ledger.nodes if node.op.endswith("PoolGrad") or "3DGrad" in node.op)
    lowered = ("lowered", "gray_follows_lowered")
    assert (node.decision, node.reason) == (("kept", "adds_windows") if is_kept else lowered)
    (want,), (got,) = run(graph, ["end"]), run(low, ["end"])
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize(
    ("mode", "window", "is_kept"),
    [
        ("allow_mix_precision_bf16", [8, 8], False),
        ("allow_mix_precision_bf16", [5, 13], True),
        ("allow_mix_precision_fp16", [16, 32], False),
        ("allow_mix_precision_fp16", [27, 19], True),
    ],
    ids=str,
)
def test_so_are_the_places_of_a_large_window_if_onednn_may_not_add_them(mode, window, is_kept):
    need_kernels(DTYPE[mode], "AvgPool")
    graph = averaged(window)
    low, ledger = npu_precision.rewrite_graph_def(graph, "end", precision_mode=mode)
    (node,) = (node for node in ledger.nodes if node.op == "AvgPool")
    lowered = ("lowered", "gray_follows_lowered")
    assert (node.decision, node.reason) == (("kept", "adds_windows") if is_kept else lowered)
    (want,), (got,) = run(graph, ["end"]), run(low, ["end"])
    np.testing.assert_allclose(got, want, rtol=1e-2)


@needs_onednn_in_bfloat16
def test_onednn_adds_them_in_float32(tmp_path):
    graph = averaged([64, 64])
    got = rewrite_and_run(graph, ["end"], tmp_path, precision_mode="allow_mix_precision_bf16")
    assert got.nodes["mean"].attr["T"].type == tf.bfloat16
    (want,) = run(graph, ["end"])
    np.testing.assert_allclose(got.values[0], want, rtol=1e-2)


def test_a_mixlist_entry_beats_it():
    need_kernels("bfloat16", "AvgPoolGrad")
    edits = json.dumps({"gray-list": {"to-add": ["AvgPoolGrad"]}})
    _, ledger = npu_precision.rewrite_graph_def(
        pooled([16, 16], 1), "end", precision_mode="allow_mix_precision_bf16", mixlist_edits=edits
    )
    (node,) = (node for node in ledger.nodes if node.op == "AvgPoolGrad")
    assert node.decision == "lowered"

"""Nodes whose kernel is slower in bfloat16 than in float32 keep float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.live_rewrite import rewrite_and_run
from support.tf_versions import needs_onednn_in_bfloat16

import npu_precision

tf1 = tf.compat.v1
MODE = "allow_mix_precision_bf16"
SHAPE = [2, 6, 6, 3]
NORMS = ["FusedBatchNormGradV3", "FusedBatchNormV3"]


def trained(channels, batch=2):
    """A batch norm in training between two convolutions, and its gradient: "y" and "dx"."""
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [batch, *SHAPE[1:]], "x")
        windows = [random.normal(size=[3, 3, *ends]) for ends in [(3, channels), (channels, 4)]]
        first, second = (tf.constant(each, tf.float32) for each in windows)
        conv = tf.nn.conv2d(x, first, 1, "SAME")
        one = tf.ones([channels])
        norm = tf1.nn.fused_batch_norm(conv, one, one)[0]
        y = tf.nn.conv2d(tf.tanh(norm), second, 1, "SAME")
        tf.identity(y, "y")
        tf.identity(tf.gradients(y, x)[0], "dx")
    return graph.as_graph_def()


def depthwise(stride):
    """A depthwise convolution between two others, and the gradient to its input: "y" and "dx"."""
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, SHAPE, "x")
        sizes = [[3, 3, 3, 8], [3, 3, 8, 1], [1, 1, 8, 4]]
        first, middle, last = (tf.constant(random.normal(size=size), tf.float32) for size in sizes)
        z = tf.nn.conv2d(x, first, 1, "SAME")
        z = tf.nn.depthwise_conv2d(z, middle, [1, stride, stride, 1], "SAME")
        y = tf.nn.conv2d(z, last, 1, "SAME")
        tf.identity(y, "y")
        tf.identity(tf.gradients(y, x)[0], "dx")
    return graph.as_graph_def()


def reasons(nodes, ops=NORMS):
    return sorted((node.decision, node.reason) for node in nodes if node.op in ops)


def lived(graph, folder, ops=NORMS, **options):
    feeds = {"x": np.random.default_rng(1).normal(size=SHAPE).astype("f")}
    options = {"precision_mode": MODE, "rewrites": "none", **options}
    exact = {"precision_mode": "must_keep_origin_dtype"}
    wanted, found = (
        rewrite_and_run(graph, ["y", "dx"], folder / each["precision_mode"], feeds=feeds, **each)
        for each in (exact, options)
    )
    for want, got in zip(wanted.values, found.values):
        np.testing.assert_allclose(got, want, rtol=0, atol=0.05 * np.abs(want).max())
    (file,) = (folder / MODE).glob("*.json")
    return reasons(npu_precision.Ledger.from_json(file.read_text()).nodes, ops)


SLOW, FAST = ("kept", "slow_kernel"), ("lowered", "gray_follows_lowered")
KEPT, LOWERED = 2 * [SLOW], 2 * [FAST]


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    ("channels", "found"), [(16, LOWERED), (24, KEPT), (48, LOWERED), (72, KEPT)]
)
@pytest.mark.parametrize("batch", [2, None])
def test_a_batch_norm_whose_channels_are_no_multiple_of_16_keeps_float32(
    batch, channels, found, tmp_path
):
    assert lived(trained(channels, batch), tmp_path) == found


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(("stride", "found"), [(1, ("lowered", "white_list")), (2, SLOW)])
def test_the_gradient_of_a_depthwise_convolution_with_strides_keeps_float32(
    stride, found, tmp_path
):
    ops = ["DepthwiseConv2dNativeBackpropInput"]
    assert lived(depthwise(stride), tmp_path, ops) == [found]


@needs_onednn_in_bfloat16
def test_a_mixlist_entry_beats_it(tmp_path):
    edits = json.dumps({"gray-list": {"to-add": NORMS}})
    assert lived(trained(72), tmp_path, mixlist_edits=edits) == LOWERED


def test_without_onednn_the_kernels_are_others():
    """A conversion does not know the machine."""
    low, ledger = npu_precision.rewrite_graph_def(trained(72), ["y", "dx"], precision_mode=MODE)
    assert "slow_kernel" not in {reason for _, reason in reasons(ledger.nodes)}

"""On a GPU, TensorFlow chooses the layout of images by the dtype: NHWC for what is lowered.

It does where NpuOptimizer has run before its layout optimizer, as with enable() and
npu_config_proto(). An entry in custom_optimizers alone runs after it. Nothing runs, so no GPU is
needed.
"""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.devices import decided_for, optimized
from support.tf_versions import needs_gpu_kernels

import npu_precision

tf1 = tf.compat.v1
pytestmark = needs_gpu_kernels
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
MODES = {"allow_mix_precision": "float16", "allow_mix_precision_bf16": "bfloat16"}


def training():
    """Three convolutions and their gradients on a GPU, and the nodes that must run."""
    with tf.Graph().as_default() as graph, tf1.variable_scope("", use_resource=True):
        x = tf1.placeholder(tf.float32, [8, 16, 16, 8])
        for number in range(3):
            filters = tf1.get_variable(f"filters_{number}", [3, 3, 8, 8])
            x = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME") + 0.1)
        loss = tf.reduce_mean(x)
        gradients = tf.gradients(loss, tf1.global_variables())
    graph_def = graph.as_graph_def()
    for node in graph_def.node:
        node.device = GPU
    return graph_def, [each.op.name for each in [loss, *gradients]]


def lowered(graph, fetches, mode):
    with decided_for(["CPU:0", "GPU:0"]):
        return npu_precision.rewrite_graph_def(graph, fetches, precision_mode=mode)[0]


def convolutions(graph):
    """The layouts and dtypes of the convolutions, and the number of Transposes."""
    nodes = [node for node in graph.node if node.op.startswith("Conv2D")]
    layouts = {node.attr["data_format"].s.decode() for node in nodes}
    dtypes = {tf.as_dtype(node.attr["T"].type).name for node in nodes}
    return layouts, dtypes, sum(node.op == "Transpose" for node in graph.node)


@pytest.mark.parametrize(("mode", "low"), MODES.items())
def test_before_the_layout_optimizer_images_stay_in_nhwc(mode, low):
    graph, fetches = training()
    result = optimized(lowered(graph, fetches, mode), fetches, ["layout"])
    assert convolutions(result) == ({"NHWC"}, {low}, 0)


@pytest.mark.parametrize(("mode", "low"), MODES.items())
def test_after_the_layout_optimizer_they_are_as_it_chose_for_float32(mode, low):
    graph, fetches = training()
    chosen = optimized(graph, fetches, ["layout"])
    layouts, _, transposes = convolutions(chosen)
    result = lowered(chosen, fetches, mode)
    assert convolutions(result) == (layouts, {low}, transposes)

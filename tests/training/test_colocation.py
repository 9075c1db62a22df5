"""Colocation in a training graph that is rewritten before TensorFlow places it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_ledger import CAST_MARK
from support.tf_versions import need_kernels
from support.training_runs import LOW_TYPES, MODES, TOLERANCE, dense_loss

import npu_precision

tf1 = tf.compat.v1


def training_graph(use_resource):
    """Only the variables have a device; slots, updates and gradients are colocated with them."""
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(1)
        with tf1.device(lambda op: "/cpu:1" if op.type in ("VarHandleOp", "VariableV2") else ""):
            loss, feeds = dense_loss(use_resource)
            optimizer = tf1.train.AdamOptimizer(0.01)
            step = optimizer.minimize(loss, colocate_gradients_with_ops=True, name="step")
        tf.identity(loss, name="loss")
        init = tf1.global_variables_initializer().name
    feeds = [{tensor.name: value for tensor, value in feed.items()} for feed in feeds]
    return graph.as_graph_def(), [step.name, "loss", init], feeds


def colocation(node):
    return list(node.attr["_class"].list.s) if "_class" in node.attr else []


def run(graph_def, fetches, feeds):
    """The losses of the steps, and the nodes of the last as TensorFlow placed them on two CPUs."""
    config = tf1.ConfigProto(device_count={"CPU": 2})
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    step, loss, init = fetches
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(config=config) as session:
            session.run(init)
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(output_partition_graphs=True)
            fetched = {"loss": loss + ":0", "step": step}
            losses = [session.run(fetched, feed, options, metadata)["loss"] for feed in feeds]
    return losses, {node.name: node for part in metadata.partition_graphs for node in part.node}


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
def test_every_node_is_placed_where_it_was(mode, use_resource):
    """A reference and its writers must share a device, or TensorFlow refuses the graph."""
    need_kernels(LOW_TYPES[mode].name, "MatMul", "TanhGrad")
    before, fetches, feeds = training_graph(use_resource)
    after, ledger = npu_precision.rewrite_graph_def(before, fetches, precision_mode=mode)
    assert ledger.totals["lowered"] > 10

    classes = {node.name: colocation(node) for node in before.node}
    assert sum(map(bool, classes.values())) > 20
    for node in after.node:
        assert CAST_MARK in node.attr or colocation(node) == classes[node.name]

    expected, placed = run(before, fetches, feeds)
    losses, nodes = run(after, fetches, feeds)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[mode])
    for name in nodes.keys() & placed.keys():
        assert nodes[name].device == placed[name].device
    assert {node.device[-1] for node in nodes.values()} == {"0", "1"}


@pytest.mark.parametrize("fetches", [["end"], ["end", "logits"]], ids=["inner", "fetched"])
def test_what_follows_a_lowered_op_to_its_device_still_does(fetches):
    """This includes a renamed op, whose fetched name is that of a Cast to float32."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        with tf1.device("/cpu:1"):
            logits = tf.matmul(x, x, name="logits")
        with tf1.colocate_with(logits):
            follower = tf.exp(x, name="follower")
        tf.add(follower, tf.nn.relu(logits), name="end")
    after, _ = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), fetches, precision_mode=MODES[0]
    )
    assert {colocation(node)[0] for node in after.node if colocation(node)} == {b"loc:@logits"}
    with tf.Graph().as_default():
        tf.import_graph_def(after, name="")
        config = tf1.ConfigProto(device_count={"CPU": 2})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf1.Session(config=config) as session:
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(output_partition_graphs=True)
            session.run([f + ":0" for f in fetches], {"x:0": np.eye(4)}, options, metadata)
    nodes = {node.name: node for part in metadata.partition_graphs for node in part.node}
    product = nodes["logits/npu_changed" if "logits" in fetches else "logits"]
    assert product.attr["T"].type == tf.float16.as_datatype_enum
    assert product.device == nodes["follower"].device == nodes["logits"].device
    assert product.device.endswith("CPU:1")

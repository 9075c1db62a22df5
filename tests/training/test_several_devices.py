"""Trainings on two devices: nodes keep their device, and a tensor is copied once in each dtype."""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
from support.check_ledger import CAST_MARK
from support.numeric_models import Layers
from support.tf_versions import need_kernels
from support.training_runs import (
    FLOAT32,
    LOW_TYPES,
    MODES,
    STEPS,
    Training,
    check_losses,
    check_variables,
    dtypes_of,
    train,
)

tf1 = tf.compat.v1

CPUS = ["/cpu:0", "/cpu:1"]


def feeds_for(x, labels):
    inputs = np.random.RandomState(0).normal(size=[STEPS, *x.shape.as_list()]).astype("f")
    return [{x: value, labels: value[:, :4].argmax(1)} for value in inputs]


def split_model(use_resource, colocate):
    """The first layer and its variables on one device, the second and the loss on the other."""
    layers = Layers(training=True, use_resource=use_resource)
    x = tf1.placeholder(tf.float32, [16, 12])
    labels = tf1.placeholder(tf.int32, [16])
    with tf1.device(CPUS[0]):
        hidden = tf.tanh(layers.dense(x, 24, "hidden"))
    with tf1.device(CPUS[1]):
        logits = layers.dense(hidden, 4, "logits")
        loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
    step = optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    return Training(loss, step, feeds_for(x, labels))


def towers(use_resource, colocate):
    """Half a batch on each device; the variables and their update by the mean gradient on one."""
    layers = Layers(training=True, use_resource=use_resource)
    x = tf1.placeholder(tf.float32, [16, 12])
    labels = tf1.placeholder(tf.int32, [16])
    losses, gradients = [], []
    for index, device in enumerate(CPUS):
        setter = tf1.train.replica_device_setter(
            ps_device=CPUS[0], worker_device=device, ps_tasks=1
        )
        with tf1.device(setter), tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
            half = slice(8 * index, 8 * index + 8)
            hidden = tf.tanh(layers.dense(x[half], 24, "hidden"))
            logits = layers.dense(hidden, 4, "logits")
            losses.append(tf1.losses.sparse_softmax_cross_entropy(labels[half], logits))
            gradients.append(
                tf1.gradients(
                    losses[-1], tf1.trainable_variables(), colocate_gradients_with_ops=colocate
                )
            )
    with tf1.device(CPUS[0]):
        # A reference is read when its reader runs, so an update must come after all gradients.
        means = tf.tuple([tf.add_n(pair) / 2 for pair in zip(*gradients)])
        optimizer = tf1.train.AdamOptimizer(0.02)
        step = optimizer.apply_gradients(zip(means, tf1.trainable_variables()))
        loss = tf.add_n(losses) / 2
    return Training(loss, step, feeds_for(x, labels))


MODELS = {"split_model": split_model, "towers": towers}


def two_cpus(optimizers=None):
    """A ConfigProto; only the `optimizers`, if given, change the graph."""
    config = tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    rewrite = config.graph_options.rewrite_options
    rewrite.disable_meta_optimizer = optimizers == []
    rewrite.optimizers.extend(optimizers or [])
    return config


@functools.lru_cache(maxsize=None)
def run_of(model, mode, use_resource=True, colocate=False, plain=False):
    """The Run of a training; in a plain one, TensorFlow's own optimizers do not run."""

    def build():
        return MODELS[model](use_resource, colocate)

    optimizers = ([] if mode == FLOAT32 else ["NpuOptimizer"]) if plain else None
    return train(build, mode, config=two_cpus(optimizers))


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_losses_follow_float32(model, mode, use_resource):
    run = run_of(model, mode, use_resource)
    check_losses(run, run_of(model, FLOAT32, use_resource), mode)
    check_variables(run, mode)
    products = [node for node in run.nodes if "MatMul" in node.op]
    assert {node.device[-1] for node in products if "float32" not in dtypes_of(node)} == {"0", "1"}


@pytest.mark.parametrize("colocate", [True, False], ids=["colocated", "free"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_every_node_stays_on_its_device(model, mode, colocate):
    """With gradients colocated, that includes those that follow another op by colocation."""
    need_kernels(LOW_TYPES[mode].name, "MatMul", "TanhGrad")
    use_resource = not colocate
    plain = run_of(model, FLOAT32, use_resource, colocate, plain=True)
    placed = {node.name: node.device for node in plain.nodes}
    run = run_of(model, mode, use_resource, colocate, plain=True)
    moved = [
        node.name
        for node in run.nodes
        if node.op not in ("_Send", "_Recv") and node.device != placed.get(node.name, node.device)
    ]
    assert not moved
    assert len(run.lowered) > 10


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("model", MODELS)
def test_a_tensor_crosses_once_in_each_dtype_that_is_read_there(model, mode):
    """Its Cast is on the producer's device: if only lowered ops read it, the low type is copied."""
    nodes = run_of(model, mode, plain=True).nodes
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        if CAST_MARK not in node.attr:
            continue
        producer = by_name[node.input[0].partition(":")[0]]
        assert (producer.op, producer.device) != ("_Recv", node.device)
        assert producer.device == node.device

    sends = [node for node in nodes if node.op == "_Send"]
    crossings = collections.Counter(
        (*original_tensor(node.input[0], by_name), dtypes_of(node).pop()) for node in sends
    )
    assert set(crossings.values()) == {1}
    assert LOW_TYPES[mode].name in {dtype for _, _, dtype in crossings}


def original_tensor(tensor, by_name):
    """The original node and port of a tensor, before inserted Casts."""
    name, _, port = tensor.partition(":")
    node = by_name[name]
    if CAST_MARK in node.attr:
        return original_tensor(node.input[0], by_name)
    return name, port

"""Trains small graphs in float32 and in mixed precision, and checks every step."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

import npu_precision
from npu_precision import _tf_compat
from support.node_dtypes import dtype_name, type_attributes
from support.numeric_models import Layers

tf1 = tf.compat.v1

FLOAT32 = "float32"
LOW_TYPES = {"allow_mix_precision": tf.float16, "allow_mix_precision_bf16": tf.bfloat16}
MODES = list(LOW_TYPES)
# Half the distance of neighbouring numbers around one, in each mode's low type.
UNITS = {"allow_mix_precision": 2.0**-11, "allow_mix_precision_bf16": 2.0**-8}
STEPS = 8
# How far the losses of STEPS steps may be from float32's. A smooth model rounds a handful of times
# on the way to the loss, each time by at most half a unit of numbers around one, and so do the
# gradients. Their errors in the weights add up over the steps. Measured errors are up to one unit.
TOLERANCE = {mode: 4 * unit for mode, unit in UNITS.items()}


def config_for(mode, report_dir=None, config=None):
    """A ConfigProto for a mode or for stock TensorFlow; by default with one thread."""
    if config is None:
        config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if mode == FLOAT32:
        return config
    # Tests compare the dtypes that ran with the decided ones; test_float16_compute.py has the rest.
    return npu_precision.npu_config_proto(
        config, precision_mode=mode, report_dir=report_dir, float16_compute="native"
    )


@dataclasses.dataclass(frozen=True)
class Training:
    """A training graph.

    Attributes:
        loss: a float32 scalar.
        step: the op, or ops, that make a step.
        feeds: one feed_dict per step.
        watched: further fetches of each step, by name.
    """

    loss: tf.Tensor
    step: tf.Operation
    feeds: list
    watched: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Run:
    """The results of a training.

    Attributes:
        losses: one per step.
        watched: the values of the further fetches, by name: one value per step.
        variables: the values after the last step, by name.
        nodes: the NodeDefs that the last step executed.
        lowered: ops of the lowered nodes, by name, as the ledgers say.
    """

    losses: np.ndarray
    watched: dict
    variables: dict
    nodes: list
    lowered: dict


def train(build, mode, restore=None, save=None, config=None):
    """Trains what `build` adds to the default graph.

    Args:
        build: a function without arguments that returns a Training. The graph's seed is set.
        mode: one of MODES, or FLOAT32.
        restore: the checkpoint to start from, instead of the initial values.
        save: where to write a checkpoint after the last step.
        config: the ConfigProto that gets the mode.
    """
    with tempfile.TemporaryDirectory() as reports, tf.Graph().as_default():
        tf1.set_random_seed(1)
        training = build()
        fetches = {"loss": training.loss, "step": training.step, "watched": training.watched}
        saver = tf1.train.Saver()
        with tf1.Session(config=config_for(mode, reports, config)) as session:
            if restore is None:
                session.run(tf1.global_variables_initializer())
            else:
                saver.restore(session, restore)
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(output_partition_graphs=True)
            values = [session.run(fetches, feed, options, metadata) for feed in training.feeds]
            variables = session.run({v.op.name: v for v in tf1.global_variables()})
            if save is not None:
                saver.save(session, save)
        watched = collections.defaultdict(list)
        for value in values:
            for name, seen in value["watched"].items():
                watched[name].append(seen)
        return Run(
            np.array([value["loss"] for value in values]),
            dict(watched),
            variables,
            [node for graph in metadata.partition_graphs for node in graph.node],
            _lowered(reports),
        )


@functools.lru_cache(maxsize=None)
def float32_run(build):
    """The results of a training in float32, which is run once and cached."""
    return train(build, FLOAT32)


def _lowered(reports):
    ledgers = [
        npu_precision.Ledger.from_json(file.read_text())
        for file in pathlib.Path(reports).glob("*.json")
    ]
    return {
        node.name: node.op
        for ledger in ledgers
        for node in ledger.nodes
        if node.decision == "lowered"
    }


def dense_loss(use_resource=True, after_hidden=tf.identity):
    """A smooth model of two dense layers: (loss, feeds)."""
    layers = Layers(training=True, use_resource=use_resource)
    x = tf1.placeholder(tf.float32, [16, 12], name="x")
    labels = tf1.placeholder(tf.int32, [16], name="labels")
    hidden = after_hidden(tf.tanh(layers.dense(x, 24, "hidden")))
    logits = layers.dense(hidden, 4, "logits")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    random = np.random.RandomState(0)
    inputs = random.normal(size=[STEPS, 16, 12]).astype("f")
    return loss, [{x: value, labels: value[:, :4].argmax(1)} for value in inputs]


def image_loss(features, use_resource=True):
    """Like dense_loss, for a classifier of small images on top of features(layers, images)."""
    layers = Layers(training=True, use_resource=use_resource)
    images = tf1.placeholder(tf.float32, [16, 6, 6, 3], name="images")
    labels = tf1.placeholder(tf.int32, [16], name="labels")
    logits = layers.dense(tf.reduce_mean(features(layers, images), [1, 2]), 4, "logits")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    random = np.random.RandomState(0)
    digits = random.randint(4, size=[STEPS, 16]).astype("i")
    patterns = random.normal(size=[4, 6, 6, 3]).astype("f")
    noise = random.normal(scale=0.5, size=[STEPS, 16, 6, 6, 3]).astype("f")
    return loss, [
        {images: patterns[label] + noise[step], labels: label} for step, label in enumerate(digits)
    ]


def check_losses(run, expected, mode):
    """Asserts that the losses fall and are close to float32's, but not equal to them."""
    assert "MatMul" in run.lowered.values()
    assert expected.losses[-1] < expected.losses[0]
    np.testing.assert_allclose(run.losses, expected.losses, rtol=0, atol=TOLERANCE[mode])
    assert not np.array_equal(run.losses, expected.losses)


# They read gradients of a low type, and compute in float32.
OWN_UPDATES = ("NpuPrecisionUpdate", "NpuPrecisionUpdateRef")


def check_variables(run, mode):
    """Asserts that variables, and what reads or writes them in place, are in float32."""
    users = [node for node in run.nodes if uses_variable(node) and node.op not in OWN_UPDATES]
    assert users
    for node in users:
        assert not {"float16", "bfloat16"} & dtypes_of(node), node
    for name, value in run.variables.items():
        assert value.dtype.name in ("float32", "int32", "int64")
        if value.dtype.name == "float32" and value.ndim > 0:
            assert not was_rounded(value, mode), name


def was_rounded(value, mode):
    """Whether the mode's low type can hold all values; those computed in float32 never fit."""
    low = LOW_TYPES[mode].as_numpy_dtype
    return np.array_equal(value.astype(low).astype(value.dtype), value)


def uses_variable(node):
    """Whether an op takes or yields a reference or a resource, as a variable is."""
    definition = _tf_compat.op_definition(node.op)
    return definition is not None and any(
        argument.is_ref or argument.type == types_pb2.DT_RESOURCE
        for argument in [*definition.input_arg, *definition.output_arg]
    )


def dtypes_of(node):
    """The names of all dtypes among a node's type attributes."""
    return {dtype_name(dtype) for dtypes in type_attributes(node).values() for dtype in dtypes}

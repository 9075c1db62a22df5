"""Passes that rewrite ops do not change values: with the dtypes restored, the values are equal.

The tolerance of a low type would hide a wrong epsilon, or a padding that is wrong at one edge.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import to_bytes
from support.random_layers import random_network
from support.strict_zip import strict_zip
from tensorflow.core.framework import graph_pb2, types_pb2

import npu_precision
from npu_precision import PrecisionOptions

tf1 = tf.compat.v1
# Without fold_constants, no constant is rounded to the low type in advance.
OPTIONS = PrecisionOptions(precision_mode="allow_mix_precision_bf16", fold_constants=False)
LOW = types_pb2.DT_BFLOAT16
# As a share of the largest value. A variance as small as its epsilon magnifies float32's rounding.
TOLERANCE = 1e-3
SEEDS = 60
SEEDS_OF_A_TEST = 10


def rewritten(network, graph_def):
    return npu_precision.rewrite_graph_def(graph_def, network.fetches, options=OPTIONS)


def with_dtypes_put_back(graph_def):
    """The graph with float32 instead of the low type, and copies instead of Casts."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if node.op == "Const" and node.attr["dtype"].type == LOW:
            values = tf.make_ndarray(node.attr["value"].tensor).astype(np.float32)
            tensor = tf1.make_tensor_proto(values, tf.float32, values.shape)
            node.attr["value"].tensor.CopyFrom(tensor)
        for attribute in node.attr.values():
            if attribute.type == LOW:
                attribute.type = types_pb2.DT_FLOAT
            for number, dtype in enumerate(attribute.list.type):
                if dtype == LOW:
                    attribute.list.type[number] = types_pb2.DT_FLOAT
        if node.op == "Cast" and node.attr["SrcT"].type == node.attr["DstT"].type:
            node.op = "Identity"
            dtype = node.attr["SrcT"].type
            node.attr.clear()
            node.attr["T"].type = dtype
    return result


def run(graph_def, fetches, x):
    """The values, or None if TensorFlow cannot run the graph on this input."""
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(graph_def, name="")
        try:
            return session.run([f"{name}:0" for name in fetches], {"x:0": x})
        except tf.errors.OpError:
            return None


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_OF_A_TEST))
def test_values_are_equal_for_each_size_of_the_input_and_for_each_fetch(first):
    written, runs = collections.Counter(), 0
    for seed in range(first, first + SEEDS_OF_A_TEST):
        network = random_network(seed)
        after, ledger = rewritten(network, network.graph_def)
        assert to_bytes(rewritten(network, after)[0]) == to_bytes(after), f"seed {seed}, again"
        written.update(entry.by for entry in ledger.rewrites)
        now = with_dtypes_put_back(after)
        fetches = [network.fetches, *([name] for name in network.fetches[1:])]
        for x in network.inputs:
            for some in fetches:
                expected, got = run(network.graph_def, some, x), run(now, some, x)
                where = f"seed {seed}, {some}, {x.shape}"
                assert (got is None) == (expected is None), where
                runs += expected is not None
                for one, other in strict_zip(got or (), expected or ()):
                    assert one.shape == other.shape, where
                    error = np.max(np.abs(one - other), initial=0)
                    assert error <= TOLERANCE * np.max(np.abs(other), initial=1e-3), where
    assert runs >= 2 * SEEDS_OF_A_TEST
    assert len(written) >= 2

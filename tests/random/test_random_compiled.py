"""Random networks under XLA in a mode are as near to float32 as without XLA.

XLA fuses and reorders, and might drop a Cast to a low type and back; and rewrites that aim at
oneDNN's kernels do not run there.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.random_layers import random_network
from support.strict_zip import strict_zip
from support.tf_versions import needs_compiled_functions
from support.tiers import corpus_seeds
from tensorflow.core.framework import graph_pb2

import npu_precision

pytestmark = needs_compiled_functions
UNIT = {"allow_mix_precision_bf16": 2.0**-8, "allow_mix_precision": 2.0**-11}
GRAPHS = 150  # of each type
# A network may be off by this number of units of the low type more than this multiple of the error
# without XLA.
UNITS, TIMES = 2, 2
# Networks with a larger error magnify any rounding, as a LayerNorm of almost equal values does.
MOST = 0.05


def without_placeholders(graph_def):
    """XLA cannot compile a Placeholder, nor one with a default."""
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    del result.node[:]
    for node in graph_def.node:
        if node.op == "Placeholder":
            continue
        added = result.node.add()
        added.CopyFrom(node)
        if node.op == "PlaceholderWithDefault":
            added.op = "Identity"
            added.attr.clear()
            added.attr["T"].CopyFrom(node.attr["dtype"])
    return result


def function_of(network, compiles):
    graph_def = without_placeholders(network.graph_def)
    fetches = [f"{name}:0" for name in network.fetches]
    return tf.function(
        lambda x: tf.graph_util.import_graph_def(graph_def, {"x:0": x}, fetches, name=""),
        jit_compile=compiles,
        autograph=False,
    )


def values(network, compiles, mode=None):
    """The fetches for the first input."""
    function, x = function_of(network, compiles), tf.constant(network.inputs[0])
    if mode is None:
        return [each.numpy() for each in function(x)]
    with npu_precision.autocast(precision_mode=mode, strict=True):
        return [each.numpy() for each in function(x)]


def error(found, expected):
    """The largest difference, as a share of the largest value."""
    return max(
        np.abs(one - other).max() / max(np.abs(other).max(), 1e-3)
        for one, other in strict_zip(found, expected)
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", UNIT)
def test_random_networks_are_as_exact_compiled_as_not(mode):
    ran = lowered = 0
    for seed in corpus_seeds(GRAPHS):
        network = random_network(seed)
        try:
            exact = values(network, False)
        except tf.errors.UnimplementedError:  # TensorFlow makes a fusion that it has no kernel of.
            continue
        plain, compiled = (error(values(network, c, mode), exact) for c in (False, True))
        if plain > MOST:
            continue
        ran += 1
        assert compiled <= TIMES * plain + UNITS * UNIT[mode], f"seed {seed}"
        lowered += compiled > UNIT[mode] / 8
    assert lowered >= 0.8 * ran >= 0.7 * len(corpus_seeds(GRAPHS))

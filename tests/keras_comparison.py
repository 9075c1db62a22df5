"""What the tests of Keras models compare: values with float32's, and what ran low by the ledger."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

# Half the distance of neighbouring numbers around one, for the dtype that a mode rounds to.
UNIT = {
    "allow_mix_precision": 2.0**-11,
    "allow_mix_precision_fp16": 2.0**-11,
    "allow_mix_precision_bf16": 2.0**-8,
    "force_fp16": 2.0**-11,
    "cube_fp16in_fp32out": 2.0**-11,
}
# On the host, which has every kernel in float32, these leave a float32 graph as it is.
CHANGES_NOTHING = [
    "must_keep_origin_dtype",
    "allow_fp32_to_fp16",
    "allow_fp32_to_bf16",
    "force_fp32",
]
MIXED = ["allow_mix_precision", "allow_mix_precision_bf16"]

# How far logits may be from float32's: the root mean square of the difference, relative to the
# standard deviation of float32's logits, in units. Each of the hundreds of roundings adds about
# half a unit of its tensor, independently of the others, and what differs between the inputs is
# smaller than the tensors are: by 3 to 10 in the convolutional nets, where random filters see much
# the same in all images. Seen: half of each. Unrelated logits would be at 1.4, that is 360 units of
# bfloat16 and 2900 of float16.
UNITS = {"lstm_gru": 8, "bert_small": 24, "bert_base": 24}
UNITS_OF_CONVOLUTIONAL_NETS = 64
# If nothing were rounded, the difference would be a few units of float32: 0.001 of float16.
LEAST_UNITS = 0.1

MATRIX_OPS = {
    "MatMul",
    "BatchMatMul",
    "BatchMatMulV2",
    "Einsum",
    "Conv2D",
    "Conv2DBackpropInput",
    "Conv2DBackpropFilter",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropInput",
    "DepthwiseConv2dNativeBackpropFilter",
}


def assert_close_but_rounded(logits, expected, name, mode):
    """Fails if logits are too far from float32's, or as close as if nothing ran low."""
    assert logits.dtype == np.float32
    assert logits.shape == expected.shape
    difference = np.sqrt(np.mean((logits - expected) ** 2)) / expected.std()
    most = UNITS.get(name, UNITS_OF_CONVOLUTIONAL_NETS)
    assert LEAST_UNITS < difference / UNIT[mode] < most


def assert_matrix_ops_ran_low(ledgers, mode):
    """Every matrix op and convolution is lowered; in cube_fp16in_fp32out, its inputs are rounded.

    Args:
        ledgers: those of a model's graph and its functions.
        mode: a key of UNIT.
    """
    ledgers = list(ledgers)
    decided = [node for ledger in ledgers for node in ledger.nodes if node.op in MATRIX_OPS]
    assert decided
    if mode == "cube_fp16in_fp32out":
        assert {node.reason for node in decided} == {"inputs_rounded"}
        # Down and up again, on two inputs each; inputs that are shared are rounded once.
        assert sum(ledger.totals["casts"] for ledger in ledgers) > 2 * len(decided)
        return
    assert {node.decision for node in decided} == {"lowered"}
    low = "bfloat16" if mode.endswith("bf16") else "float16"
    assert {tuple(node.dtypes["T"]) for node in decided} == {("float32", low)}
    # What is between them follows: they are not islands among Casts.
    lowered = [node for ledger in ledgers for node in ledger.nodes if node.decision == "lowered"]
    assert len(lowered) > 1.5 * len(decided)


def run_graph_def(graph_def, fetch, feeds, config=None):
    """The value of a tensor of a GraphDef, in a session of its own."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(fetch, feeds)

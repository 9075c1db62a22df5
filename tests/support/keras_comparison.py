"""Checks of Keras models: their values against float32's, and the lowered ops in the ledger."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from support import keras_models

tf1 = tf.compat.v1

# Half the distance of neighbouring numbers around one, for the dtype that a mode rounds to.
UNIT = {
    "allow_mix_precision": 2.0**-11,
    "allow_mix_precision_fp16": 2.0**-11,
    "allow_mix_precision_bf16": 2.0**-8,
    "force_fp16": 2.0**-11,
    "cube_fp16in_fp32out": 2.0**-11,
}
# Modes that do not change a float32 graph on the host, which has every kernel in float32.
CHANGES_NOTHING = [
    "must_keep_origin_dtype",
    "allow_fp32_to_fp16",
    "allow_fp32_to_bf16",
    "force_fp32",
]
MODES = [*UNIT, *CHANGES_NOTHING]
MIXED = ["allow_mix_precision", "allow_mix_precision_bf16"]
# The cases of `make test`: a network of each kind.
MODELS_OF_TEST = ["mobilenet_v2", "lstm_gru", "bert_small"]
# Frozen graphs are tested for each of these networks in each mode. Tests that take longer than
# freezing a graph run these pairs only: each network lowered once, and one with its dtypes kept.
PAIRS_OF_TEST = [
    ("mobilenet_v2", "allow_mix_precision"),
    ("lstm_gru", "allow_mix_precision_bf16"),
    ("lstm_gru", "must_keep_origin_dtype"),
    ("bert_small", "allow_mix_precision"),
]


def each_small_model_and_mode(fixture):
    """Parametrizes a test by the fixture of a model, and by `mode`."""
    pairs = [
        pytest.param(
            name,
            mode,
            id=f"{mode}-{name}",
            marks=[pytest.mark.full] * ((name, mode) not in PAIRS_OF_TEST),
        )
        for name in keras_models.SMALL
        for mode in MODES
    ]
    return pytest.mark.parametrize((fixture, "mode"), pairs, indirect=[fixture])


# How far logits may be from float32's: the root mean square of the difference, relative to the
# standard deviation of float32's logits, in units. Each of the hundreds of roundings adds about
# half a unit of its tensor, independently of the others. The differences between inputs are smaller
# than the tensors: by 3 to 10 times in the convolutional nets, where random filters see much the
# same in all images. Measured errors are half of each limit. Unrelated logits would be at 1.4, or
# 360 units of bfloat16 and 2900 of float16. TensorFlow 2.15 also sums in float16 on a CPU, which
# makes the error of a product of BERT base's size ten times that of rounding its inputs and result.
UNITS = {"lstm_gru": 8, "bert_small": 24, "bert_base": 80}
UNITS_OF_CONVOLUTIONAL_NETS = 64
# If nothing is rounded, the difference is a few units of float32, from sums in another order: 0.001
# of float16.
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
    most = UNITS.get(name, UNITS_OF_CONVOLUTIONAL_NETS)
    assert LEAST_UNITS < _difference(logits, expected) / UNIT[mode] < most


def assert_follows(mode, ledgers, logits, expected, name):
    """Asserts that the ledgers, and the error of the logits, are those expected of the mode."""
    ledgers = list(ledgers)
    if mode in UNIT:
        assert_matrix_ops_ran_low(ledgers, mode)
        assert_close_but_rounded(logits, expected, name, mode)
    else:
        assert_nothing_changed(ledgers)
        assert _difference(logits, expected) < LEAST_UNITS * UNIT["force_fp16"]


def assert_nothing_changed(ledgers):
    """Asserts that the ledgers of a model's graph and functions have no change."""
    assert sum(ledger.totals["nodes"] for ledger in ledgers) > 0
    # In force_fp32, the ledger does not list nodes that are in float32 already.
    assert {node.decision for ledger in ledgers for node in ledger.nodes} <= {"kept"}
    assert sum(ledger.totals["casts"] for ledger in ledgers) == 0


def assert_matrix_ops_ran_low(ledgers, mode):
    """Asserts that every matrix op and convolution is lowered, or has rounded inputs in cube mode.

    Args:
        ledgers: the ledgers of a model's graph and its functions.
        mode: a key of UNIT.
    """
    ledgers = list(ledgers)
    decided = [node for ledger in ledgers for node in ledger.nodes if node.op in MATRIX_OPS]
    assert decided
    if mode == "cube_fp16in_fp32out":
        assert {node.reason for node in decided} == {"inputs_rounded"}
        # Two Casts, down and up, on each of two inputs. Shared inputs are rounded once, such as
        # those of a convolution and its two gradients.
        assert sum(ledger.totals["casts"] for ledger in ledgers) > len(decided)
        return
    low = "bfloat16" if mode.endswith("bf16") else "float16"
    # This op is on the black list of CPUs.
    black = "DepthwiseConv2dNativeBackpropFilter"
    kept = [node for node in decided if node.op == black and node.decision != "lowered"]
    assert {node.reason for node in kept} <= {"black_list"}
    decided = [node for node in decided if node not in kept]
    assert {node.decision for node in decided} == {"lowered"}
    assert {tuple(node.dtypes["T"]) for node in decided} == {("float32", low)}
    # The ops between the matrix ops follow, so that the matrix ops are not islands among Casts.
    lowered = [node for ledger in ledgers for node in ledger.nodes if node.decision == "lowered"]
    assert len(lowered) > 1.5 * len(decided)


def _difference(logits, expected):
    assert logits.dtype == np.float32
    assert logits.shape == expected.shape
    return np.sqrt(np.mean((logits - expected) ** 2)) / expected.std()


def run_graph_def(graph_def, fetch, feeds, config=None):
    """The value of a tensor of a GraphDef, in a session of its own."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf1.Session(graph=graph, config=config) as session:
            return session.run(fetch, feeds)

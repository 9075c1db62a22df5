"""An op may be on another list in bfloat16 if its bfloat16 kernel adds in float32."""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import ADDS_BFLOAT16_MEANS_IN_FLOAT32, HAS_FAST_BFLOAT16, needs_kernels

SCRIPT = """
import sys

import numpy as np

import npu_precision
from npu_precision.npu_init import tf

with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [4, 8, 8], name="x")
    scores = tf.matmul(x, x, transpose_b=True, name="scores")
    tf.matmul(tf.nn.softmax(scores, name="softmax"), x, name="attention")
rewritten, ledger = npu_precision.rewrite_graph_def(
    graph.as_graph_def(), ["attention"], precision_mode=sys.argv[1]
)
decided = {node.name: node for node in ledger.nodes}
print(decided["softmax"].list, decided["softmax"].decision, decided["softmax"].listed_by)
value = np.random.RandomState(0).uniform(-1, 1, [4, 8, 8])
values = []
for graph_def in graph.as_graph_def(), rewritten:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        values.append(session.run("attention:0", {"x:0": value}))
print(np.abs(values[0] - values[1]).max() / np.abs(values[0]).max())
"""
BLACK, GRAY = "black kept built-in", "gray lowered built-in"


def softmax(run_python, mode, **environment):
    """The list of a softmax between two products; also checks the values."""
    listing, error = run_python(SCRIPT, mode, **environment).stdout.splitlines()
    assert float(error) <= {"allow_mix_precision": 1e-2, "allow_mix_precision_bf16": 5e-2}[mode]
    return listing


def test_softmax_is_gray_where_onednn_computes_it_in_bfloat16(run_python):
    want = GRAY if HAS_FAST_BFLOAT16 else BLACK
    assert softmax(run_python, "allow_mix_precision_bf16") == want


def test_softmax_is_black_in_bfloat16_without_onednn(run_python):
    environment = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert softmax(run_python, "allow_mix_precision_bf16", **environment) == BLACK


def test_softmax_is_black_in_float16(run_python):
    assert softmax(run_python, "allow_mix_precision") == BLACK


@needs_kernels("bfloat16", "BatchMatMulV2", "MatMul", "Mean")
@pytest.mark.parametrize("mode", ["allow_mix_precision", "allow_mix_precision_bf16"])
def test_mean_is_gray_in_bfloat16_where_its_kernel_adds_in_float32(mode):
    text = """
        x = Placeholder(shape=4x1024x8)
        w = Const(shape=4x8x8)
        axis = Const[int32](value=1)
        product = BatchMatMulV2(x, w)
        mean = Mean(product, axis)
        v = Const(shape=8x2)
        head = MatMul(mean, v)
        """
    result = check_rewrite(text, None, mode=mode)
    lowers = mode == "allow_mix_precision_bf16" and ADDS_BFLOAT16_MEANS_IN_FLOAT32
    assert result.reasons["mean"][0] == ("lowered" if lowers else "kept")
    assert len(result.ledger.casts) == (4 if lowers else 6)

"""An Einsum is a matrix product or a reduction, depending on its equation."""

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.tf_versions import need_kernels

tf1 = tf.compat.v1


def reason(equation, operands, **options):
    need_kernels("float16", "Einsum")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        y = tf.matmul(x, x)
        tf.raw_ops.Einsum(inputs=[y, x][:operands], equation=equation, name="e")
    return check_rewrite(graph.as_graph_def(), None, **options).reasons["e"]


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->", "ij,ij->i"])
def test_a_product_over_a_common_index_is_lowered(equation):
    assert reason(equation, 2) == ("lowered", "white_list", "")


def test_with_an_ellipsis_it_keeps_float32_where_float16_may_be_wrong():
    """TensorFlow 2.21 gives wrong values on a CPU with avx512_fp16."""
    assert reason("...j,...jk->...k", 2) == ("kept", "no_kernel", "")
    need_kernels("bfloat16", "Einsum")
    lowered = reason("...j,...jk->...k", 2, mode="allow_mix_precision_bf16")
    assert lowered == ("lowered", "white_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->", 1), ("ij->j", 1), ("ij,kl->jl", 2)])
def test_a_reduction_keeps_float32_as_a_sum_does(equation, operands):
    assert reason(equation, operands) == ("kept", "black_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->ji", 1), ("ij,kl->ijkl", 2)])
def test_without_a_sum_it_follows_its_predecessors(equation, operands):
    assert reason(equation, operands) == ("lowered", "gray_follows_lowered", "MatMul")


def test_the_angles_of_a_rotary_embedding_stay_float32():
    """Positions by frequencies: in bfloat16, position 4095 would be 4096."""
    with tf.Graph().as_default() as graph:
        positions = tf1.placeholder(tf.float32, [8], name="positions")
        frequencies = tf1.placeholder(tf.float32, [4], name="frequencies")
        tf.sin(tf.einsum("i,j->ij", positions, frequencies, name="angles"), name="end")
    reasons = check_rewrite(graph.as_graph_def(), None).reasons
    angles = [reason for name, reason in reasons.items() if name.startswith("angles")]
    assert {decision for decision, _, _ in angles} == {"kept"}


def test_the_mixlist_beats_the_equation():
    edits = '{"white-list": {"to-add": ["Einsum"]}}'
    assert reason("ij->", 1, mixlist_edits=edits) == ("lowered", "white_list", "")

"""An Einsum is a product of matrices, or a reduction: its equation says which."""

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite

tf1 = tf.compat.v1


def reason(equation, operands, **options):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 4], name="x")
        y = tf.matmul(x, x)
        tf.raw_ops.Einsum(inputs=[y, x][:operands], equation=equation, name="e")
    return check_rewrite(graph.as_graph_def(), None, **options).reasons["e"]


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->", "ij,ij->i"])
def test_a_product_over_a_common_index_is_lowered(equation):
    assert reason(equation, 2) == ("lowered", "white_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->", 1), ("ij->j", 1), ("ij,kl->jl", 2)])
def test_a_reduction_keeps_float32_as_a_sum_does(equation, operands):
    assert reason(equation, operands) == ("kept", "black_list", "")


@pytest.mark.parametrize(("equation", "operands"), [("ij->ji", 1), ("ij,kl->ijkl", 2)])
def test_without_a_sum_it_is_lowered(equation, operands):
    assert reason(equation, operands) == ("lowered", "white_list", "")


def test_the_mixlist_beats_the_equation():
    edits = '{"white-list": {"to-add": ["Einsum"]}}'
    assert reason("ij->", 1, mixlist_edits=edits) == ("lowered", "white_list", "")

"""Shapes that rewrites rely on hold in every run, also if a consumer of a tensor does not run."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import TOLERANCE
from support.text_graph import read_graph

import npu_precision

tf1 = tf.compat.v1
BF16 = "allow_mix_precision_bf16"

# The sum adds images of 8x8. The convolution gets the zeros of SAME for that size.
PAD = """
    x = Placeholder(shape=2x?x?x4)
    amounts = Const[int32](value=[[0, 0], [0, 1], [0, 1], [0, 0]])
    w = Const(shape=3x3x4x4)
    pad = Pad(x, amounts)
    conv = Conv2D(pad, w, strides=[1, 2, 2, 1], padding=VALID)
    image = Const(shape=2x8x8x4)
    {reader}
    """
# The mean over 8x8 is a pool of that size.
MEAN = """
    x = Placeholder(shape=2x?x?x4)
    w = Const(shape=1x1x4x4)
    before = Conv2D(x, w, strides=[1, 1, 1, 1], padding=SAME)
    axes = Const[int32](value=[1, 2])
    mean = Mean(before, axes, keep_dims=True)
    conv = Conv2D(mean, w, strides=[1, 1, 1, 1], padding=SAME)
    image = Const(shape=2x8x8x4)
    {reader}
    """
# The product with other weights has rows of 8.
NORM = """
    x = Placeholder(shape=?x?)
    axis = Const[int32](value=[-1])
    epsilon = Const(value=0.001)
    mean = Mean(x, axis, keep_dims=True)
    squares = SquaredDifference(x, mean)
    variance = Mean(squares, axis, keep_dims=True)
    safe = AddV2(variance, epsilon)
    root = Rsqrt(safe)
    centered = Sub(x, mean)
    conv = Mul(centered, root)
    w = Const(shape=8x8)
    image = Const(shape=3x8)
    {reader}
    """


@pytest.mark.parametrize(
    ("graph", "reader", "shape"),
    [
        (PAD, "other = AddN(x, image)", [2, 9, 7, 4]),
        (MEAN, "other = AddN(before, image)", [2, 9, 7, 4]),
        (NORM, "other = MatMul(x, w)", [3, 6]),
        (NORM, "other = AddN(x, image)", [3, 6]),
    ],
    ids=["pad", "mean", "norm, product", "norm, sum"],
)
def test_a_reader_that_is_not_fetched_says_nothing_of_a_size(graph, reader, shape):
    before = read_graph(graph.format(reader=reader))
    after, _ = npu_precision.rewrite_graph_def(before, ["conv", "other"], precision_mode=BF16)
    x = np.random.RandomState(0).randn(*shape)
    want, got = (fetched(each, x) for each in (before, after))
    assert got.shape == want.shape
    assert np.abs(got - want).max() < TOLERANCE["bfloat16"] * np.abs(want).max()


def fetched(graph_def, x):
    with tf1.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        return session.run("conv:0", {"x:0": x})

"""Products by weights that sum to zero, a Laplacian or a derivative, keep float32."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import run
from support.tf_versions import need_kernels, needs_kernels

import npu_precision

tf1 = tf.compat.v1
LAPLACE = np.float32([[0, 1, 0], [1, -4, 1], [0, 1, 0]])[:, :, None, None]
SOBEL = np.float32([[1, 0, -1], [2, 0, -2], [1, 0, -1]])[:, :, None, None]
SECOND = (np.eye(30, 32) - 2 * np.eye(30, 32, 1) + np.eye(30, 32, 2)).astype(np.float32)
ALTERNATING = np.tile(np.float32([1, -1]), [32, 16])
FOURIER = np.cos(np.outer(np.arange(32), np.arange(17)) * np.pi / 16).astype(np.float32)
RANDOM = np.random.default_rng(0)


def standardized(*shape):
    """Weights of a layer that takes the mean of each of its filters away."""
    weights = RANDOM.standard_normal(shape)
    axes = tuple(range(len(shape) - 1))
    return (weights - weights.mean(axes, keepdims=True)).astype(np.float32)


def difference_of_gaussians():
    places = np.arange(-4, 5)
    square = places[:, None] ** 2 + places**2
    narrow, wide = np.exp(-square / 2), np.exp(-square / 8)
    return (narrow / narrow.sum() - wide / wide.sum()).astype(np.float32)[:, :, None, None]


def graph_of(build, shape):
    with tf.Graph().as_default() as graph:
        tf.identity(build(tf1.placeholder(tf.float32, shape, name="x")), "end")
    return graph.as_graph_def()


def convolved(kernel):
    return graph_of(
        lambda x: tf.nn.conv2d(x, tf.constant(kernel), 1, "VALID"), [2, 32, 32, kernel.shape[2]]
    )


def product_of(graph, **options):
    options = {"precision_mode": "allow_mix_precision_bf16", "rewrites": "none", **options}
    _, ledger = npu_precision.rewrite_graph_def(graph, "end", **options)
    (node,) = (n for n in ledger.nodes if "MatMul" in n.op or "Conv" in n.op)
    return node


@needs_kernels("bfloat16", "Conv2D")
@pytest.mark.parametrize(
    "kernel",
    [
        LAPLACE,
        SOBEL,
        np.concatenate([SOBEL, np.transpose(SOBEL, [1, 0, 2, 3])], 3),
        np.float32([[-1, 1]])[:, :, None, None],
        np.float32([[3, -4, 1]])[:, :, None, None] / 3,
        np.float32([[-2, -1, 0, 1, 2]])[:, :, None, None] / 10,
        difference_of_gaussians(),
        np.concatenate([np.abs(LAPLACE), LAPLACE], 3),
    ],
    ids=[
        "Laplace",
        "Sobel",
        "two",
        "difference",
        "upwind",
        "Savitzky-Golay",
        "Gaussians",
        "beside a blur",
    ],
)
def test_a_convolution_by_a_derivative_keeps_float32(kernel):
    node = product_of(convolved(kernel))
    assert (node.decision, node.reason) == ("kept", "before_magnifier")


@needs_kernels("bfloat16", "Conv2D")
@pytest.mark.parametrize(
    "kernel",
    [
        standardized(3, 3, 1, 1),
        standardized(3, 3, 4, 8),
        RANDOM.standard_normal([3, 3, 4, 8]).astype(np.float32),
        np.zeros([3, 3, 1, 1], np.float32),
        LAPLACE + np.float32(1e-3),
        np.full([3, 3, 1, 1], np.nan, np.float32),
    ],
    ids=["one filter", "filters", "trained", "zeros", "nearly", "nan"],
)
def test_other_filters_are_lowered(kernel):
    assert product_of(convolved(kernel)).decision == "lowered"


@pytest.mark.parametrize(
    ("build", "is_kept"),
    [
        (lambda x: tf.matmul(tf.constant(SECOND), x), True),
        (lambda x: tf.matmul(x, tf.constant(SECOND), transpose_b=True), True),
        (lambda x: tf.matmul(tf.constant(SECOND.T.copy()), x, transpose_a=True), True),
        (lambda x: tf.matmul(x, tf.constant(SECOND.T.copy())), True),
        # For each output, the weights are another line.
        (lambda x: tf.matmul(x, tf.constant(ALTERNATING)), False),
        (lambda x: tf.matmul(tf.constant(ALTERNATING), x), True),
        # The cosines and sines of a Fourier transform, and the mean.
        (lambda x: tf.matmul(x, tf.constant(FOURIER)), True),
        (lambda x: tf.matmul(x, tf.constant(standardized(32, 8))), False),
        (lambda x: tf.matmul(x, tf.constant(standardized(32, 1))), False),
    ],
)
def test_so_does_a_product_by_a_matrix_of_differences(build, is_kept):
    assert (product_of(graph_of(build, [32, 32])).decision == "kept") == is_kept


def test_each_channel_of_a_depthwise_convolution_has_an_output_of_its_own():
    kernel = np.tile(LAPLACE, [1, 1, 2, 1])
    kernel[:, :, 1] *= -0.5
    depthwise = lambda kernel: graph_of(  # noqa: E731
        lambda x: tf.nn.depthwise_conv2d(x, tf.constant(kernel), [1, 1, 1, 1], "SAME"),
        [2, 32, 32, 2],
    )
    need_kernels("bfloat16", "DepthwiseConv2dNative")
    assert product_of(depthwise(kernel)).decision == "kept"
    kernel = np.float32([1.0, -1.0])[:, None] * np.ones([3, 3, 2, 1], np.float32)
    assert product_of(depthwise(kernel)).decision == "lowered"


def test_a_kernel_may_have_been_reshaped():
    kernel = np.float32([-1, 0, 1])[:, None, None]
    graph = graph_of(lambda x: tf.nn.conv1d(x, tf.constant(kernel), 1, "VALID"), [1, 40, 1])
    assert product_of(graph).decision == "kept"


def test_so_does_a_product_by_a_laplacian_that_the_graph_computes():
    def energies(x, negative=False):
        a = tf.nn.sigmoid(tf1.placeholder(tf.float32, [32, 32], name="a"))
        diagonal = tf.linalg.diag(tf.reduce_sum(a, 1))
        return tf.matmul(tf.abs(x) - a if negative else diagonal - a, x)

    assert product_of(graph_of(energies, [32, 32])).decision == "kept"
    assert product_of(graph_of(lambda x: energies(x, True), [32, 32])).decision == "lowered"


@needs_kernels("bfloat16", "Conv2D")
def test_a_constant_that_is_fed_says_nothing():
    graph = graph_of(lambda x: tf.nn.conv2d(x, tf.constant(LAPLACE), 1, "VALID"), [2, 32, 32, 1])
    (kernel,) = (node.name for node in graph.node if node.op == "Const")
    assert product_of(graph, feeds=[kernel]).decision == "lowered"


@needs_kernels("bfloat16", "Conv2D")
@pytest.mark.parametrize("entry", ["Conv2D", "node:Conv2D"])
def test_a_mixlist_entry_beats_it(entry):
    edits = json.dumps({"white-list": {"to-add": [entry]}})
    assert product_of(convolved(LAPLACE), mixlist_edits=edits).decision == "lowered"


def test_differences_of_large_values_are_those_of_float32():
    graph = graph_of(
        lambda x: tf.nn.conv2d(300.0 + x, tf.constant(LAPLACE), 1, "VALID"), [2, 32, 32, 1]
    )
    low, _ = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="allow_mix_precision_bf16"
    )
    (want,), (got,) = (run(each, ["end"]) for each in (graph, low))
    np.testing.assert_allclose(got, want, atol=1e-3)

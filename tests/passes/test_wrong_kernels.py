"""Ops stay in float32 if the kernel in the low type yields wrong values, or runs forever."""

import numpy as np
import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite, run
from support.text_graph import read_graph
from support.tf_versions import needs_kernels, needs_onednn_in_bfloat16

import npu_precision

WHITE = ["MaxPool", "MaxPoolGrad", "MaxPool3D", "MaxPool3DGrad"]


def pooled(window, strides):
    """A graph with the gradient of a max pool behind a product, as the node "end"."""
    dims = len(window)
    size = [2, *(edge + 3 if edge > 1 else 1 for edge in window), 4]
    # Multiples of 1/128, which bfloat16 and float16 hold exactly: the maxima stay where they are.
    values = np.random.default_rng(0).integers(-128, 129, size) / 128
    with tf.Graph().as_default() as graph:
        x = tf.constant(values, tf.float32)
        product = tf.reshape(tf.matmul(tf.reshape(x, [-1, 4]), tf.eye(4)), size)
        pool = tf.nn.max_pool2d if dims == 2 else tf.nn.max_pool3d
        y = pool(product, window, strides, "VALID")
        tf.identity(tf.gradients(tf.matmul(tf.reshape(y, [-1, 4]), tf.ones([4, 1])), x)[0], "end")
    return graph.as_graph_def()


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    ("window", "strides"),
    [
        ([1, 255], 1),
        ([1, 256], 1),
        ([1, 300], 1),
        ([300, 1], 300),
        ([16, 16], 1),
        ([15, 17], 2),
        ([6, 6, 7], 1),
        ([7, 7, 6], 1),
    ],
    ids=str,
)
def test_a_max_pool_with_256_places_or_more_stays_float32_in_bfloat16(window, strides):
    graph = pooled(window, strides)
    low, ledger = npu_precision.rewrite_graph_def(
        graph,
        "end",
        precision_mode="allow_mix_precision_bf16",
        modify_mixlist={"white-list": {"to-add": WHITE}},
    )
    pools = [(node.decision, node.reason) for node in ledger.nodes if node.op in WHITE]
    is_right = np.prod(window) < 256
    assert pools == [("lowered", "white_list") if is_right else ("kept", "no_kernel")] * 2
    np.testing.assert_array_equal(run(low, ["end"]), run(graph, ["end"]))


def test_in_float16_such_a_pool_is_right_and_lowered():
    graph = pooled([1, 300], 1)
    low, ledger = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="allow_mix_precision_fp16"
    )
    assert {node.decision for node in ledger.nodes if "MaxPool" in node.op} == {"lowered"}
    np.testing.assert_array_equal(run(low, ["end"]), run(graph, ["end"]))


@needs_onednn_in_bfloat16
@pytest.mark.parametrize("size", [(14, 14), (15, 2), (2, 15), (1, 15), (15, 15), (3, 31)], ids=str)
def test_a_depthwise_convolution_with_a_wide_filter_stays(size):
    """With the oneDNN of TensorFlow 2.19 it runs forever in bfloat16."""
    values = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x = tf.constant(values.random([2, 40, 40, 8], "f"))
        filters = tf.constant(values.random([*size, 8, 1], "f"))
        y = tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME", name="conv")
        tf.identity(y, "end")
    low, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16", rewrites="none"
    )
    (conv,) = (node for node in ledger.nodes if node.op == "DepthwiseConv2dNative")
    expected = ("kept", "no_kernel") if size[1] > 14 else ("lowered", "white_list")
    assert (conv.decision, conv.reason) == expected
    (want,), (got,) = run(graph.as_graph_def(), ["end"]), run(low, ["end"])
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-2)


@needs_onednn_in_bfloat16
def test_one_filter_does_not_decide_for_another():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2, 40, 40, 8], "x")
        for width in (3, 15):
            filters = tf.ones([3, width, 8, 1])
            tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME", name=f"conv{width}")
    _, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(),
        ["conv3", "conv15"],
        precision_mode="allow_mix_precision_bf16",
        rewrites="none",
    )
    decided = {n.name: n.decision for n in ledger.nodes if n.op == "DepthwiseConv2dNative"}
    assert decided == {"conv3": "lowered", "conv15": "kept"}


@needs_onednn_in_bfloat16
def test_one_window_does_not_decide_for_another():
    result = check_rewrite(
        """
        x = Placeholder(shape=1x20x20x4)
        small = MaxPool(x, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=SAME)
        large = MaxPool(x, ksize=[1, 16, 16, 1], strides=[1, 1, 1, 1], padding=SAME)
        end = AddN(small, large)
        """,
        None,
        mode="allow_mix_precision_bf16",
        modify_mixlist={"white-list": {"to-add": ["MaxPool"]}},
    )
    assert result.reasons["small"][:2] == ("lowered", "white_list")
    assert result.reasons["large"][:2] == ("kept", "no_kernel")


@needs_kernels("float16", "Einsum")
def test_one_equation_does_not_decide_for_another():
    graph = read_graph(
        """
        x = Placeholder(shape=4x4)
        w = Const(shape=4x4)
        plain = Einsum(x, w, equation=?)
        dots = Einsum(x, w, equation=?)
        end = AddN(plain, dots)
        """
    )
    plain, dots = (node for node in graph.node if node.op == "Einsum")
    plain.attr["equation"].s = b"ab,bc->ac"
    dots.attr["equation"].s = b"...b,bc->...c"
    _, ledger = npu_precision.rewrite_graph_def(
        graph, "end", precision_mode="force_fp16", rewrites="none"
    )
    assert (ledger.node("plain").decision, ledger.node("plain").reason) == ("lowered", "forced")
    assert (ledger.node("dots").decision, ledger.node("dots").reason) == ("kept", "no_kernel")


def decided(op, build, **inputs):
    """The decision about the node of an op, in bfloat16; runs both graphs and compares them."""
    values = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        arrays = {name: values.random(shape, "f") for name, shape in inputs.items()}
        tf.identity(build(**{name: tf.constant(array) for name, array in arrays.items()}), "end")
    low, ledger = npu_precision.rewrite_graph_def(
        graph.as_graph_def(), "end", precision_mode="allow_mix_precision_bf16", rewrites="none"
    )
    (want,), (got,) = run(graph.as_graph_def(), ["end"]), run(low, ["end"])
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
    (node,) = (node for node in ledger.nodes if node.op == op)
    return node.decision, node.reason


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    ("width", "channels", "filters", "is_kept"),
    [(14, 8, 8, False), (15, 8, 8, True), (15, 8, 16, False), (15, 1, 1, False)],
)
def test_a_convolution_with_a_group_for_each_channel_and_a_wide_filter_stays(
    width, channels, filters, is_kept
):
    """It runs forever with the oneDNN of TensorFlow 2.21, as a depthwise convolution does."""
    found = decided(
        "Conv2D",
        lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        x=[1, 40, 40, channels],
        w=[3, width, 1, filters],
    )
    assert found == (("kept", "no_kernel") if is_kept else ("lowered", "white_list"))


def filter_gradient(convolve):
    def build(x, w):
        return tf.gradients(convolve(x, w), w)[0]

    return build


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(
    ("channels", "groups", "dilation", "is_kept"),
    [
        (16, 1, 2, False),
        (17, 1, 2, True),
        (17, 1, 1, False),
        (24, 1, 3, True),
        (32, 1, 2, False),
        (32, 4, 2, True),
    ],
)
def test_the_filters_gradient_of_a_dilated_convolution_of_odd_channels_stays(
    channels, groups, dilation, is_kept
):
    """oneDNN's kernel yields garbage, or ends the process."""
    found = decided(
        "Conv2DBackpropFilter",
        filter_gradient(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME", dilations=dilation)),
        x=[1, 12, 12, channels],
        w=[3, 3, channels // groups, 8],
    )
    assert found == (("kept", "no_kernel") if is_kept else ("lowered", "white_list"))


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(("depth", "is_kept"), [(3, False), (5, True)])
def test_the_gradient_of_a_filter_longer_than_the_image_stays(depth, is_kept):
    """Only with padding SAME is there such a convolution. At stride 1 float32 is right."""
    found = decided(
        "Conv3DBackpropFilterV2",
        filter_gradient(lambda x, w: tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "SAME")),
        x=[1, 4, 8, 8, 4],
        w=[depth, 3, 3, 4, 4],
    )
    assert found == (("kept", "no_kernel") if is_kept else ("lowered", "white_list"))


@needs_onednn_in_bfloat16
@pytest.mark.parametrize(("channels", "is_kept"), [(17, True), (32, False)])
def test_channels_first_are_counted_where_they_are(channels, is_kept):
    """The image is 17 wide, and 17 channels are odd."""

    def build(x, dy):
        return tf.raw_ops.Conv2DBackpropFilter(
            input=x,
            filter_sizes=[3, 3, channels, 8],
            out_backprop=dy,
            strides=[1, 1, 1, 1],
            padding="SAME",
            dilations=[1, 1, 2, 2],
            data_format="NCHW",
        )

    found = decided("Conv2DBackpropFilter", build, x=[1, channels, 12, 17], dy=[1, 8, 12, 17])
    assert found == (("kept", "no_kernel") if is_kept else ("lowered", "white_list"))

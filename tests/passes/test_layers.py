"""Whole layers, forward and backward, as TensorFlow builds them.

TensorFlow's tests have these cases too: unary ops within tolerance, conv+bn with its gradients,
conv3d with its gradients, depthwise. Chains without gradients are in test_convolution_chains.py.
"""

import pytest
import tensorflow as tf
from support.check_rewrite import check_rewrite
from support.strict_zip import strict_zip
from support.text_graph import random_values
from support.tf_versions import need_kernels, needs_3d_batch_norm

tf1 = tf.compat.v1
each_mode = pytest.mark.parametrize(
    ("mode", "low"), [("allow_mix_precision", "float16"), ("allow_mix_precision_bf16", "bfloat16")]
)

UNARY = {
    "lowered": "Abs Elu Erf Identity LeakyRelu Neg Relu Relu6 Selu Sigmoid Sign Snapshot "
    "Softsign StopGradient Tanh ZerosLike",
    "kept": "Asinh Atan Cos Cosh Erfc Exp Expm1 L2Loss LogSoftmax Sin Sinh Softmax Softplus Square",
    "magnify errors": "Acos Asin Ceil Digamma Floor Lgamma Log Log1p Reciprocal Round Rsqrt "
    "Sqrt Tan",
}


def weights(name, *shape):
    return tf.constant(random_values(name, shape), name=name)


def lowered(result):
    """The op types that are lowered."""
    return {node.op for node in result.ledger.nodes if node.decision == "lowered"}


@pytest.mark.parametrize("op", UNARY["lowered"].split())
@each_mode
def test_unary_ops_that_are_lowered_behind_a_white_op(op, mode, low):
    need_kernels(low, op)
    check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        positive = Abs(white)
        unary = {op}(positive)
        end = Exp(unary)
        """,
        f"""
        white = MatMul[{low}](x/npu_cast_0_{low}, x/npu_cast_0_{low})
        positive = Abs[{low}](white)
        unary = {op}[{low}](positive)
        end = Exp[float32](unary/npu_cast_0_float32)
        """,
        mode=mode,
    )


@pytest.mark.parametrize("op", UNARY["kept"].split())
def test_unary_ops_that_keep_float32_behind_a_white_op(op):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=4x4)
        white = MatMul(x, x)
        between = Sigmoid(white)
        unary = {op}(between)
        """,
        f"""
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        between = Sigmoid[float16](white)
        unary = {op}[float32](between/npu_cast_0_float32)
        """,
    )
    assert result.reasons["unary"] == ("kept", "black_list", "")


@pytest.mark.parametrize("op", UNARY["magnify errors"].split())
def test_unary_ops_before_which_values_keep_float32_too(op):
    result = check_rewrite(
        f"""
        x = Placeholder(shape=32x32)
        white = MatMul(x, x)
        between = Sigmoid(white)
        unary = {op}(between)
        """,
        f"""
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        between = Sigmoid[float32](white/npu_cast_0_float32)
        unary = {op}[float32](between)
        """,
        # These ops jump if their argument is rounded across an integer.
        run=op not in ("Ceil", "Floor", "Round"),
    )
    assert result.reasons["between"] == ("kept", "before_magnifier", "unary")


def test_a_gray_op_without_a_kernel_for_the_low_type_keeps_float32():
    result = check_rewrite(
        """
        x = Placeholder(shape=32x32)
        white = MatMul(x, x)
        unary = Rint(white)
        end = LogSoftmax(unary)
        """,
        """
        white = MatMul[float16](x/npu_cast_0_float16, x/npu_cast_0_float16)
        unary = Rint[float32](white/npu_cast_0_float32)
        end = LogSoftmax[float32](unary)
        """,
        run=False,
    )
    assert result.reasons["unary"] == ("kept", "no_kernel", "")


@each_mode
def test_depthwise_and_pointwise_convolutions(mode, low):
    need_kernels(low, "Conv2D", "DepthwiseConv2dNative", "Relu6")
    check_rewrite(
        """
        x = Placeholder(shape=2x8x8x3)
        f = Const(shape=3x3x3x1)
        b = Const(shape=3)
        p = Const(shape=1x1x3x4)
        depthwise = DepthwiseConv2dNative(x, f, strides=[1, 1, 1, 1], padding=SAME)
        bias = BiasAdd(depthwise, b)
        relu = Relu6(bias)
        pointwise = Conv2D(relu, p, strides=[1, 1, 1, 1], padding=SAME)
        end = LogSoftmax(pointwise)
        """,
        f"""
        depthwise = DepthwiseConv2dNative[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        bias = BiasAdd[{low}](depthwise, b/npu_cast_0_{low})
        relu = Relu6[{low}](bias)
        pointwise = Conv2D[{low}](relu, p/npu_cast_0_{low})
        end = LogSoftmax[float32](pointwise/npu_cast_0_float32)
        """,
        mode=mode,
    )


def test_a_convolution_with_pooling_and_dropout():
    """The mask is drawn in float32 and multiplied in as float16."""
    check_rewrite(
        """
        x = Placeholder(shape=2x8x8x3)
        f = Const(shape=3x3x3x4)
        rate = Const(value=0.5)
        scale = Const(value=2.0)
        seed = Const[int32](value=[1, 2])
        conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
        pool = MaxPool(conv, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=VALID)
        shape = Shape(pool)
        draw = StatelessRandomUniform(shape, seed)
        keep = GreaterEqual(draw, rate)
        mask = Cast[bool,float32](keep)
        scaled = Mul(pool, scale)
        dropout = Mul(scaled, mask)
        end = Exp(dropout)
        """,
        """
        conv = Conv2D[float16](x/npu_cast_0_float16, f/npu_cast_0_float16)
        pool = MaxPool[float16](conv)
        shape = Shape[float16](pool)
        draw = StatelessRandomUniform(shape, seed)
        keep = GreaterEqual[float32](draw, rate)
        mask = Cast[bool,float16](keep)
        scaled = Mul[float16](pool, scale/npu_cast_0_float16)
        dropout = Mul[float16](scaled, mask)
        end = Exp[float32](dropout/npu_cast_0_float32)
        """,
    )


def loss_and_gradients(y, *variables):
    loss = tf.reduce_mean(tf.square(y), name="loss")
    names = [f"grad{number}" for number in range(len(variables))]
    for gradient, name in strict_zip(tf.gradients(loss, variables), names):
        tf.identity(gradient, name=name)
    return ["loss", *names]


@each_mode
def test_a_convolution_with_batch_norm_and_its_gradients(mode, low):
    need_kernels(low, "Conv2D", "FusedBatchNormV3")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4, 8, 8, 3], name="x")
        f = weights("f", 3, 3, 3, 4)
        scale, offset = weights("scale", 4), weights("offset", 4)
        y = tf.nn.conv2d(x, f, 1, "SAME", name="conv1")
        y, _, _ = tf1.nn.fused_batch_norm(y, scale, offset, name="norm")
        y = tf.nn.relu(y)
        y = tf.nn.conv2d(y, weights("g", 3, 3, 4, 4), 1, "SAME", name="conv2")
        fetches = loss_and_gradients(y, x, f, scale, offset)
    result = check_rewrite(graph.as_graph_def(), None, fetches, mode=mode)
    assert lowered(result) >= {
        "Conv2D",
        "FusedBatchNormV3",
        "Relu",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "ReluGrad",
        "FusedBatchNormGradV3",
    }
    assert not lowered(result) & {"Square", "Mean", "Sum", "Const", "Placeholder"}


@needs_3d_batch_norm
@each_mode
def test_a_convolution_in_three_dimensions_with_its_gradients(mode, low):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2, 4, 4, 4, 3], name="x")
        f = weights("f", 2, 2, 2, 3, 4)
        scale, offset = weights("scale", 4), weights("offset", 4)
        y = tf.nn.conv3d(x, f, [1] * 5, "SAME", name="conv")
        y, _, _ = tf1.nn.fused_batch_norm(y, scale, offset, data_format="NDHWC", name="norm")
        y = tf.nn.relu(y)
        fetches = loss_and_gradients(y, x, f, scale)
    result = check_rewrite(graph.as_graph_def(), None, fetches, mode=mode)
    assert lowered(result) >= {"Conv3D", "FusedBatchNormV3", "Relu"}
    assert lowered(result) >= {"Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"}


@each_mode
def test_a_dense_network_with_its_gradients(mode, low):
    """Shapes, broadcasts and reductions of the backward pass around the products."""
    need_kernels(low, "Tanh", "TanhGrad")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [8, 6], name="x")
        w1, b1, w2 = weights("w1", 6, 5), weights("b1", 5), weights("w2", 5, 3)
        y = tf.tanh(tf.matmul(x, w1) + b1)
        y = tf.nn.softmax(tf.matmul(y, w2))
        fetches = loss_and_gradients(y, w1, b1, w2)
    result = check_rewrite(graph.as_graph_def(), None, fetches, mode=mode)
    decided = {node.op for node in result.ledger.nodes if node.decision == "kept"}
    assert lowered(result) >= {"MatMul", "Tanh", "TanhGrad"}
    assert decided >= {"Mean", "Square", "Sum"}
    assert "MatMul" not in decided

"""Convolutions and the ops behind them in a network, and gradients in three dimensions.

TensorFlow's tests have these cases too: conv+bn, conv3d+bn, conv3d with gradients, conv+bn+dropout,
conv+pool, depthwise. Gradients of whole layers are in test_layers.py, batch norms by themselves in
test_node_types.py.
"""

from __future__ import annotations

import pytest
from support.check_rewrite import check_rewrite
from support.tf_versions import needs_3d_batch_norm, needs_kernels

each_mode = pytest.mark.parametrize(
    ("mode", "low"),
    [
        ("allow_mix_precision", "float16"),
        pytest.param(
            "allow_mix_precision_bf16", "bfloat16", marks=needs_kernels("bfloat16", "Conv2D")
        ),
    ],
)
IMAGE = """
    x = Placeholder(shape=2x8x8x3)
    f = Const(shape=3x3x3x4)
    scale = Const(value=[1.0, 0.5, 2.0, 0.25])
    offset = Const(shape=4)
    mean = Const(shape=4)
    variance = Const(value=[0.5, 1.0, 1.5, 2.0])
    conv = Conv2D(x, f, strides=[1, 1, 1, 1], padding=SAME)
    """


@each_mode
def test_convolution_and_batch_norm(mode, low):
    check_rewrite(
        f"""
        {IMAGE}
        norm = FusedBatchNormV3(conv, scale, offset, mean, variance, is_training=False)
        relu = Relu(norm)
        end = LogSoftmax(relu)
        """,
        f"""
        conv = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](conv, scale, offset, mean, variance)
        relu = Relu[{low}](norm)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )


@each_mode
def test_convolution_batch_norm_and_dropout(mode, low):
    """The mask is drawn and compared in float32, and its Cast yields the low type."""
    check_rewrite(
        f"""
        {IMAGE}
        none = Const(value=[])
        seed = Const[int32](value=[1, 2])
        rate = Const(value=0.25)
        factor = Const(value=1.3333)
        norm = FusedBatchNormV3(conv, scale, offset, none, none, is_training=True)
        shape = Shape(norm)
        draw = StatelessRandomUniform(shape, seed)
        keep = GreaterEqual(draw, rate)
        mask = Cast[bool,float32](keep)
        scaled = Mul(norm, factor)
        dropout = Mul(scaled, mask)
        end = LogSoftmax(dropout)
        """,
        f"""
        conv = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](conv, scale, offset, none, none)
        shape = Shape[{low}](norm)
        draw = StatelessRandomUniform(shape, seed)
        keep = GreaterEqual[float32](draw, rate)
        mask = Cast[bool,{low}](keep)
        scaled = Mul[{low}](norm, factor/npu_cast_0_{low})
        dropout = Mul[{low}](scaled, mask)
        end = LogSoftmax[float32](dropout/npu_cast_0_float32)
        """,
        mode=mode,
    )


@pytest.mark.parametrize("pool", ["MaxPool", "AvgPool"])
@each_mode
def test_convolution_and_pooling(pool, mode, low):
    check_rewrite(
        f"""
        {IMAGE}
        pool = {pool}(conv, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=VALID)
        end = LogSoftmax(pool)
        """,
        f"""
        conv = Conv2D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        pool = {pool}[{low}](conv)
        end = LogSoftmax[float32](pool/npu_cast_0_float32)
        """,
        mode=mode,
    )


@each_mode
def test_depthwise_convolution_and_batch_norm(mode, low):
    check_rewrite(
        """
        x = Placeholder(shape=2x8x8x4)
        f = Const(shape=3x3x4x1)
        s = Const(value=[1.0, 0.5, 2.0, 0.25])
        conv = DepthwiseConv2dNative(x, f, strides=[1, 1, 1, 1], padding=SAME)
        norm = FusedBatchNormV3(conv, s, s, s, s, is_training=False)
        relu = Relu6(norm)
        end = LogSoftmax(relu)
        """,
        f"""
        conv = DepthwiseConv2dNative[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](conv, s, s, s, s)
        relu = Relu6[{low}](norm)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )


VOLUME = """
    x = Placeholder(shape=2x4x4x4x3)
    f = Const(shape=2x2x2x3x4)
    s = Const(value=[1.0, 0.5, 2.0, 0.25])
    conv = Conv3D(x, f, strides=[1, 1, 1, 1, 1], padding=SAME)
    """


@needs_3d_batch_norm
@each_mode
def test_convolution_in_three_dimensions_and_batch_norm(mode, low):
    check_rewrite(
        f"""
        {VOLUME}
        norm = FusedBatchNormV3(conv, s, s, s, s, is_training=False, data_format=NDHWC)
        relu = Relu(norm)
        end = LogSoftmax(relu)
        """,
        f"""
        conv = Conv3D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        norm = FusedBatchNormV3[{low},float32](conv, s, s, s, s)
        relu = Relu[{low}](norm)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        """,
        mode=mode,
    )


@each_mode
def test_convolution_in_three_dimensions_with_its_gradients(mode, low):
    """The gradient from the loss is float32; behind ReluGrad, both gradients share its Cast."""
    check_rewrite(
        f"""
        {VOLUME}
        dy = Placeholder(shape=2x4x4x4x4)
        x_shape = Const[int32](value=[2, 4, 4, 4, 3])
        f_shape = Const[int32](value=[2, 2, 2, 3, 4])
        relu = Relu(conv)
        end = LogSoftmax(relu)
        loss = Mul(end, dy)
        back = ReluGrad(loss, relu)
        dx = Conv3DBackpropInputV2(x_shape, f, back, strides=[1, 1, 1, 1, 1], padding=SAME)
        df = Conv3DBackpropFilterV2(x, f_shape, back, strides=[1, 1, 1, 1, 1], padding=SAME)
        """,
        f"""
        conv = Conv3D[{low}](x/npu_cast_0_{low}, f/npu_cast_0_{low})
        relu = Relu[{low}](conv)
        end = LogSoftmax[float32](relu/npu_cast_0_float32)
        loss = Mul[float32](end, dy)
        back = ReluGrad[float32](loss, relu/npu_cast_0_float32)
        dx/npu_changed = Conv3DBackpropInputV2[{low}](x_shape, f/npu_cast_0_{low},
            back/npu_cast_0_{low})
        dx = Cast[{low},float32](dx/npu_changed)
        df/npu_changed = Conv3DBackpropFilterV2[{low}](x/npu_cast_0_{low}, f_shape,
            back/npu_cast_0_{low})
        df = Cast[{low},float32](df/npu_changed)
        """,
        ["dx", "df"],
        mode=mode,
    )

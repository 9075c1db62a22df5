"""Products of matrices, convolutions, pools and normalizations."""

import math

import numpy as np

from support.graph_builder import F32, result
from support.random_ops.common import around_zero, fit, registrar

MAKERS = {}
maker = registrar(MAKERS)


@maker
def matmul(b):
    x = b.pick_rank(2)
    transpose_a = b.chance(0.3)
    rows, inner = x.shape[::-1] if transpose_a else x.shape
    attrs = {"transpose_a": transpose_a, "transpose_b": b.chance(0.3), "T": F32}
    if b.chance(0.3):
        axis = 1 if attrs["transpose_b"] else 0
        y = b.pick(where=lambda tensor: len(tensor.shape) == 2 and tensor.shape[axis] == inner)
        columns, bound = y.shape[1 - axis], inner * x.bound * y.bound
    else:
        columns, bound = b.random.choice([1, 4, 8]), x.bound
        shape, axis = ((columns, inner), 1) if attrs["transpose_b"] else ((inner, columns), 0)
        y = b.weights(shape, [axis])
    b.add("MatMul", [x, y], result(F32, (rows, columns), *around_zero(bound)), **attrs)


@maker
def batch_matmul(b):
    x = b.pick_rank(3, 4)
    inner = x.shape[-1]
    adj_y = b.chance(0.5)
    if b.chance(0.4):
        axis = -1 if adj_y else -2
        y = b.pick(
            where=lambda tensor: (
                len(tensor.shape) == len(x.shape)
                and tensor.shape[:-2] == x.shape[:-2]
                and tensor.shape[axis] == inner
            )
        )
        columns, bound = y.shape[-2 if adj_y else -1], inner * x.bound * y.bound
    else:
        columns, bound = 4, x.bound
        y = b.weights((columns, inner) if adj_y else (inner, columns), [1 if adj_y else 0])
    made = result(F32, (*x.shape[:-1], columns), *around_zero(bound))
    b.add("BatchMatMulV2", [x, y], made, adj_x=False, adj_y=adj_y, T=F32)


@maker
def einsum(b):
    x = b.pick_rank(2, 3)
    y = b.weights((x.shape[-1], 3), [0])
    equation = "ij,jk->ik" if len(x.shape) == 2 else "bij,jk->bki"
    shape = (x.shape[0], 3) if len(x.shape) == 2 else (x.shape[0], 3, x.shape[1])
    made = result(F32, shape, *around_zero(x.bound))
    b.add("Einsum", [x, y], made, equation=equation, N=2, T=F32)


def windows(shape, window, stride, padding):
    """The height and width of the result of a window moved over an image."""
    if padding == "SAME":
        return [-(-side // stride) for side in shape[1:3]]
    fit(min(shape[1:3]) >= window)
    return [(side - window) // stride + 1 for side in shape[1:3]]


def window_attrs(b):
    window, stride = b.random.choice([1, 2, 3]), b.random.choice([1, 1, 2])
    return window, stride, b.random.choice(["SAME", "VALID"])


@maker
def conv2d(b):
    x = b.pick_rank(4)
    window, stride, padding = window_attrs(b)
    channels = b.random.choice([1, 3, 4])
    sides = windows(x.shape, window, stride, padding)
    kernel = b.weights((window, window, x.shape[-1], channels), [0, 1, 2])
    made = result(F32, (x.shape[0], *sides, channels), *around_zero(x.bound))
    b.add("Conv2D", [x, kernel], made, strides=[1, stride, stride, 1], padding=padding, T=F32)


@maker
def depthwise_conv2d(b):
    x = b.pick_rank(4)
    window, stride, padding = window_attrs(b)
    multiplier = b.random.choice([1, 2])
    sides = windows(x.shape, window, stride, padding)
    kernel = b.weights((window, window, x.shape[-1], multiplier), [0, 1])
    made = result(F32, (x.shape[0], *sides, x.shape[-1] * multiplier), *around_zero(x.bound))
    strides = [1, stride, stride, 1]
    b.add("DepthwiseConv2dNative", [x, kernel], made, strides=strides, padding=padding, T=F32)


@maker
def transposed_conv2d(b):
    x = b.pick_rank(4)
    shape = (*x.shape[:3], 3)
    kernel = b.weights((3, 3, 3, x.shape[-1]), [0, 1, 3])
    made = result(F32, shape, *around_zero(x.bound))
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME", "T": F32}
    b.add("Conv2DBackpropInput", [b.ints(*shape), kernel, x], made, **attrs)


@maker
def pool(b):
    x = b.pick_rank(4)
    window, stride, padding = window_attrs(b)
    sides = windows(x.shape, window, stride, padding)
    made = result(F32, (x.shape[0], *sides, x.shape[-1]), x.low, x.high)
    attrs = {"ksize": [1, window, window, 1], "strides": [1, stride, stride, 1]}
    b.add(b.random.choice(["MaxPool", "AvgPool"]), [x], made, padding=padding, T=F32, **attrs)


@maker
def batch_norm(b):
    x = b.pick_rank(4)
    training = b.chance(0.5)
    channels = x.shape[-1]
    scale, offset = b.vector(channels, 0.2, 0.5), b.vector(channels, -1, 1)
    if training:
        moments = [b.const(np.zeros(0), np.float32), b.const(np.zeros(0), np.float32)]
        count = x.size // channels
        fit(count > 1)
        bound = 1 + 0.5 * math.sqrt(count)
    else:
        moments = [b.vector(channels, -1, 1), b.vector(channels, 0.5, 2)]
        bound = 1 + 0.5 * (x.bound + 1) / math.sqrt(0.5)
    vector = result(F32, (channels,), 0, 0)
    outputs = [x.like(low=-bound, high=bound)] + [vector] * 5
    if training:
        outputs[1] = vector.like(low=x.low, high=x.high)
        outputs[2] = vector.like(low=0, high=2 * x.bound**2)
    # Outputs after the statistics are only for the gradient, and some kernels do not set them.
    attrs = {"T": F32, "U": F32, "epsilon": 0.05, "is_training": training}
    readable = 3 if training else 1
    b.add("FusedBatchNormV3", [x, scale, offset, *moments], *outputs, readable=readable, **attrs)

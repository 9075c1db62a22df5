"""The op types of the random graphs: for each, how to add one to a graph.

A maker takes operands from the builder, adds a node (and the Consts it needs) and states the
interval of the result. It raises UnfitError where the graph has no operands for it.
"""

import functools
import math

import numpy as np
from graph_builder import BF16, BOOL, F16, F32, F64, I32, I64, LIMIT, UnfitError, result

MAKERS = {}
SOURCES = {}
# These come three times as often as the others: what modes are about, and ways between types.
COMMON = ["matmul", "conv2d", "batch_matmul", "batch_norm", "cast", "compare", "select"]


def maker(function=None, *, table=MAKERS):
    if function is None:
        return functools.partial(maker, table=table)
    table[function.__name__] = function
    return function


def fit(condition):
    if not condition:
        raise UnfitError


def around_zero(bound):
    return -bound, bound


def hull(*tensors):
    return min(tensor.low for tensor in tensors), max(tensor.high for tensor in tensors)


# Sources.


def float_source(b, shape):
    value = b.numbers.uniform(-2, 2, shape).astype(np.float32)
    if b.chance(0.7):
        return b.placeholder(F32, shape, -2, 2, value)
    return b.add("Const", [], result(F32, shape, -2, 2), dtype=F32, value=value)


@maker(table=SOURCES)
def image(b):
    sides = b.random.choice([4, 6]), b.random.choice([4, 5, 6])
    float_source(b, (b.random.choice([1, 2]), *sides, b.random.choice([1, 3, 4])))


@maker(table=SOURCES)
def matrix(b):
    float_source(b, (b.random.choice([2, 4]), b.random.choice([4, 8])))


@maker
def source(b):
    kind = b.random.choice(["image", "matrix", "vector", "double", "int", "bool", "half"])
    if kind in SOURCES:
        SOURCES[kind](b)
    elif kind == "vector":
        float_source(b, (b.random.choice([1, 4, 8]),))
    elif kind == "double":
        b.placeholder(F64, (4, 8), -2, 2, b.numbers.uniform(-2, 2, (4, 8)))
    elif kind == "int":
        shape = b.random.choice([(), (3,), (4, 2)])
        b.placeholder(I32, shape, 0, 3, b.numbers.integers(0, 4, shape).astype(np.int32))
    elif kind == "bool":
        shape = b.random.choice([(), (4, 1)])
        b.placeholder(BOOL, shape, 0, 1, b.numbers.integers(0, 2, shape).astype(bool))
    else:
        value = b.numbers.uniform(-2, 2, (4, 8)).astype(np.float16)
        b.placeholder(F16, (4, 8), -2, 2, value)


# Elementwise.


def rising(function):
    return lambda low, high: (function(low), function(high))


def falling(function):
    return lambda low, high: (function(high), function(low))


def hill(function):
    """An even function that rises with the absolute value."""

    def interval(low, high):
        ends = function(low), function(high)
        return (function(0.0) if low <= 0 <= high else min(ends)), max(ends)

    return interval


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def elu(x):
    return x if x > 0 else math.expm1(x)


SAME = rising(lambda x: x)
# By op: interval of the result; where the function may be used, if not everywhere.
UNARY = {
    "Identity": (SAME,),
    "Snapshot": (SAME,),
    "StopGradient": (SAME,),
    "PreventGradient": (SAME,),
    "CheckNumerics": (SAME, {"message": "not finite"}),
    "Relu": (rising(lambda x: max(x, 0)),),
    "Relu6": (rising(lambda x: min(max(x, 0), 6)),),
    "LeakyRelu": (rising(lambda x: max(x, 0.25 * x)), {"alpha": 0.25}),
    "Elu": (rising(elu),),
    "Selu": (rising(lambda x: 1.0508 * (x if x > 0 else 1.6733 * math.expm1(x))),),
    "Sigmoid": (rising(sigmoid),),
    "Tanh": (rising(math.tanh),),
    "Softsign": (rising(lambda x: x / (1 + abs(x))),),
    "Softplus": (rising(lambda x: math.log1p(math.exp(x))),),
    "Erf": (rising(math.erf),),
    "Exp": (rising(math.exp), {}, -4, 2),
    "Expm1": (rising(math.expm1), {}, -4, 2),
    "Log": (rising(math.log), {}, 0.2, LIMIT),
    "Log1p": (rising(math.log1p), {}, -0.7, LIMIT),
    "Sqrt": (rising(math.sqrt), {}, 0.1, LIMIT),
    "Rsqrt": (falling(lambda x: x**-0.5), {}, 0.2, LIMIT),
    "Reciprocal": (falling(lambda x: 1 / x), {}, 0.3, LIMIT),
    "Square": (hill(lambda x: x * x),),
    "Abs": (hill(abs),),
    "Neg": (falling(lambda x: -x),),
    "Sin": (lambda low, high: (-1, 1),),
    "Cos": (lambda low, high: (-1, 1),),
    "Sign": (lambda low, high: (-1, 1),),
    # A value that a lowered graph moves across a step lands one step further.
    "Floor": (lambda low, high: (math.floor(low - 0.5), math.floor(high + 0.5)),),
    "Round": (lambda low, high: (round(low - 0.5), round(high + 0.5)),),
    "ZerosLike": (lambda low, high: (0, 0),),
    "OnesLike": (lambda low, high: (1, 1),),
}


def unary(op):
    given = UNARY[op]
    interval, attrs, least, most = given + (None, {}, -LIMIT, LIMIT)[len(given) :]

    def make(b):
        dtype = F64 if op in ("Tanh", "Neg", "Square") and b.chance(0.1) else F32
        x = b.pick(dtype, lambda tensor: least <= tensor.low and tensor.high <= most)
        low, high = interval(x.low, x.high)
        b.add(op, [x], x.like(low=low, high=high), T=dtype, **attrs)

    return make


MAKERS.update({op: unary(op) for op in UNARY})


def products(x, y):
    ends = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
    return min(ends), max(ends)


def quotients(x, y):
    fit(y.low > 0.3)
    ends = [p / q for p in (x.low, x.high) for q in (y.low, y.high)]
    return min(ends), max(ends)


BINARY = {
    "Add": lambda x, y: (x.low + y.low, x.high + y.high),
    "AddV2": lambda x, y: (x.low + y.low, x.high + y.high),
    "Sub": lambda x, y: (x.low - y.high, x.high - y.low),
    "Mul": products,
    "RealDiv": quotients,
    "DivNoNan": quotients,
    "Maximum": lambda x, y: (max(x.low, y.low), max(x.high, y.high)),
    "Minimum": lambda x, y: (min(x.low, y.low), min(x.high, y.high)),
    "SquaredDifference": lambda x, y: (0, max(x.high - y.low, y.high - x.low) ** 2),
}


def second_operand(b, x, low=-1, high=1):
    """Something to combine with x elementwise: a tensor of its shape, or a Const that spreads."""
    if b.chance(0.6):
        return b.pick(x.dtype, lambda tensor: tensor.shape == x.shape)
    shape = b.random.choice([(), x.shape[-1:], x.shape])
    return b.const(b.numbers.uniform(low, high, shape), x.dtype.as_numpy_dtype)


def binary(op):
    def make(b):
        dtype = (
            b.random.choice([F32] * 9 + [F64, F16]) if op in ("AddV2", "Mul", "Maximum") else F32
        )
        x = b.pick(dtype)
        y = second_operand(b, x, *((0.5, 2) if "Div" in op else (-1, 1)))
        operands = [x, y] if b.chance(0.7) or "Div" in op else [y, x]
        low, high = BINARY[op](*operands)
        b.add(op, operands, x.like(low=low, high=high), T=dtype)

    return make


MAKERS.update({op: binary(op) for op in BINARY})


@maker
def scale_down(b):
    x = b.pick(where=lambda tensor: tensor.bound > 2)
    b.add("Mul", [x, b.const(0.25, np.float32)], x.like(low=x.low / 4, high=x.high / 4), T=F32)


@maker
def power(b):
    x = b.pick(where=lambda tensor: tensor.low > 0.2)
    exponent = b.random.choice([0.5, 2.0, 3.0])
    made = x.like(low=x.low**exponent, high=x.high**exponent)
    b.add("Pow", [x, b.const(exponent, np.float32)], made, T=F32)


@maker
def add_n(b):
    x = b.pick()
    terms = [x] + [b.pick(where=lambda tensor: tensor.shape == x.shape) for _ in range(2)]
    low, high = sum(term.low for term in terms), sum(term.high for term in terms)
    b.add("AddN", terms, x.like(low=low, high=high), N=3, T=F32)


@maker
def bias_add(b):
    x = b.pick_rank(2, 3, 4)
    bias = b.vector(x.shape[-1], -1, 1)
    b.add("BiasAdd", [x, bias], x.like(low=x.low - 1, high=x.high + 1), T=F32)


@maker
def clip(b):
    x = b.pick()
    ends = b.const(-0.9, np.float32), b.const(1.1, np.float32)
    made = x.like(low=min(max(x.low, -0.9), 1.1), high=min(max(x.high, -0.9), 1.1))
    b.add("ClipByValue", [x, *ends], made, T=F32)


# Products of matrices, convolutions, pools and normalizations.


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
    """Height and width of what a window moved over an image yields."""
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
    # What is behind the statistics is for the gradient alone, and not set by every kernel.
    attrs = {"T": F32, "U": F32, "epsilon": 0.05, "is_training": training}
    readable = 3 if training else 1
    b.add("FusedBatchNormV3", [x, scale, offset, *moments], *outputs, readable=readable, **attrs)


# Reductions.


def axes_of(b, x):
    fit(x.shape)
    return sorted(b.random.sample(range(len(x.shape)), b.random.randint(1, len(x.shape))))


@maker
def reduce(b):
    x = b.pick()
    op = b.random.choice(["Sum", "Mean", "Max", "Min", "Prod"])
    axes, keep_dims = axes_of(b, x), b.chance(0.5)
    dims = [1 if axis in axes else dim for axis, dim in enumerate(x.shape)]
    count = x.size // int(np.prod(dims))
    shape = dims if keep_dims else [d for axis, d in enumerate(x.shape) if axis not in axes]
    low, high = x.low, x.high
    if op == "Sum":
        low, high = low * count, high * count
    elif op == "Prod":
        fit(count <= 6)
        low, high = around_zero(max(1, x.bound**count))
    made = result(F32, shape, low, high)
    b.add(op, [x, b.const(axes, np.int32)], made, keep_dims=keep_dims, T=F32, Tidx=I32)


@maker
def cumsum(b):
    x = b.pick_rank(1, 2, 3)
    bound = x.bound * x.shape[-1]
    axis = b.ints(len(x.shape) - 1)
    b.add("Cumsum", [x, axis], x.like(low=-bound, high=bound), T=F32, Tidx=I32)


@maker
def softmax(b):
    x = b.pick_rank(2, 3)
    if b.chance(0.7):
        b.add("Softmax", [x], x.like(low=0, high=1), T=F32)
    else:
        low = x.low - x.high - math.log(x.shape[-1])
        b.add("LogSoftmax", [x], x.like(low=low, high=0), T=F32)


@maker
def l2_loss(b):
    x = b.pick(where=lambda tensor: tensor.size <= 16)
    b.add("L2Loss", [x], result(F32, (), 0, x.size * x.bound**2 / 2), T=F32)


@maker
def top_k(b):
    x = b.pick_rank(1, 2)
    count = b.random.randint(1, x.shape[-1])
    shape = (*x.shape[:-1], count)
    outputs = x.like(shape=shape), result(I32, shape, 0, x.shape[-1] - 1)
    b.add("TopKV2", [x, b.ints(count)], *outputs, sorted=True, T=F32)


# Moving values.


@maker
def reshape(b):
    x = b.pick()
    target = b.random.choice([(x.size,), (1, x.size), (x.size, 1), None])
    if target is None and len(x.shape) > 1:
        target = (x.shape[0] * x.shape[1], *x.shape[2:])
    target = target or (1, 1, x.size)
    b.add("Reshape", [x, b.const(target, np.int32)], x.like(shape=target), T=F32, Tshape=I32)


@maker
def reshape_like(b):
    x = b.pick()
    other = b.pick(where=lambda tensor: tensor.size == x.size)
    attrs = {"T": F32, "out_type": I32}
    shape = b.add("Shape", [other], result(I32, (len(other.shape),), 0, 0), readable=0, **attrs)
    b.add("Reshape", [x, shape], x.like(shape=other.shape), T=F32, Tshape=I32)


@maker
def transpose(b):
    x = b.pick_rank(2, 3, 4)
    order = b.random.sample(range(len(x.shape)), len(x.shape))
    made = x.like(shape=tuple(x.shape[axis] for axis in order))
    b.add("Transpose", [x, b.const(order, np.int32)], made, T=F32, Tperm=I32)


@maker
def concat(b):
    x = b.pick_rank(1, 2, 3, 4)
    axis = b.random.randrange(len(x.shape))

    def joins(tensor):
        shape = tensor.shape
        return len(shape) == len(x.shape) and all(
            shape[a] == x.shape[a] for a in range(len(shape)) if a != axis
        )

    parts = [x, b.pick(where=joins), b.pick(where=joins)]
    low, high = hull(*parts)
    shape = list(x.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    made = result(F32, shape, low, high)
    b.add("ConcatV2", [*parts, b.ints(axis)], made, N=3, T=F32, Tidx=I32)


@maker
def split(b):
    x = b.pick_rank(2, 3, 4)
    axis = b.random.randrange(len(x.shape))
    parts = b.random.choice([2, 3])
    fit(x.shape[axis] % parts == 0)
    shape = list(x.shape)
    shape[axis] //= parts
    made = [x.like(shape=tuple(shape))] * parts
    b.add("Split", [b.ints(axis), x], *made, num_split=parts, T=F32)


@maker
def split_v(b):
    x = b.pick_rank(1, 2)
    fit(x.shape[-1] > 2)
    sizes = [1, x.shape[-1] - 1]
    made = [x.like(shape=(*x.shape[:-1], size)) for size in sizes]
    inputs = [x, b.const(sizes, np.int64), b.ints(len(x.shape) - 1)]
    b.add("SplitV", inputs, *made, num_split=2, T=F32, Tlen=I64)


@maker
def pack(b):
    x = b.pick_rank(0, 1, 2)
    parts = [x] + [b.pick(where=lambda tensor: tensor.shape == x.shape)] * b.random.choice([1, 2])
    low, high = hull(*parts)
    made = result(F32, (len(parts), *x.shape), low, high)
    b.add("Pack", parts, made, N=len(parts), axis=0, T=F32)


@maker
def unpack(b):
    x = b.pick(where=lambda tensor: len(tensor.shape) > 1 and 2 <= tensor.shape[0] <= 4)
    made = [x.like(shape=x.shape[1:])] * x.shape[0]
    b.add("Unpack", [x], *made, num=x.shape[0], axis=0, T=F32)


def part_of(b, x):
    begin = [b.random.randrange(dim) for dim in x.shape]
    return begin, [
        b.random.randint(first + 1, dim) for first, dim in zip(begin, x.shape, strict=True)
    ]


@maker
def slices(b):
    x = b.pick_rank(1, 2, 3, 4)
    begin, end = part_of(b, x)
    size = [last - first for first, last in zip(begin, end, strict=True)]
    made = x.like(shape=tuple(size))
    if b.chance(0.5):
        inputs = [x, b.const(begin, np.int32), b.const(size, np.int32)]
        b.add("Slice", inputs, made, T=F32, Index=I32)
    else:
        ends = [b.const(value, np.int32) for value in (begin, end, [1] * len(begin))]
        b.add("StridedSlice", [x, *ends], made, T=F32, Index=I32)


@maker
def pad(b):
    x = b.pick_rank(1, 2, 3, 4)
    op = b.random.choice(["Pad", "PadV2", "MirrorPad"])
    paddings = [[b.random.randrange(min(dim, 2)), 0] for dim in x.shape]
    shape = tuple(dim + sum(padding) for dim, padding in zip(x.shape, paddings, strict=True))
    made = x.like(shape=shape, low=min(x.low, 0), high=max(x.high, 0))
    inputs, attrs = [x, b.const(paddings, np.int32)], {"T": F32, "Tpaddings": I32}
    if op == "PadV2":
        inputs.append(b.const(0, np.float32))
    elif op == "MirrorPad":
        attrs["mode"] = "REFLECT"
    b.add(op, inputs, made, **attrs)


@maker
def tile(b):
    x = b.pick_rank(1, 2, 3)
    multiples = [b.random.choice([1, 1, 2]) for _ in x.shape]
    shape = tuple(dim * times for dim, times in zip(x.shape, multiples, strict=True))
    inputs = [x, b.const(multiples, np.int32)]
    b.add("Tile", inputs, x.like(shape=shape), T=F32, Tmultiples=I32)


@maker
def broadcast_to(b):
    x = b.pick_rank(0, 1, 2)
    shape = (2, *x.shape)
    inputs = [x, b.const(shape, np.int32)]
    b.add("BroadcastTo", inputs, x.like(shape=shape), T=F32, Tidx=I32)


@maker
def expand_dims(b):
    x = b.pick_rank(1, 2, 3)
    b.add("ExpandDims", [x, b.ints(0)], x.like(shape=(1, *x.shape)), T=F32, Tdim=I32)


@maker
def squeeze(b):
    x = b.pick(where=lambda tensor: 1 in tensor.shape)
    axis = x.shape.index(1)
    made = x.like(shape=x.shape[:axis] + x.shape[axis + 1 :])
    b.add("Squeeze", [x], made, squeeze_dims=[axis], T=F32)


@maker
def reverse(b):
    x = b.pick_rank(1, 2, 3)
    if b.chance(0.5):
        b.add("ReverseV2", [x, b.const([0], np.int32)], x.like(), T=F32, Tidx=I32)
    else:
        b.add("Roll", [x, b.ints(1), b.ints(0)], x.like(), T=F32, Tshift=I32, Taxis=I32)


@maker
def blocks(b):
    x = b.pick_rank(4)
    batch, height, width, channels = x.shape
    if height % 2 == 0 and width % 2 == 0:
        shape, op = (batch, height // 2, width // 2, channels * 4), "SpaceToDepth"
    else:
        fit(channels % 4 == 0)
        shape, op = (batch, height * 2, width * 2, channels // 4), "DepthToSpace"
    b.add(op, [x], x.like(shape=shape), block_size=2, T=F32)


@maker
def resize(b):
    x = b.pick_rank(4)
    op = b.random.choice(["ResizeNearestNeighbor", "ResizeBilinear"])
    made = x.like(shape=(x.shape[0], 5, 4, x.shape[-1]))
    b.add(op, [x, b.ints(5, 4)], made, T=F32)


@maker
def band_part(b):
    x = b.pick_rank(2, 3)
    made = x.like(low=min(x.low, 0), high=max(x.high, 0))
    b.add("MatrixBandPart", [x, b.ints(1), b.ints(0)], made, T=F32, Tindex=I32)


@maker
def gather(b):
    indices = b.pick(I32, lambda tensor: tensor.low >= 0)
    x = b.pick(where=lambda tensor: tensor.shape and tensor.shape[0] > indices.high)
    made = x.like(shape=indices.shape + x.shape[1:])
    attrs = {"Tparams": F32, "Tindices": I32, "Taxis": I32}
    b.add("GatherV2", [x, indices, b.ints(0)], made, **attrs)


@maker
def gather_nd(b):
    x = b.pick_rank(2, 3)
    indices = b.const([[b.random.randrange(x.shape[0])] for _ in range(3)], np.int32)
    made = x.like(shape=(3, *x.shape[1:]))
    b.add("GatherNd", [x, indices], made, Tparams=F32, Tindices=I32)


@maker
def identity_n(b):
    parts = [b.pick(), b.pick(b.random.choice([I32, BOOL, F64, F32])), b.pick()]
    b.add("IdentityN", parts, *[part.like() for part in parts], T=[part.dtype for part in parts])


@maker
def fill(b):
    value = b.pick(where=lambda tensor: tensor.shape == ())
    b.add("Fill", [b.ints(2, 3), value], value.like(shape=(2, 3)), T=F32, index_type=I32)


@maker
def one_hot(b):
    indices = b.pick(I32)
    ends = [b.const(1.5, np.float32), b.const(-0.5, np.float32)]
    made = result(F32, (*indices.shape, 4), -0.5, 1.5)
    b.add("OneHot", [indices, b.ints(4), *ends], made, axis=-1, T=F32, TI=I32)


# Values of other types, and the ways between them.


@maker
def compare(b):
    op = b.random.choice(["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"])
    x = b.pick(b.random.choice([F32, F32, I32]))
    y = b.pick(x.dtype, lambda tensor: tensor.shape == x.shape)
    if b.chance(0.5):
        y = b.const(1, x.dtype.as_numpy_dtype)
    b.add(op, [x, y], result(BOOL, x.shape, 0, 1), T=x.dtype)


@maker
def is_finite(b):
    x = b.pick()
    b.add("IsFinite", [x], result(BOOL, x.shape, 1, 1), T=F32)


@maker
def logical(b):
    x = b.pick(BOOL)
    if b.chance(0.3):
        b.add("LogicalNot", [x], x.like(low=0, high=1))
    else:
        y = b.pick(BOOL, lambda tensor: tensor.shape == x.shape)
        b.add(b.random.choice(["LogicalAnd", "LogicalOr"]), [x, y], x.like(low=0, high=1))


@maker
def select(b):
    x = b.pick()
    y = b.pick(where=lambda tensor: tensor.shape == x.shape)
    low, high = hull(x, y)
    made = x.like(low=low, high=high)
    if b.chance(0.5):
        condition = b.pick(BOOL, lambda tensor: tensor.shape in ((), x.shape))
    else:
        condition = b.add("Less", [x, y], result(BOOL, x.shape, 0, 1), T=F32)
    op = "Select" if condition.shape == x.shape and b.chance(0.5) else "SelectV2"
    b.add(op, [condition, x, y], made, T=F32)


@maker
def branch(b):
    x = b.pick()
    try:
        predicate = b.pick(BOOL, lambda tensor: tensor.shape == ())
    except UnfitError:
        predicate = b.placeholder(BOOL, (), 0, 1, np.asarray(b.chance(0.5)))
    taken = b.add("Switch", [x, predicate], x.like(), x.like(), readable=0, T=F32)
    ends = [
        b.add(op, [end], end.like(low=-x.bound, high=x.bound), readable=0, T=F32)
        for op, end in zip(["Relu", "Neg"], taken, strict=True)
    ]
    made = x.like(low=-x.bound, high=x.bound)
    b.add("Merge", ends, made, result(I32, (), 0, 1), N=2, T=F32)


@maker
def arg_max(b):
    x = b.pick_rank(1, 2, 3)
    op = b.random.choice(["ArgMax", "ArgMin"])
    made = result(I32, x.shape[:-1], 0, x.shape[-1] - 1)
    axis = b.ints(len(x.shape) - 1)
    b.add(op, [x, axis], made, T=F32, Tidx=I32, output_type=I32)


@maker
def measure(b):
    x = b.pick()
    op = b.random.choice(["Shape", "Size", "Rank"])
    # The bound is on floats; sizes are none.
    most = LIMIT if op == "Rank" else 0
    made = result(I32, (len(x.shape),) if op == "Shape" else (), 0, most)
    attrs = {} if op == "Rank" else {"out_type": I32}
    b.add(op, [x], made, T=F32, readable=None if op == "Rank" else 0, **attrs)


@maker
def int_arithmetic(b):
    x = b.pick(I32)
    op = b.random.choice(["AddV2", "Maximum", "Neg"])
    if op == "Neg":
        b.add(op, [x], x.like(low=-x.high, high=-x.low), T=I32)
        return
    y = b.pick(I32, lambda tensor: tensor.shape == x.shape)
    low, high = BINARY[op](x, y)
    b.add(op, [x, y], x.like(low=low, high=high), T=I32)


CASTS = [
    (F32, F64),
    (F64, F32),
    (F32, F16),
    (F16, F32),
    (F32, BF16),
    (BF16, F32),
    (I32, F32),
    (BOOL, F32),
    (F32, I32),
    (BOOL, I32),
    (F64, F16),
]


@maker
def cast(b):
    source_type, target_type = b.random.choice(CASTS)
    x = b.pick(source_type)
    made = x.like(dtype=target_type)
    if target_type == I32:
        made = made.like(low=math.trunc(x.low - 0.5), high=math.trunc(x.high + 0.5))
    b.add("Cast", [x], made, SrcT=source_type, DstT=target_type)


@maker
def half_arithmetic(b):
    dtype = b.random.choice([F16, BF16])
    x = b.pick(dtype)
    op = b.random.choice(["Relu", "Tanh", "MatMul"])
    if op != "MatMul":
        low, high = UNARY[op][0](x.low, x.high)
        b.add(op, [x], x.like(low=low, high=high), T=dtype)
        return
    fit(len(x.shape) == 2)
    y = b.pick(dtype, lambda tensor: len(tensor.shape) == 2 and tensor.shape[0] == x.shape[1])
    made = result(dtype, (x.shape[0], y.shape[1]), *around_zero(x.shape[1] * x.bound * y.bound))
    b.add("MatMul", [x, y], made, T=dtype)

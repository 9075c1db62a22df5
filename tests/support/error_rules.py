"""Propagates the errors of an op's inputs to its outputs: a rule for each op type.

The rules are rigorous for kernels that round once per operation, and hold for any order of
additions. The op's Lipschitz constant at its input values scales the errors of the inputs. The
rules for sums add half a unit in the last place for every addition. The rules do not cover the
rounding of the result.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import tensorflow as tf

INF = math.inf
# Half a unit in the last place of the number 1.
UNIT = {tf.float16: 2.0**-11, tf.bfloat16: 2.0**-8, tf.float32: 2.0**-24}
# Half the distance of float16's subnormal numbers.
SMALLEST = 2.0**-25


def largest(array):
    return float(np.abs(array).max(initial=0))


@dataclasses.dataclass
class Node:
    """The arguments of an op's rule.

    Attributes:
        op, attr: those of the NodeDef.
        v: values of the inputs.
        e: bounds of the inputs, with the rounding on their way in.
        out: values of the outputs.
        u: unit of the type the node computes in.
    """

    op: str
    attr: object
    v: list[np.ndarray]
    e: list[float]
    out: list[np.ndarray]
    u: float

    def axes(self, index):
        """Input `index` as a tuple of axes."""
        return tuple(int(axis) for axis in np.atleast_1d(self.v[index]))


def size_of(sizes):
    return int(np.prod(list(sizes)))


def quotient(error, least):
    return error / least if least > 0 else INF


def no_step(distance, error):
    """0 if all values are further from a step than their error, else inf."""
    return 0.0 if error == 0 or np.min(distance, initial=INF) > error else INF


def contraction(n, x, y, summed):
    """A sum of products over the axes `summed` of input y."""
    terms = size_of(n.v[y].shape[axis] for axis in summed)
    weight = float(np.abs(n.v[y]).sum(axis=summed).max())
    most = largest(n.v[x])
    error = n.e[x] * weight + n.e[y] * terms * most + n.e[x] * n.e[y] * terms
    return error + terms * n.u * most * weight


def matmul(n):
    return contraction(n, 0, 1, (1 if n.attr["transpose_b"].b else 0,))


def batch_matmul(n):
    rank = n.v[1].ndim
    return contraction(n, 0, 1, (rank - 1 if n.attr["adj_y"].b else rank - 2,))


def batch_norm(n):
    x, scale, offset, mean, variance = n.v
    error, error_of_scale, error_of_offset, error_of_mean, error_of_variance = n.e
    of_mean, least_variance = error_of_mean, np.min(variance, initial=INF)
    if n.attr["is_training"].b:
        count = x.size // x.shape[-1]
        mean, least_variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2)).min()
        of_mean = error
    away = largest(x - mean)
    if n.attr["is_training"].b:
        error_of_variance = (2 * away * error + error**2) * count / (count - 1)
    spread = math.sqrt(least_variance + n.attr["epsilon"].f)
    # The derivatives hold for errors that are small next to the spread, so their sum is doubled.
    if error > spread / 4 or error_of_variance > spread**2 / 4:
        return [INF, of_mean, error_of_variance]
    of_y = 2 * largest(scale) * (error + of_mean) / spread
    of_y += largest(scale) * away * error_of_variance / spread**3
    of_y += error_of_scale * away / spread + error_of_offset
    return [of_y + n.u * largest(offset), of_mean, error_of_variance]


def summed(n, exact_factor=1.0):
    """Sum, or Mean if given its factor: the terms' errors, and one rounding per addition."""
    axes = n.axes(1)
    terms = size_of(n.v[0].shape[axis] for axis in axes)
    total = largest(np.abs(n.v[0]).sum(axis=axes))
    return exact_factor * terms * (n.e[0] + n.u * total)


def mean(n):
    return summed(n, 1 / size_of(n.v[0].shape[axis] for axis in n.axes(1)))


def product(n):
    terms = size_of(n.v[0].shape[axis] for axis in n.axes(1))
    most = max(1.0, largest(n.v[0]) + n.e[0])
    return terms * (most ** (terms - 1) * n.e[0] + n.u * most**terms)


def cumsum(n):
    terms = n.v[0].shape[-1]
    return terms * (n.e[0] + n.u * float(np.abs(n.v[0]).sum(axis=-1).max()))


def l2_loss(n):
    total = float(np.abs(n.v[0]).sum()) * n.e[0] + n.v[0].size * n.e[0] ** 2 / 2
    return total + n.v[0].size * n.u * largest(n.out[0])


def average_pool(n):
    return n.e[0] + size_of(n.attr["ksize"].list.i) * n.u * largest(n.v[0])


def division(n):
    error = n.e[0] + largest(n.out[0]) * n.e[1]
    return quotient(error, float(np.abs(n.v[1]).min()) - n.e[1])


def power(n):
    exponent = float(n.v[1])
    if exponent >= 1:
        return exponent * (largest(n.v[0]) + n.e[0]) ** (exponent - 1) * n.e[0]
    return quotient(n.e[0] / 2, math.sqrt(max(n.v[0].min() - n.e[0], 0)))


def gap_of_best(values):
    best = np.sort(values, axis=-1)
    return best[..., -1] - best[..., -2] if best.shape[-1] > 1 else np.asarray(INF)


def top_k(n):
    count = int(n.v[1])
    best = np.sort(n.v[0], axis=-1)[..., ::-1][..., : count + 1]
    return [n.e[0], no_step(-np.diff(best, axis=-1), 2 * n.e[0])]


def compare(n):
    return no_step(np.abs(n.v[0] - n.v[1]), n.e[0] + n.e[1])


def cast(n):
    if tf.as_dtype(n.attr["DstT"].type).is_floating:
        return n.e[0]
    return no_step(np.abs(n.v[0] - np.round(n.v[0])), n.e[0])


def least(n):
    return float(n.v[0].min()) - n.e[0]


# Ops that forward values, or choose among them, and round nothing.
EXACT = {
    op: lambda n: max(n.e)
    for op in (
        "Enter NextIteration Exit LoopCond "
        "Identity Snapshot StopGradient PreventGradient CheckNumerics Relu Relu6 Neg Abs Maximum "
        "Minimum ClipByValue Max Min MaxPool Reshape Transpose ConcatV2 Split SplitV Pack Unpack "
        "Slice StridedSlice Pad PadV2 MirrorPad Tile BroadcastTo ExpandDims Squeeze ReverseV2 Roll "
        "SpaceToDepth DepthToSpace ResizeNearestNeighbor MatrixBandPart GatherV2 GatherNd Fill "
        "OneHot Select SelectV2 "
        # A handle, and the flow that goes with it, has the largest error of the values written.
        "StackV2 StackPushV2 StackPopV2 TensorArrayV3 TensorArrayWriteV3 TensorArrayScatterV3 "
        "TensorArrayReadV3 TensorArrayGatherV3 TensorListReserve TensorListFromTensor "
        "TensorListSetItem TensorListPushBack TensorListPopBack TensorListGetItem TensorListStack"
    ).split()
}
EXACT.update(
    {
        "IdentityN": lambda n: n.e,
        "Switch": lambda n: [max(n.e)] * 2,
        "Merge": lambda n: [max(n.e), 0],
        "TopKV2": top_k,
        "Sign": lambda n: no_step(np.abs(n.v[0]), n.e[0]),
        "Floor": lambda n: no_step(np.abs(n.v[0] - np.round(n.v[0])), n.e[0]),
        "Round": lambda n: no_step(np.abs(n.v[0] - np.floor(n.v[0]) - 0.5), n.e[0]),
        "ArgMax": lambda n: no_step(gap_of_best(n.v[0]), 2 * n.e[0]),
        "ArgMin": lambda n: no_step(gap_of_best(-n.v[0]), 2 * n.e[0]),
    }
)
EXACT.update(dict.fromkeys("Less LessEqual Greater GreaterEqual Equal NotEqual".split(), compare))
# Ops that only use the shape of their input, or whether its values are numbers.
VALUE_FREE = "Shape Size Rank ZerosLike OnesLike IsFinite".split()

# The steepest slope, for elementwise functions that have one.
SLOPE = {
    "LeakyRelu": 1,
    "Elu": 1,
    "Selu": 1.76,
    "Sigmoid": 0.25,
    "Tanh": 1,
    "Softsign": 1,
    "Softplus": 1,
    "Erf": 1.13,
    "Sin": 1,
    "Cos": 1,
    "Softmax": 0.5,
    "LogSoftmax": 2,
    "ResizeBilinear": 1,
}
ROUNDED = {op: (lambda n, slope=slope: slope * max(n.e)) for op, slope in SLOPE.items()}
ROUNDED.update({op: lambda n: sum(n.e) for op in ("Add", "AddV2", "Sub", "BiasAdd")})
ROUNDED.update(
    {
        "Cast": cast,
        "AddN": lambda n: sum(n.e) + len(n.e) * n.u * sum(largest(value) for value in n.v),
        "Mul": lambda n: largest(n.v[0]) * n.e[1] + largest(n.v[1]) * n.e[0] + n.e[0] * n.e[1],
        "RealDiv": division,
        "DivNoNan": division,
        "Square": lambda n: 2 * largest(n.v[0]) * n.e[0] + n.e[0] ** 2,
        "SquaredDifference": lambda n: (
            2 * largest(n.v[0] - n.v[1]) * sum(n.e) + sum(n.e) ** 2 + 2 * n.u * largest(n.out[0])
        ),
        "Pow": power,
        "Exp": lambda n: n.e[0] * math.exp(n.v[0].max() + n.e[0]),
        "Expm1": lambda n: n.e[0] * math.exp(n.v[0].max() + n.e[0]),
        "Log": lambda n: quotient(n.e[0], least(n)),
        "Log1p": lambda n: quotient(n.e[0], 1 + least(n)),
        "Sqrt": lambda n: quotient(n.e[0] / 2, math.sqrt(max(least(n), 0))),
        "Rsqrt": lambda n: quotient(n.e[0] / 2, max(least(n), 0) ** 1.5),
        "Reciprocal": lambda n: quotient(n.e[0], max(least(n), 0) ** 2),
        "MatMul": matmul,
        "BatchMatMulV2": batch_matmul,
        "Einsum": lambda n: contraction(n, 0, 1, (0,)),
        "Conv2D": lambda n: contraction(n, 0, 1, (0, 1, 2)),
        "DepthwiseConv2dNative": lambda n: contraction(n, 0, 1, (0, 1)),
        "Conv2DBackpropInput": lambda n: contraction(n, 2, 1, (0, 1, 3)),
        "FusedBatchNormV3": batch_norm,
        "AvgPool": average_pool,
        "Sum": summed,
        "Mean": mean,
        "Prod": product,
        "Cumsum": cumsum,
        "L2Loss": l2_loss,
    }
)
# Kernels whose order of additions depends on their buffers: AddN adds into a free input buffer; two
# runs of a Conv2D in TensorFlow 2.21 differed by a unit.
ORDER_OF_CHANCE = ("AddN", "Conv2D")
# Kernels that round after each of several steps: their measured error, in units of
# max(1, |result|), rounded up.
STEPS = {
    "Sigmoid": 2,
    "Softsign": 2,
    "Softplus": 5,
    "Elu": 1,
    "Selu": 3,
    "Softmax": 2,
    "LogSoftmax": 2,
}

RULES = {**EXACT, **ROUNDED}

"""Functions of one element, of two, and of an element and its bias."""

import math

import numpy as np

from support.graph_builder import F16, F32, F64, LIMIT
from support.random_ops.common import fit, registrar

MAKERS = {}
maker = registrar(MAKERS)


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
# By op: the interval of the result, and the function's domain if it is limited.
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
    # If lowering moves a value across a step, the result is one step further.
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
    """An operand to combine with x elementwise: a tensor of its shape, or a Const to broadcast."""
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

"""Values of dtypes other than float32, and conversions to and from them."""

import math

import numpy as np

from support.graph_builder import BF16, BOOL, F16, F32, F64, I32, LIMIT, UnfitError, result
from support.random_ops.common import around_zero, fit, hull, registrar
from support.random_ops.elementwise import BINARY, UNARY
from support.strict_zip import strict_zip
from support.tf_versions import has_kernel

MAKERS = {}
maker = registrar(MAKERS)


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
        for op, end in strict_zip(["Relu", "Neg"], taken)
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
    # The bound is for floats only, not for sizes.
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
    fit(has_kernel(op, dtype))  # TensorFlow 1.15 has no Tanh of bfloat16.
    if op != "MatMul":
        low, high = UNARY[op][0](x.low, x.high)
        b.add(op, [x], x.like(low=low, high=high), T=dtype)
        return
    fit(len(x.shape) == 2)
    y = b.pick(dtype, lambda tensor: len(tensor.shape) == 2 and tensor.shape[0] == x.shape[1])
    made = result(dtype, (x.shape[0], y.shape[1]), *around_zero(x.shape[1] * x.bound * y.bound))
    b.add("MatMul", [x, y], made, T=dtype)

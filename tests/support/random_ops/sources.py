"""Placeholders, and Consts for values that are known before the run."""

import numpy as np

from support.graph_builder import BOOL, F16, F32, F64, I32, result
from support.random_ops.common import registrar

MAKERS = {}
maker = registrar(MAKERS)


def float_source(b, shape):
    value = b.numbers.uniform(-2, 2, shape).astype(np.float32)
    if b.chance(0.7):
        return b.placeholder(F32, shape, -2, 2, value)
    return b.add("Const", [], result(F32, shape, -2, 2), dtype=F32, value=value)


@maker
def image(b):
    sides = b.random.choice([4, 6]), b.random.choice([4, 5, 6])
    float_source(b, (b.random.choice([1, 2]), *sides, b.random.choice([1, 3, 4])))


@maker
def matrix(b):
    float_source(b, (b.random.choice([2, 4]), b.random.choice([4, 8])))


@maker
def vector(b):
    float_source(b, (b.random.choice([1, 4, 8]),))


@maker
def other_source(b):
    dtype = b.random.choice([F64, F16, I32, BOOL])
    if dtype == I32:
        shape = b.random.choice([(), (3,), (4, 2)])
        b.placeholder(I32, shape, 0, 3, b.numbers.integers(0, 4, shape).astype(np.int32))
    elif dtype == BOOL:
        shape = b.random.choice([(), (4, 1)])
        b.placeholder(BOOL, shape, 0, 1, b.numbers.integers(0, 2, shape).astype(bool))
    else:
        value = b.numbers.uniform(-2, 2, (4, 8)).astype(dtype.as_numpy_dtype)
        b.placeholder(dtype, (4, 8), -2, 2, value)

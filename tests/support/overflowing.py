"""A model in which one op overflows in float16, to test the tools that find such an op."""

from __future__ import annotations

import numpy as np

EMULATED = ("--mode", "allow_mix_precision", "--emulate")
# In float16 only large/product overflows; Tanh brings it back to 1.
OVERFLOW = """
    x = Placeholder(shape=8x8)
    factor = Placeholder(shape=8x8)
    w = Const(shape=8x8)
    small/product = MatMul(x, w)
    small/hidden = Relu(small/product)
    large/product = MatMul(small/hidden, factor)
    large/bounded = Tanh(large/product)
    end/product = MatMul(large/bounded, w)
    end/hidden = Relu(end/product)
    out = MatMul(end/hidden, w)
    """


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)

"""Reductions along axes, and softmax."""

import math

import numpy as np

from support.graph_builder import F32, I32, result
from support.random_ops.common import around_zero, fit, registrar

MAKERS = {}
maker = registrar(MAKERS)


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

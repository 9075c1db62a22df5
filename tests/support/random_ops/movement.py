"""Ops that move values, or pick some of them, and compute nothing."""

import numpy as np

from support.graph_builder import BOOL, F32, F64, I32, I64, result
from support.random_ops.common import fit, hull, registrar
from support.strict_zip import strict_zip

MAKERS = {}
maker = registrar(MAKERS)


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
    return begin, [b.random.randint(first + 1, dim) for first, dim in strict_zip(begin, x.shape)]


@maker
def slices(b):
    x = b.pick_rank(1, 2, 3, 4)
    begin, end = part_of(b, x)
    size = [last - first for first, last in strict_zip(begin, end)]
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
    shape = tuple(dim + sum(padding) for dim, padding in strict_zip(x.shape, paddings))
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
    shape = tuple(dim * times for dim, times in strict_zip(x.shape, multiples))
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

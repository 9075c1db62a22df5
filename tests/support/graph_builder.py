"""Builds GraphDefs whose float values stay small, for the property tests.

Every tensor has an interval that holds its values. A node is only added if its result stays within
LIMIT, because otherwise the error of a lowered graph has no bound.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import re

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2

LIMIT = 8.0
MAX_ELEMENTS = 1024

F16, BF16, F32, F64 = tf.float16, tf.bfloat16, tf.float32, tf.float64
I32, I64, BOOL = tf.int32, tf.int64, tf.bool
HANDLES = RESOURCE, VARIANT = tf.resource, tf.variant

DEVICES = ["", "/cpu:0", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"]
SCOPES = ["", "tower_0/", "tower_1/block/"]


class UnfitError(Exception):
    """The graph has no operands that the op could take."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of the graph, and an interval that holds its values."""

    name: str
    dtype: tf.DType
    shape: tuple[int, ...]
    low: float
    high: float

    @property
    def size(self):
        return int(np.prod(self.shape))

    @property
    def bound(self):
        return max(abs(self.low), abs(self.high))

    @property
    def input(self):
        return re.sub(":0$", "", self.name)

    def like(self, **changes):
        return dataclasses.replace(self, name="", **changes)


@dataclasses.dataclass
class Frame:
    """A loop that is being built.

    Attributes:
        name: the name of its frame.
        parallel_iterations: the attribute of its Enters.
        pivot: a tensor that is dead once the loop is over.
        dying: names of all nodes that are dead then, or have a dead output.
        switches: the names in `dying` that are a Switch.
    """

    name: str
    parallel_iterations: int
    pivot: Tensor | None = None
    dying: set[str] = dataclasses.field(default_factory=set)
    switches: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True)
class Call:
    """The functions that a node calls.

    Attributes:
        functions: the names of those that run, in order; each gets the results of the previous one.
        skipped: how many inputs of the node are not arguments.
    """

    functions: list[str]
    skipped: int = 0


def result(dtype, shape, low, high):
    """An output of a node that will be added later."""
    return Tensor("", dtype, tuple(int(dim) for dim in shape), float(low), float(high))


def attr_value(value):
    """The AttrValue of a Python value; a tuple is a shape, a list is a list."""
    if isinstance(value, tf.DType):
        return attr_value_pb2.AttrValue(type=value.as_datatype_enum)
    if isinstance(value, attr_value_pb2.AttrValue):
        return value
    if isinstance(value, bool):
        return attr_value_pb2.AttrValue(b=value)
    if isinstance(value, int):
        return attr_value_pb2.AttrValue(i=value)
    if isinstance(value, float):
        return attr_value_pb2.AttrValue(f=value)
    if isinstance(value, str):
        return attr_value_pb2.AttrValue(s=value.encode())
    if isinstance(value, np.ndarray):
        return attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto(value))
    if isinstance(value, (tuple, tf.TensorShape)):
        return attr_value_pb2.AttrValue(shape=tf.TensorShape(value).as_proto())
    found = attr_value_pb2.AttrValue()
    for item in value:
        if isinstance(item, tf.DType):
            found.list.type.append(item.as_datatype_enum)
        elif isinstance(item, str):
            found.list.s.append(item.encode())
        else:
            found.list.i.append(item)
    return found


class Builder:
    """Adds nodes, and finds operands for the makers.

    Attributes:
        frames: the loops that are being built, outermost first.
        frame_of: names of the loops around each node, outermost first, by its name.
        trips: how many iterations each loop makes, by its name.
        readable: how many of a node's outputs can be read at all, by its name.
        calls: by the name of each node that calls functions, the Call.
        function: the name of the function whose body is being built, "" for the graph.
        bodies: the finished bodies' builders by function name, "" for the graph.
    """

    def __init__(self, seed):
        self.arguments = []
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.graph_def = graph_pb2.GraphDef()
        self.graph_def.versions.CopyFrom(tf.Graph().as_graph_def().versions)
        self.feeds = {}
        self.fed_inside = []
        self.constants = {}
        self.fetches = []
        self.tensors = []
        self.frames = []
        self.frame_of = {}
        self.trips = {}
        self.readable = {}
        self.calls = {}
        self.function = ""
        self.bodies = {"": self}

    def body(self, arguments):
        """A builder of a function's body, whose operands are like the arguments."""
        body = copy.copy(self)
        body.function = f"function_{len(self.bodies)}"
        self.bodies[body.function] = body
        body.graph_def = graph_pb2.GraphDef(versions=self.graph_def.versions)
        body.feeds, body.fed_inside, body.constants, body.fetches = {}, [], {}, []
        body.tensors, body.frames, body.frame_of, body.readable, body.calls = [], [], {}, {}, {}
        body.arguments = [
            body.flow("Placeholder", [], tensor.like(), dtype=tensor.dtype) for tensor in arguments
        ]
        body.tensors += [tensor for tensor in body.arguments if tensor.dtype not in HANDLES]
        return body

    def chance(self, probability):
        return self.random.random() < probability

    def add(self, op, inputs, *outputs, readable=None, **attrs):
        """Adds a node; returns its outputs, as one Tensor or a list of them.

        The first `readable` outputs (all, if None) may become operands and fetches.
        """
        if any(output.size > MAX_ELEMENTS or output.bound > LIMIT for output in outputs):
            raise UnfitError
        node, named = self._node(op, inputs, outputs, attrs)
        self.readable[node.name] = len(named[:readable])
        if self.chance(0.04):
            node.attr["_keep_dtype"].i = 1
        if self.tensors and self.chance(0.06):
            node.input.append("^" + self._other_node())
        if self.tensors and self.chance(0.03):
            node.attr["_class"].CopyFrom(attr_value(["loc:@" + self._other_node()]))
        if self.frames and not inputs:
            node.input.append("^" + self.frames[-1].pivot.input)
        self._follow_death(node)

        for tensor in named[:readable]:
            self.offer(tensor)
        alone = len(named) == 1 and readable is None and not self.frames and not self.function
        if alone and named[0].dtype == F32 and self.chance(0.01):
            value = self.numbers.uniform(named[0].low, named[0].high, named[0].shape)
            self.feeds[named[0].name] = value.astype(np.float32)
            if op != "Placeholder":
                self.fed_inside.append(named[0].name)
        return named[0] if len(named) == 1 else named

    def offer(self, tensor):
        """Lets a tensor be an operand, and a fetch if it is in no loop."""
        self.tensors.append(tensor)
        if self.chance(0.04) and not self.frames:
            self.fetches.append(tensor.name)

    def flow(self, op, inputs, *outputs, **attrs):
        """Adds a node for control flow or a handle; it is never fed, and not yet an operand."""
        node, named = self._node(op, inputs, outputs, attrs)
        self.readable[node.name] = int(all(made.dtype not in HANDLES for made in outputs))
        if self.chance(0.02):
            node.attr["_keep_dtype"].i = 1
        self._follow_death(node)
        return named[0] if len(named) == 1 else named

    def _node(self, op, inputs, outputs, attrs):
        node = self.graph_def.node.add(op=op)
        node.name = f"{self.random.choice(SCOPES)}{op.lower()}_{len(self.graph_def.node)}"
        node.input.extend(tensor.input for tensor in inputs)
        node.device = self.random.choice(DEVICES) if self.chance(0.3) else ""
        for name, value in attrs.items():
            node.attr[name].CopyFrom(attr_value(value))
        self.frame_of[node.name] = tuple(frame.name for frame in self.frames)
        return node, [
            dataclasses.replace(output, name=f"{node.name}:{index}")
            for index, output in enumerate(outputs)
        ]

    def _follow_death(self, node):
        """Records whether the node is dead when its loop is over, because an input is."""
        if not self.frames:
            return
        dying = self.frames[-1].dying
        # A Switch itself never dies; its outputs do.
        controls = {name[1:] for name in node.input if name[0] == "^"} - self.frames[-1].switches
        reads = {name.partition(":")[0] for name in node.input if name[0] != "^"}
        if dying & (controls | reads):
            dying.add(node.name)

    def _other_node(self):
        return self.random.choice(self.tensors).name.partition(":")[0]

    def pick(self, dtype=F32, where=lambda tensor: True):
        """A tensor to use as operand; later ones are more likely."""
        found = [tensor for tensor in self.tensors if tensor.dtype == dtype and where(tensor)]
        if not found:
            raise UnfitError
        recent = found[-5:] if self.chance(0.5) else found
        return self.random.choice(recent)

    def pick_rank(self, *ranks):
        return self.pick(where=lambda tensor: len(tensor.shape) in ranks)

    def const(self, value, dtype=None):
        """A Const; one that holds weights may be read through an Identity, as in frozen graphs."""
        if self.frames and self.chance(0.6):
            with self.outside() as enter:
                return enter(self.const(value, dtype))
        array = np.asarray(value, dtype=dtype)
        kind = tf.as_dtype(array.dtype)
        made = result(kind, array.shape, 0, 0)
        if kind.is_floating and array.size:  # ints are sizes and indices, which need no bound
            made = made.like(low=float(array.min()), high=float(array.max()))
        tensor = self.add("Const", [], made, dtype=kind, value=array, readable=0)
        self.constants[tensor.name] = array
        if kind == F32 and array.size and self.chance(0.3):
            return self.add("Identity", [tensor], made, T=F32)
        return tensor

    def ints(self, *values, dtype=np.int32):
        """A Const of ints, such as axes and sizes; one value makes a scalar."""
        return self.const(values[0] if len(values) == 1 else list(values), dtype)

    def weights(self, shape, contracted):
        """A Const whose absolute values sum to one over the contracted axes."""
        array = self.numbers.uniform(-1, 1, shape).astype(np.float32)
        return self.const(array / np.abs(array).sum(axis=tuple(contracted), keepdims=True))

    def vector(self, size, low, high):
        return self.const(self.numbers.uniform(low, high, size).astype(np.float32))

    @contextlib.contextmanager
    def outside(self):
        """Context for nodes outside of all loops; yields a function that brings a tensor inside."""
        frames, tensors, fetches = self.frames, self.tensors, self.fetches
        self.frames, self.tensors, self.fetches = [], [], []

        def enter(tensor):
            for depth in range(len(frames)):
                self.frames = frames[: depth + 1]
                tensor = self.enter(tensor)
            return tensor

        try:
            yield enter
        finally:
            self.frames, self.tensors, self.fetches = frames, tensors, fetches

    def enter(self, tensor, is_constant=True):
        """The tensor, brought into the innermost loop."""
        frame = self.frames[-1]
        attrs = {"frame_name": frame.name, "parallel_iterations": frame.parallel_iterations}
        return self.flow(
            "Enter", [tensor], tensor.like(), T=tensor.dtype, is_constant=is_constant, **attrs
        )

    def placeholder(self, dtype, shape, low, high, value):
        if self.function:  # nothing in a function can be fed
            raise UnfitError
        if self.frames:
            with self.outside() as enter:
                entered = enter(self.placeholder(dtype, shape, low, high, value))
            self.tensors.append(entered)
            return entered
        made = result(dtype, shape, low, high)
        declared = tuple(shape)
        if self.chance(0.2):
            declared = tuple(-1 if self.chance(0.5) else dim for dim in shape)
        if self.chance(0.1):
            declared = tf.TensorShape(None)
        elif -1 in declared:
            declared = tf.TensorShape([None if dim < 0 else dim for dim in declared])
        tensor = self.add("Placeholder", [], made, dtype=dtype, shape=declared)
        self.feeds[tensor.name] = value
        return tensor

"""Tensors stored behind a handle and read back: Stack, TensorArray and TensorList.

A few are written and read in one place; a loop may read one element, or write one, in each
iteration.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from support.graph_builder import F32, I32, RESOURCE, VARIANT, result
from support.random_ops.common import hull, registrar

MAKERS = {}
maker = registrar(MAKERS)

FLOW = result(F32, (), 0, 0)
LIST = result(VARIANT, (), 0, 0)
UNKNOWN = tf.TensorShape(None)


def two_alike(b):
    x = b.pick()
    return x, b.pick(where=lambda tensor: tensor.shape == x.shape)


def after(*tensors):
    """The tensors as control inputs."""
    return [dataclasses.replace(t, name="^" + t.name.partition(":")[0]) for t in tensors]


def hidden(b, op, inputs, *outputs, **attrs):
    """Adds a node that yields a handle, or a tensor that only ops on handles read."""
    return b.add(op, inputs, *outputs, readable=0, **attrs)


@maker
def stack(b):
    x, y = two_alike(b)
    handle = hidden(b, "StackV2", [b.ints(2)], result(RESOURCE, (), 0, 0), elem_type=F32)
    # All outputs of a push are readable, so it is never fed: nothing would be pushed then.
    first = b.add("StackPushV2", [handle, x], x.like(), readable=1, T=F32)
    second = b.add("StackPushV2", [handle, y, *after(first)], y.like(), readable=1, T=F32)
    popped = b.add("StackPopV2", [handle, *after(second)], y.like(), elem_type=F32)
    if b.chance(0.7):
        b.add("StackPopV2", [handle, *after(first, popped)], x.like(), elem_type=F32)


def new_array(b, size):
    """Handle and flow of a TensorArray."""
    attrs = {"element_shape": UNKNOWN, "clear_after_read": b.chance(0.5), "dtype": F32}
    return hidden(b, "TensorArrayV3", [b.ints(size)], result(RESOURCE, (), 0, 0), FLOW, **attrs)


def write(b, handle, index, value, flow):
    return hidden(b, "TensorArrayWriteV3", [handle, index, value, flow], FLOW, T=F32)


def gather(b, handle, flow, element, count):
    """All elements of an array as one tensor, an operand for others."""
    indices = b.const(list(range(count)), np.int32)
    made = element.like(shape=(count, *element.shape))
    attrs = {"element_shape": UNKNOWN, "dtype": F32}
    return b.add("TensorArrayGatherV3", [handle, indices, flow], made, **attrs)


def scatter(b, x):
    """An array of the rows of a tensor."""
    handle, flow = new_array(b, x.shape[0])
    indices = b.const(list(range(x.shape[0])), np.int32)
    flow = hidden(b, "TensorArrayScatterV3", [handle, indices, x, flow], FLOW, T=F32)
    return handle, flow


def read(b, handle, index, flow, element):
    return b.add("TensorArrayReadV3", [handle, index, flow], element, dtype=F32)


@maker
def tensor_array(b):
    if b.chance(0.5):
        x, y = two_alike(b)
        low, high = hull(x, y)
        handle, flow = new_array(b, 2)
        flow = write(b, handle, b.ints(0), x, flow)
        flow = write(b, handle, b.ints(1), y, flow)
        gather(b, handle, flow, x.like(low=low, high=high), 2)
    else:
        x = b.pick_rank(1, 2, 3)
        handle, flow = scatter(b, x)
        index = b.ints(b.random.randrange(x.shape[0]))
        read(b, handle, index, flow, x.like(shape=x.shape[1:]))


def shape_of(b, element):
    return b.const(np.asarray(element.shape, np.int32), np.int32)


def new_list(b, element, size):
    attrs = {"element_dtype": F32, "shape_type": I32}
    return hidden(b, "TensorListReserve", [shape_of(b, element), b.ints(size)], LIST, **attrs)


def set_item(b, tensors, index, value):
    return hidden(b, "TensorListSetItem", [tensors, index, value], LIST, element_dtype=F32)


def get_item(b, tensors, index, element):
    inputs = [tensors, index, shape_of(b, element)]
    return b.add("TensorListGetItem", inputs, element, element_dtype=F32)


def list_of_rows(b, x):
    inputs = [x, shape_of(b, x.like(shape=x.shape[1:]))]
    attrs = {"element_dtype": F32, "shape_type": I32}
    return hidden(b, "TensorListFromTensor", inputs, LIST, **attrs)


def stacked(b, tensors, element, count):
    made = element.like(shape=(count, *element.shape))
    attrs = {"element_dtype": F32, "num_elements": -1}
    return b.add("TensorListStack", [tensors, shape_of(b, element)], made, **attrs)


@maker
def tensor_list(b):
    if b.chance(0.5):
        x, y = two_alike(b)
        low, high = hull(x, y)
        tensors = new_list(b, x, 2)
        tensors = set_item(b, tensors, b.ints(0), x)
        tensors = set_item(b, tensors, b.ints(1), y)
        stacked(b, tensors, x.like(low=low, high=high), 2)
    else:
        x = b.pick_rank(1, 2, 3)
        tensors = list_of_rows(b, x)
        element = x.like(shape=x.shape[1:])
        if b.chance(0.5):
            get_item(b, tensors, b.ints(b.random.randrange(x.shape[0])), element)
        else:
            popped = [LIST, element]
            inputs = [tensors, shape_of(b, element)]
            rest, last = hidden(b, "TensorListPopBack", inputs, *popped, element_dtype=F32)
            more = [rest, last]
            rest = hidden(b, "TensorListPushBack", more, LIST, element_dtype=F32)
            stacked(b, rest, element, x.shape[0])


def rows_to_read(b, trips):
    """Adds, before a loop, the nodes that give its body a row of a tensor in each iteration."""
    x = b.pick(where=lambda tensor: tensor.shape and tensor.shape[0] >= trips)
    element = x.like(shape=x.shape[1:])
    if b.chance(0.5):
        handle, flow = scatter(b, x)
        return lambda number: read(b, b.enter(handle), number, b.enter(flow), element)
    tensors = list_of_rows(b, x)
    return lambda number: get_item(b, b.enter(tensors), number, element)


class Written:
    """An array or a list that each iteration of a loop writes.

    Args:
        b: the builder.
        element: the tensor to write.
        trips: how many iterations there are.
    """

    def __init__(self, b, element, trips):
        self._b, self._element, self._trips = b, element, trips
        self._is_array = b.chance(0.5)
        if self._is_array:
            self._handle, self.start = new_array(b, trips)
        else:
            self.start = new_list(b, element, trips)

    def write(self, number, state, value):
        """The loop variable's next value."""
        if self._is_array:
            return write(self._b, self._b.enter(self._handle), number, value, state)
        return set_item(self._b, state, number, value)

    def all(self, state):
        """All written elements, after the loop."""
        if self._is_array:
            return gather(self._b, self._handle, state, self._element, self._trips)
        return stacked(self._b, state, self._element, self._trips)

"""Divides variables into parts that are updated at once: one variable, or small ones together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from npu_precision import _tf_compat

# The elements up to which a variable is small. Beyond it, copying takes longer than one more op.
SMALL = 16384


class Part:
    """Variables that are updated at once, with their slots.

    Args:
        variables: the variables, of one dtype and on one device.
        is_buffered: whether they are updated in a buffer, and then copied back.
    """

    def __init__(self, variables: Sequence[tf.Variable], is_buffered: bool) -> None:
        self.variables = list(variables)
        self.shapes = [variable.shape for variable in variables]
        self.sizes = [shape.num_elements() for shape in self.shapes]
        self.device = variables[0].device
        self.is_low = variables[0].dtype.size < tf.float32.size
        self.dtype = tf.float32 if self.is_low else variables[0].dtype
        self.shape = [sum(self.sizes)] if is_buffered else self.shapes[0]
        self.slots: dict[str, tf.Variable] = {}
        self.buffer = None
        if is_buffered:
            with tf.device(self.device):
                zeros = tf.zeros(self.shape, self.dtype)
                self.buffer = tf.Variable(zeros, trainable=False, name="update")

    def packed(self, tensors: Sequence[Any]) -> tf.Tensor:
        """Packs tensors of the variables' shapes into one, of the part's shape and dtype."""
        if self.buffer is None:
            return tf.cast(tensors[0], self.dtype)
        flat = [tf.cast(tf.reshape(tensor, [-1]), self.dtype) for tensor in tensors]
        return flat[0] if len(flat) == 1 else tf.concat(flat, 0)

    def unpacked(self, packed: tf.Tensor) -> list[tf.Tensor]:
        """Reverses packed(), except for the dtype."""
        if self.buffer is None:
            return [packed]
        pieces = [packed] if len(self.sizes) == 1 else tf.split(packed, self.sizes)
        return [tf.reshape(piece, shape) for piece, shape in zip(pieces, self.shapes)]

    def values(self) -> tf.Tensor:
        """The variables' values, packed."""
        return self.packed([variable.read_value() for variable in self.variables])

    def spread(self, scalars: Sequence[tf.Tensor]) -> tf.Tensor:
        """Spreads a scalar per variable over the packed shape, for use as a factor."""
        if self.buffer is None:
            return scalars[0]
        return tf.repeat(tf.stack(scalars), self.sizes, axis=0)

    def only(self, packed: tf.Tensor, others: tf.Tensor, missing: Sequence[int]) -> tf.Tensor:
        """Combines the elements of missing variables from `others` with the rest from `packed`."""
        lengths = [tf.fill([size], index not in missing) for index, size in enumerate(self.sizes)]
        return tf.where(tf.concat(lengths, 0), packed, others)

    def put(self, packed: tf.Tensor, adds: bool, missing: Sequence[int]) -> None:
        """Sets the variables, except the missing ones, or adds to them."""
        for index, (variable, value) in enumerate(zip(self.variables, self.unpacked(packed))):
            if index not in missing:
                value = tf.cast(value, variable.dtype)
                (variable.assign_add if adds else variable.assign)(value)


class Target(NamedTuple):
    """A part that takes the place of a variable in a pair with its packed gradient.

    Attributes:
        part: the part to update.
        missing: the indices of its variables that have no gradient, and stay as they are.
        name: the name in messages.
        constraint, overwrite_with_gradient: attributes that Keras reads of variables.
    """

    part: Part
    missing: tuple[int, ...] = ()
    name: str = "part"
    constraint: None = None
    overwrite_with_gradient: bool = False


def parts_of(variables: Sequence[Any], may_group: bool) -> list[Part]:
    """Divides variables into parts.

    Args:
        variables: the variables of an optimizer.
        may_group: whether small ones may share a part.
    """
    groups: dict[Any, list[tf.Variable]] = {}
    for number, variable in enumerate(variables):
        plain = _tf_compat.plain_variable(variable)
        is_small = may_group and (plain.shape.num_elements() or SMALL + 1) <= SMALL
        if variable.constraint is not None:  # Keras applies constraints to the pairs of a step.
            is_small = False
        key = (plain.dtype, plain.device) if is_small else number
        groups.setdefault(key, []).append(plain)
    return [
        Part(group, len(group) > 1 or group[0].dtype.size < tf.float32.size)
        for group in groups.values()
    ]


def checkpoint_names(variables: Sequence[Any]) -> list[str]:
    """A name for each variable that is the same wherever the same model is made.

    Keras numbers layers per process, and Keras 3 prefixes the model's name if it knows it:
    "model/dense_7/kernel". The name here is "dense:kernel", with numbers that begin at the first of
    these variables. It has no "/" and ".", which a checkpoint would escape.
    """
    seen: dict[str, list[str]] = {}
    taken: dict[str, int] = {}
    result = []
    for variable in variables:
        name = getattr(variable, "path", None) or variable.name.partition(":")[0]
        renumbered = ":".join(_renumbered(each, seen) for each in name.split("/")[-2:])
        renumbered = renumbered.replace(".", "_")
        taken[renumbered] = count = taken.get(renumbered, 0) + 1
        result.append(renumbered if count == 1 else f"{renumbered}#{count}")
    return result


def _renumbered(name: str, seen: dict[str, list[str]]) -> str:
    base = re.sub(r"_\d+$", "", name)
    names = seen.setdefault(base, [])
    if name not in names:
        names.append(name)
    number = names.index(name)
    return f"{base}_{number}" if number else base

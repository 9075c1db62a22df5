"""The state of a fused optimizer: its parts with their slots, by variable and by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.amp.optimizers import parts
from npu_precision.amp.optimizers.parts import Part


class Slots:
    """The parts that variables are updated in, and the slots of each.

    Args:
        owner: the name of the optimizer.
        variables: the variables of the optimizer.
        key_of: a key of a variable for as long as the process runs.
        may_group: whether small variables may share a part.

    Attributes:
        parts: the parts, in the order of their first variables.
        kept: the slots, as Keras' variables of an optimizer.
    """

    def __init__(
        self,
        owner: str,
        variables: Sequence[Any],
        key_of: Callable[[Any], Any],
        may_group: bool,
    ) -> None:
        self._owner = owner
        self.parts = parts.parts_of(variables, may_group)
        self.kept: list[Any] = []
        self._key_of = key_of
        self._names: dict[int, str] = {}
        self._places: dict[Any, tuple[Part, int]] = {}
        places = {
            id(each): (part, index)
            for part in self.parts
            for index, each in enumerate(part.variables)
        }
        for variable, name in zip(variables, parts.checkpoint_names(variables)):
            plain = _tf_compat.plain_variable(variable)
            self._places[key_of(variable)] = places[id(plain)]
            self._names[id(plain)] = name

    def add(self, slot: str, value: float) -> None:
        """Makes the slot of each part, with the value that it begins with."""
        for number, part in enumerate(self.parts):
            with tf.device(part.device):
                first = tf.fill(part.shape, tf.cast(value, part.dtype))
                made = _tf_compat.optimizer_slot(first, f"{self._owner}_{slot}_{number}")
            self.kept.append(made)
            part.slots[slot] = _tf_compat.plain_variable(made)

    def place(self, variable: Any) -> tuple[Part, int]:
        """Returns the part of a variable, and the variable's index in it.

        Raises:
            ValueError: the variable is none of those that the optimizer was built with.
        """
        place = self._places.get(self._key_of(variable))
        if place is None:
            raise ValueError(
                f"variable: got {variable.name!r}, expected one of the {len(self._places)} that "
                f"{self._owner} was built with: call its build(variables) with all of them before "
                "the first step"
            )
        return place

    def read(self, slot: str) -> dict[str, tf.Tensor]:
        """The piece of each variable, by the variable's name."""
        return {
            self._names[id(variable)]: piece
            for part in self.parts
            for variable, piece in zip(part.variables, part.unpacked(part.slots[slot].read_value()))
        }

    def write(self, slot: str, pieces: Mapping[str, Any]) -> tf.Operation:
        """Reverses read()."""
        return tf.group(
            *(
                part.slots[slot].assign(
                    part.packed([pieces[self._names[id(each)]] for each in part.variables])
                )
                for part in self.parts
            )
        )

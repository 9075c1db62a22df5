"""The base class of the fused optimizers: slots, packed gradients, clipping, and saving."""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat, scope
from npu_precision.amp.optimizers import arguments
from npu_precision.amp.optimizers.parts import Part, Target
from npu_precision.amp.optimizers.slots import Slots

_LOGGER = logging.getLogger("npu_precision")
_KerasOptimizer: Any = _tf_compat.optimizer_class()


class FusedOptimizer(_KerasOptimizer):
    """A Keras optimizer that updates small variables together, and each other one in one op.

    The state of variables of a lower dtype is float32 in every precision mode. Gradients that are
    IndexedSlices become dense, unless the result is the same without.

    Args:
        lr: the learning rate, a number or a LearningRateSchedule of Keras.
        own: the other arguments of the subclass, by name, checked.
        others: arguments that every subclass takes: name, and one of clipnorm, clipvalue and
            global_clipnorm, as for Keras' optimizers.

    Raises:
        ValueError: an argument has a wrong value, or is one of torch that makes no sense here.
        TypeError: an unknown argument.
        RuntimeError: under a tf.distribute strategy of several replicas, or in a session's graph.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        arguments.check_first(args)
        return super().__new__(cls)

    def __init__(self, lr: Any, own: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        keras = arguments.of_keras(others, ("lr", *own))
        keras["name"] = keras.get("name") or type(self).__name__
        lr = arguments.learning_rate(lr)
        _refuse_replicas(type(self).__name__)
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    f"{type(self).__name__} is for eager code and tf.function; in the graph of a "
                    "session, use an optimizer of tf.compat.v1.train"
                )
        super().__init__(lr, **keras)
        self.options = types.SimpleNamespace(**own)

    # Methods for subclasses to override.

    def slot_values(self) -> dict[str, float]:
        """The names of the slots, each with its first value."""
        raise NotImplementedError

    def step_numbers(
        self, lr: tf.Tensor, steps: tf.Tensor, dtype: tf.DType
    ) -> dict[str, tf.Tensor]:
        """The scalars of a step for update(), in float64.

        Args:
            lr: the learning rate, a float64 scalar.
            steps: how many steps were made before, a float64 scalar.
            dtype: the dtype that they will be rounded to.
        """
        return {"lr": lr}

    def update(
        self, target: Any, part: Part, gradient: Any, numbers: Mapping[str, tf.Tensor]
    ) -> None:
        """Updates the target and the slots of a part.

        Args:
            target: a tf.Variable with the values of the part's variables or, unless reads_values(),
                with zeros.
            part: has the slots.
            gradient: a tensor of the target's shape and dtype, or IndexedSlices if takes_slices().
            numbers: step_numbers() in the target's dtype.
        """
        raise NotImplementedError

    def reads_values(self) -> bool:
        """Whether the update depends on the variables' values."""
        return bool(self.options.weight_decay)

    def decayed(self, gradient: tf.Tensor, target: Any) -> tf.Tensor:
        """The gradient and weight_decay * the target's values, as optimizers of torch have it."""
        if not self.options.weight_decay:
            return gradient
        return gradient + self.options.weight_decay * target.read_value()

    def takes_slices(self) -> bool:
        """Whether rows that are not in IndexedSlices stay as they are."""
        return False

    def may_group(self) -> bool:
        """Whether small variables may share a part."""
        return True

    def factor_of_norm(self, norm: tf.Tensor) -> tf.Tensor:
        """The factor of all gradients, from their global norm, if needs_norm()."""
        clip = tf.cast(self.global_clipnorm, norm.dtype)
        # As in tf.clip_by_global_norm, the factor is not finite if the norm is not.
        return clip * tf.minimum(1.0 / norm, 1.0 / clip) + (norm - norm)

    def needs_norm(self) -> bool:
        """Whether a step needs the global norm of the gradients."""
        return self.global_clipnorm is not None

    # Methods that Keras calls.

    def make_slots(self, variables: Sequence[Any]) -> None:
        """Makes the slots of all variables."""
        self._fused_slots = Slots(self.name, variables, self._var_key, self.may_group())
        for slot, value in self.slot_values().items():
            self._fused_slots.add(slot, value)
            state = _tf_compat.tensors_in_checkpoint(
                functools.partial(self._fused_slots.read, slot),
                functools.partial(self._fused_slots.write, slot),
            )
            setattr(self, f"slot_{slot}", state)  # a checkpoint may restore it now

    def take_step(self, pairs: Iterable[tuple[Any, Any]], learning_rate: Any) -> None:
        """Updates the variables of the pairs; the arguments are as Keras has them."""
        _refuse_replicas(self.name)
        with scope.keep_dtype_scope():
            if self.clipnorm is not None:
                pairs = [
                    (tf.clip_by_norm(_dense(gradient, variable.shape), self.clipnorm), variable)
                    for gradient, variable in pairs
                ]
            packed = self._packed(pairs)
            gradients = self._clipped([gradient for gradient, _ in packed])
            lr = tf.cast(tf.convert_to_tensor(learning_rate), tf.float64)
            steps = tf.cast(_tf_compat.plain_variable(self.iterations).read_value(), tf.float64)
            numbers: dict[tf.DType, dict[str, tf.Tensor]] = {}
            for gradient, (_, target) in zip(gradients, packed):
                dtype = target.part.dtype
                if dtype not in numbers:
                    exact = self.step_numbers(lr, steps, dtype)
                    numbers[dtype] = {name: tf.cast(each, dtype) for name, each in exact.items()}
                self._update_part(target, gradient, numbers[dtype])

    def packed(self, pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Pairs for apply_gradients(), with the gradients of small variables in one tensor each.

        Unscaling and checking then take fewer ops. Pairs without a gradient are kept.
        """
        pairs = list(pairs)
        if self.clipnorm is not None:  # clips per variable, after unscaling.
            return pairs
        with scope.keep_dtype_scope():
            without = [pair for pair in pairs if pair[0] is None]
            return self._packed([pair for pair in pairs if pair[0] is not None]) + without

    def _packed(self, pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Target]]:
        result: list[tuple[Any, Target]] = []
        gradients: dict[int, tuple[Part, dict[int, Any]]] = {}
        for gradient, variable in pairs:
            if isinstance(variable, Target):
                result.append((gradient, variable))
            else:
                part, index = self._fused_slots.place(variable)
                _, given = gradients.setdefault(id(part), (part, {}))
                given[index] = gradient
        keeps_slices = self.takes_slices() and not self.needs_norm() and self.clipvalue is None
        for part, given in gradients.values():
            if part.buffer is None and keeps_slices and isinstance(given[0], tf.IndexedSlices):
                result.append((given[0], Target(part)))
                continue
            count = len(part.variables)
            missing = tuple(index for index in range(count) if index not in given)
            dense = [
                _dense(given[index], part.shapes[index])
                if index in given
                else tf.zeros(part.shapes[index], part.dtype)
                for index in range(count)
            ]
            result.append((part.packed(dense), Target(part, missing)))
        return result

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        if self.clipvalue is not None:
            value = self.clipvalue
            return [tf.clip_by_value(each, -value, value) for each in gradients]
        if not self.needs_norm():
            return gradients
        squares = [tf.cast(2.0 * tf.nn.l2_loss(each), tf.float32) for each in gradients]
        factor = self.factor_of_norm(tf.sqrt(tf.add_n(squares)))
        return [each * tf.cast(factor, each.dtype) for each in gradients]

    def _update_part(self, target: Target, gradient: Any, numbers: Mapping[str, tf.Tensor]) -> None:
        part, missing = target.part, target.missing
        if part.buffer is None:
            self.update(part.variables[0], part, gradient, numbers)
            return
        before = {slot: part.slots[slot].read_value() for slot in part.slots} if missing else {}
        # Adding the update to each variable saves reading it. A low dtype would round twice.
        adds = not (part.is_low or self.reads_values())
        part.buffer.assign(tf.zeros(part.shape, part.dtype) if adds else part.values())
        self.update(part.buffer, part, gradient, numbers)
        part.put(part.buffer.read_value(), adds, missing)
        for slot, kept in before.items():
            after = part.slots[slot].read_value()
            part.slots[slot].assign(part.only(after, kept, missing))

    # Saving and restoring.

    def not_in_saved_models(self) -> list[str]:
        """The attributes that are not in a SavedModel: TensorFlow exports no parts of buffers."""
        slots = [f"slot_{slot}" for slot in self._made_slots()]
        if slots:
            _LOGGER.warning(
                "%s: a SavedModel does not have its slots; to go on with training, save a "
                "checkpoint, or the model in Keras' own format",
                self.name,
            )
        return slots

    @property
    def variables(self) -> Any:
        """Keras' own variables, and the slots."""
        own = super().variables
        slots = getattr(self, "_fused_slots", None)
        return type(own)([*own, *(slots.kept if slots else ())])

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets all of `variables` from arrays.

        Raises:
            ValueError: the number of arrays or a shape differs.
        """
        variables = self.variables
        shapes = [list(variable.shape) for variable in variables]
        given = [list(weight.shape) for weight in weights]
        if shapes != given:
            raise ValueError(f"weights: got arrays of the shapes {given}, expected {shapes}")
        for variable, weight in zip(variables, weights):
            variable.assign(weight)

    def save_own_variables(self, store: Any) -> None:
        """Writes the state into Keras' file, the slots under the names of the variables."""
        for index, variable in enumerate(super().variables):
            store[str(index)] = variable.numpy()
        for slot in self._made_slots():
            for name, piece in self._fused_slots.read(slot).items():
                store[f"{slot}.{name}"] = piece.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Reverses save_own_variables().

        Raises:
            ValueError: the file has some slots, and lacks others.
        """
        names = {slot: list(self._fused_slots.read(slot)) for slot in self._made_slots()}
        keys = set(store.keys())
        missing = sorted({f"{slot}.{name}" for slot in names for name in names[slot]} - keys)
        if missing and not any("." in key for key in keys):
            _LOGGER.warning("%s: the file has no slots, and they stay as they are", self.name)
            return
        if missing:
            raise ValueError(
                f"{self.name}: got a file with the slots {sorted(k for k in keys if '.' in k)}, "
                f"expected {missing} too"
            )
        for index, variable in enumerate(super().variables):
            variable.assign(store[str(index)])
        for slot in names:
            self._fused_slots.write(slot, {name: store[f"{slot}.{name}"] for name in names[slot]})

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, for from_config()."""
        lr, schedules = self._learning_rate, tf.keras.optimizers.schedules
        is_schedule = isinstance(lr, schedules.LearningRateSchedule)
        lr = schedules.serialize(lr) if is_schedule else float(tf.convert_to_tensor(lr))
        keras = {name: getattr(self, name) for name in arguments.OF_KERAS}
        return {"lr": lr, **vars(self.options), **keras}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Any:
        """Makes an optimizer from the result of get_config()."""
        config = dict(config)
        if isinstance(config.get("lr"), Mapping):
            deserialize = tf.keras.optimizers.schedules.deserialize
            config["lr"] = deserialize(config["lr"], custom_objects=custom_objects)
        return cls(**config)

    def _made_slots(self) -> list[str]:
        return list(self.slot_values()) if hasattr(self, "_fused_slots") else []


def registered(cls: Any) -> Any:
    """Registers the class with Keras, by the name that its subclass under amp has too."""
    tf.keras.utils.get_custom_objects()[cls.__name__] = cls
    return cls


def _dense(gradient: Any, shape: tf.TensorShape) -> tf.Tensor:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, shape[0])
    return gradient


def _refuse_replicas(name: str) -> None:
    if tf.distribute.has_strategy() and tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise RuntimeError(
            f"{name}: not under a tf.distribute strategy of several replicas: use an optimizer of "
            "Keras there"
        )

"""Adapts optimizers of Keras 2 and 3; no other module asks which Keras it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, List, Optional

import tensorflow as tf

from npu_precision._tf_compat.autograph import converted
from npu_precision._tf_compat.versions import MixedPrecisionLossScaleOptimizer


def needs_build(optimizer: Any) -> bool:
    """Whether it is an optimizer that cannot create its variables in a branch: Keras' from 2.11."""
    return hasattr(optimizer, "build") and not getattr(optimizer, "built", False)


def build_optimizer(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates the variables of an optimizer that needs_build(), outside of its replicas."""
    strategy = tf.distribute.get_strategy()
    is_default = not tf.distribute.has_strategy()
    # Outside of functions the script may have left the strategy's scope.
    with tf.init_scope(), contextlib.nullcontext() if is_default else strategy.scope():
        optimizer.build(variables)


# The method that adds up gradients over the replicas: of Keras 3, of Keras 2 from 2.11 on, and of
# its older optimizers.
_OWN_SUMS = ("_all_reduce_sum_gradients", "aggregate_gradients", "_aggregate_gradients")


@contextlib.contextmanager
def without_own_sum(optimizer: Any) -> Iterator[None]:
    """Scope in which a Keras optimizer takes gradients for sums over the replicas.

    Raises:
        ValueError: it is an optimizer that always adds them up.
    """
    name = next((name for name in _OWN_SUMS if hasattr(optimizer, name)), None)
    if name is None:
        raise ValueError(
            f"combine_ddp: got {type(optimizer).__name__}, which adds up gradients itself under a "
            "strategy; expected an optimizer of Keras, in TensorFlow 2.4 or newer"
        )
    vars(optimizer)[name] = list
    try:
        yield
    finally:
        del vars(optimizer)[name]


def scales_loss(optimizer: Any) -> bool:
    """Whether an optimizer scales the loss: TF1's or Keras' wrapper, or a subclass."""
    keras = getattr(getattr(tf.keras, "mixed_precision", None), "LossScaleOptimizer", ())
    return isinstance(optimizer, (MixedPrecisionLossScaleOptimizer, keras))


def is_keras_3(optimizer_class: type) -> bool:
    """Whether it is a class of optimizers of Keras 3, rather than 2."""
    return hasattr(optimizer_class, "apply")


def change_class(optimizer: Any, methods: Mapping[str, Any], *mixins: type) -> None:
    """Gives an object a class of its own: the mixins and these methods before its class.

    The new class has the name of the old one, under which Keras saves it, and loads it as its own.
    """
    own = type(optimizer)
    metaclass: Any = type(own)
    new = metaclass(own.__name__, (*mixins, own), {"__module__": own.__module__, **methods})
    # Not by the setattr of a Keras optimizer around another one, which delegates.
    object.__setattr__(optimizer, "__class__", new)


def restore_class(optimizer: Any) -> None:
    """Reverses change_class() without mixins."""
    object.__setattr__(optimizer, "__class__", type(optimizer).__mro__[1])


# The step of a changed optimizer: a function of the optimizer, the pairs of a gradient and a
# variable, and a function that makes its own step with such pairs.
Step = Callable[[Any, List[Any], Callable[[List[Any]], Any]], Any]
# A function of the optimizer: how to scale its loss, or None to leave that to Keras.
Scaling = Callable[[Any], Optional[Callable[[Any], tf.Tensor]]]


def change_step(optimizer: Any, step: Step, scaling: Scaling | None = None) -> None:
    """Changes a Keras optimizer in place, so that apply_gradients() and fit() use `step` and
    `scaling`.

    restore_class() reverses it.
    """
    own = type(optimizer)
    methods = _steps_of_keras_3 if is_keras_3(own) else _steps_of_keras_2
    change_class(optimizer, methods(own, step, scaling))


def _steps_of_keras_3(own: Any, step: Step, scaling: Scaling | None) -> dict[str, Any]:
    """The changed methods for Keras 3, whose fit() and apply_gradients() call these."""

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        grads, given = list(grads), trainable_variables is not None
        variables = list(trainable_variables if given else self._trainable_variables)
        if len(variables) != len(grads):  # Keras refuses that.
            converted(own.apply)(self, grads, trainable_variables)
            return
        step(
            self,
            list(zip(grads, variables)),
            lambda pairs: converted(own.apply)(self, [g for g, _ in pairs], [v for _, v in pairs]),
        )

    if scaling is None:
        return {"apply": apply}
    scaling_of = scaling

    def scale_loss(self: Any, loss: Any) -> Any:
        scale = scaling_of(self)
        return own.scale_loss(self, loss) if scale is None else scale(loss)

    return {"scale_loss": scale_loss, "apply": apply}


def _steps_of_keras_2(own: Any, step: Step, scaling: Scaling | None) -> dict[str, Any]:
    """The changed methods for Keras 2: fit() calls minimize(), which also applies gradients."""

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        return step(
            self,
            list(grads_and_vars),
            lambda pairs: converted(own.apply_gradients)(self, pairs, *args, **kwargs),
        )

    if scaling is None:
        return {"apply_gradients": apply_gradients}
    scaling_of = scaling
    name = "compute_gradients" if hasattr(own, "compute_gradients") else "_compute_gradients"
    compute = getattr(own, name)

    def compute_gradients(self: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        scale = scaling_of(self)
        if scale is None:
            return compute(self, loss, *args, **kwargs)
        if callable(loss):
            return compute(self, lambda: scale(converted(loss)()), *args, **kwargs)
        tape = kwargs.get("tape") or next((a for a in args if isinstance(a, tf.GradientTape)), None)
        if tape is None:
            raise ValueError("tape: got None, expected the tf.GradientTape that computed the loss")
        with tape:
            loss = scale(loss)
        return compute(self, loss, *args, **kwargs)

    return {name: compute_gradients, "apply_gradients": apply_gradients}


def optimizer_slot(value: tf.Tensor, name: str) -> Any:
    """A variable of a Keras optimizer, of the kind that its `variables` have."""
    variable = getattr(tf.keras, "Variable", tf.Variable)
    if variable is tf.Variable:
        return tf.Variable(value, trainable=False, name=name)
    return variable(value, trainable=False, name=name, dtype=value.dtype.name)


def tensors_in_checkpoint(
    read: Callable[[], dict[str, tf.Tensor]], write: Callable[[Mapping[str, tf.Tensor]], Any]
) -> Any:
    """An object whose state in a checkpoint is what read() gives, by name, and write() restores."""
    base: Any = tf.__internal__.tracking.Trackable

    class TensorsInCheckpoint(base):
        def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
            return read()

        def _restore_from_tensors(self, restored: Mapping[str, tf.Tensor]) -> Any:
            return write(restored)

    return TensorsInCheckpoint()


def optimizer_class() -> Any:
    """A Keras optimizer whose subclasses update all variables at once.

    They have make_slots(variables) and take_step(grads_and_vars, learning_rate). Keras calls the
    first when it builds the optimizer, and the second in each step, without pairs whose gradient is
    None; it counts the steps and applies constraints. A SavedModel does not have the attributes in
    not_in_saved_models(), which is called when one is made.

    Raises:
        RuntimeError: TensorFlow before 2.11, whose Keras has other optimizers.
    """
    base = getattr(tf.keras.optimizers, "Optimizer", None)
    if hasattr(base, "_backend_update_step"):
        return _optimizer_of_keras_3(_without_slots_in_saved_models(base))
    if hasattr(base, "_internal_apply_gradients"):
        return _optimizer_of_keras_2(_without_slots_in_saved_models(base))
    raise RuntimeError(
        f"npu_precision.amp.optimizers: got TensorFlow {tf.__version__}, expected 2.11 or newer, "
        "whose Keras has optimizers of another kind"
    )


def _without_slots_in_saved_models(base: Any) -> Any:
    class SavedOptimizer(base):
        def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> Any:
            children = super()._trackable_children(save_type, **kwargs)
            if save_type == "savedmodel":
                left_out = self.not_in_saved_models()
                return {name: each for name, each in children.items() if name not in left_out}
            return children

    return SavedOptimizer


def _optimizer_of_keras_2(base: Any) -> Any:
    class KerasOptimizer(base):
        def __init__(self, learning_rate: Any, name: str, **clipping: Any) -> None:
            super().__init__(name, weight_decay=None, jit_compile=False, **clipping)
            self._learning_rate = self._build_learning_rate(learning_rate)

        def build(self, var_list: Any) -> None:
            if not getattr(self, "_built", False):
                super().build(var_list)
                self.make_slots(list(var_list))
                self._built = True

        def apply_gradients(self, grads_and_vars: Any, name: Any = None, **kwargs: Any) -> Any:
            # There is one replica, and so nothing to aggregate.
            kwargs["skip_gradients_aggregation"] = True
            return super().apply_gradients(grads_and_vars, name, **kwargs)

        def _clip_gradients(self, grads: Any) -> Any:
            return grads

        def _deduplicate_sparse_grad(self, grads: Any) -> Any:
            return grads

        def _internal_apply_gradients(self, grads_and_vars: Any) -> Any:
            self.take_step(list(grads_and_vars), self.learning_rate)
            return self.iterations.assign_add(1)

    return KerasOptimizer


def _optimizer_of_keras_3(base: Any) -> Any:
    class KerasOptimizer(base):
        def __init__(self, learning_rate: Any, name: str, **clipping: Any) -> None:
            super().__init__(learning_rate=learning_rate, name=name, **clipping)

        def build(self, variables: Any) -> None:
            if not self.built:
                with tf.init_scope():
                    super().build(list(variables))
                    self.make_slots(list(variables))

        def _check_variables_are_known(self, variables: Any) -> None:
            """Leaves the check to take_step(), which also gets packed gradients."""

        def _clip_gradients(self, grads: Any) -> Any:
            return grads

        def _backend_update_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
            self.take_step(list(zip(grads, variables)), learning_rate)

    return KerasOptimizer

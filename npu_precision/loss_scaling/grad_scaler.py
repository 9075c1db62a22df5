"""GradScaler: torch.amp's loss scaling for tf.function, eager code and Keras' optimizers."""

from __future__ import annotations

import dataclasses
import enum
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.loss_scaling import gradients, strategies
from npu_precision.loss_scaling.variables import LossScaleVariables


class _Stage(enum.Enum):
    """What has been done for an optimizer since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


@dataclasses.dataclass
class _PerOptimizer:
    stage: _Stage = _Stage.READY
    all_finite: Any = None


class _Eager:
    """Stands for the graph where there is none."""


class GradScaler(tf.Module):
    """Scales losses, unscales gradients, skips steps that overflow, and adjusts the scale.

    As torch.amp's, but TensorFlow's gradients are values: what torch changes in place is taken and
    returned.

        scaler = npu_precision.GradScaler()

        @tf.function
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = scaler.scale(compute_loss(model(x), y))
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients = scaler.unscale_(optimizer, gradients)  # to clip them, or not at all
            made = scaler.step(optimizer, zip(gradients, model.trainable_variables))
            scaler.update()

    Calls in a tf.function are checked for their order when it is traced. The scale is in
    variables, which tf.train.Checkpoint saves.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval: as for DynamicLossScale.
        enabled: False makes it pass everything on as it is.
        strategy: instead of the four, what decides the scale: a NoLossScale, FixedLossScale or
            DynamicLossScale.

    Raises:
        ValueError: an argument out of its range, or a strategy beside the numbers of another.

    Source: torch.amp.GradScaler.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        strategy: Any = None,
    ) -> None:
        super().__init__(name="grad_scaler")
        numbers = (init_scale, growth_factor, backoff_factor, growth_interval)
        if strategy is None:
            strategy = strategies.DynamicLossScale(*numbers)
        elif numbers != (2.0**16, 2.0, 0.5, 2000):
            raise ValueError("strategy: got one, and numbers of another: give either")
        elif not isinstance(strategy, strategies.ALL):
            raise ValueError(
                f"strategy: got {_errors.got(strategy)}, expected NoLossScale, FixedLossScale or "
                "DynamicLossScale"
            )
        self._enabled = bool(enabled)
        self._state = LossScaleVariables(strategy if enabled else strategies.NoLossScale())
        self._has_scaled = False
        self._eager = _Eager()
        # By graph, since a tf.function may be traced anew at any time, and by id of the optimizer.
        self._stages: Any = weakref.WeakKeyDictionary()
        with tf.init_scope():
            # Whether all steps since the last update(), which may be elsewhere, were finite.
            self._all_finite = _variable(True, tf.bool, "all_finite")
            self.skipped_steps = _variable(0, tf.int64, "skipped_steps")

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def get_scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        self._here()
        return self._state.scale()

    def scale(self, outputs: Any) -> Any:
        """A loss, or a nest of losses, times the scale, each in its own dtype."""
        self._here()
        self._has_scaled = True
        if not self._enabled:
            return outputs
        scale = self._state.scale()
        return tf.nest.map_structure(lambda loss: gradients.scaled(loss, scale), outputs)

    def unscale_(self, optimizer: Any, grads: Iterable[Any]) -> list[Any]:
        """The gradients over the scale, for what has to see them before step(), such as clipping.

        Args:
            optimizer: the one that step() will be called with.
            grads: of its variables; dense, IndexedSlices or None.

        Raises:
            RuntimeError: called twice for an optimizer since the last update(), or after step().
        """
        found = self._of(optimizer)
        if found.stage is _Stage.UNSCALED:
            raise RuntimeError("unscale_() was called for this optimizer since the last update()")
        if found.stage is _Stage.STEPPED:
            raise RuntimeError("unscale_() is called after step(): call update() first")
        grads = list(grads)
        if self._enabled:
            grads = gradients.unscaled(grads, self._state.scale())
        found.stage, found.all_finite = _Stage.UNSCALED, gradients.all_finite(grads)
        return grads

    def step(self, optimizer: Any, grads_and_vars: Iterable[Any]) -> tf.Tensor:
        """Applies the gradients, if they are all finite; unscales them unless unscale_() has.

        Args:
            optimizer: of Keras, or a tf.compat.v1.train.Optimizer.
            grads_and_vars: pairs, as for the optimizer's apply_gradients.

        Returns:
            Whether the step was made, a scalar bool tensor; `skipped_steps` counts the others.

        Raises:
            RuntimeError: called without scale(), or twice since the last update(), or with
                gradients that another tf.function has unscaled.
            ValueError: optimizer has no apply_gradients, or scales the loss itself.
        """
        _check_optimizer(optimizer)
        pairs = list(grads_and_vars)
        found = self._of(optimizer)
        if not self._has_scaled:
            raise RuntimeError("step() is called without scale(): the gradients are of what?")
        if found.stage is _Stage.STEPPED:
            raise RuntimeError("step() was called for this optimizer since the last update()")
        if found.stage is _Stage.READY:
            self._check_unscaled_nowhere_else(optimizer)
            grads = self.unscale_(optimizer, [gradient for gradient, _ in pairs])
            pairs = list(zip(grads, [variable for _, variable in pairs]))
        found.stage = _Stage.STEPPED
        if not self._state.strategy.checks_overflow:
            optimizer.apply_gradients(pairs)
            return tf.constant(True)
        made = found.all_finite
        _tf_compat.build_optimizer(optimizer, [variable for _, variable in pairs])

        def apply() -> tf.Tensor:
            optimizer.apply_gradients(pairs)
            return tf.constant(True)

        def skip() -> tf.Tensor:
            self.skipped_steps.assign_add(1)
            return tf.constant(False)

        self._all_finite.assign(tf.logical_and(self._all_finite, made))
        return tf.cond(made, apply, skip)

    def update(self, new_scale: Any = None) -> None:
        """Adjusts the scale after the steps of all optimizers.

        Args:
            new_scale: what to set it to, instead.

        Raises:
            ValueError: new_scale is not positive and finite.
        """
        for stages in [self._stages.get(self._here()), self._stages.get(self._eager)]:
            if stages is not None:
                stages.clear()
        if not self._enabled:
            return
        if new_scale is None:
            self._state.update(self._all_finite.read_value())
        else:
            if not tf.is_tensor(new_scale):
                strategies.check_scale("new_scale", new_scale)
            self._state.assign(self._state.read()._replace(scale=new_scale))
        self._all_finite.assign(True)

    def state_dict(self) -> dict[str, Any]:
        """The state and what it is adjusted by, in Python's numbers; empty where not enabled.

        Raises:
            RuntimeError: called in a tf.function.
        """
        if not tf.executing_eagerly():
            raise RuntimeError("state_dict() is called in a graph, where there are no numbers")
        if not self._enabled:
            return {}
        scale, good_steps, bad_steps = (value.numpy().item() for value in self._state.read())
        return {
            "scale": scale,
            "_growth_tracker": good_steps,
            "_hysteresis_tracker": bad_steps,
            **dataclasses.asdict(self._state.strategy),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned, of a scaler that was made with the same numbers.

        Raises:
            ValueError: its names or numbers are others.
            RuntimeError: called in a tf.function.
        """
        own = self.state_dict()
        if set(state_dict) != set(own):
            raise ValueError(
                f"state_dict: got the names {sorted(state_dict)}, expected {sorted(own)}"
            )
        for name, value in dataclasses.asdict(self._state.strategy).items() if own else ():
            if state_dict[name] != value and name != "scale":
                raise ValueError(
                    f"state_dict: got {name} {state_dict[name]!r}, and this scaler was made with "
                    f"{value!r}"
                )
        if own:
            strategies.check_scale("scale", state_dict["scale"])
            trackers = (state_dict["_growth_tracker"], state_dict["_hysteresis_tracker"])
            self._state.assign(strategies.LossScaleState(state_dict["scale"], *trackers))

    def _here(self) -> Any:
        """What stages are kept by: the graph, or what stands for none."""
        if tf.executing_eagerly():
            return self._eager
        if not _tf_compat.functions_run_eagerly():
            raise RuntimeError(
                "GradScaler is for eager code and tf.function; in the graph of a session, use "
                "npu_precision.NPULossScaleOptimizer"
            )
        return tf.compat.v1.get_default_graph()

    def _of(self, optimizer: Any) -> _PerOptimizer:
        stages = self._stages.setdefault(self._here(), {})
        return stages.setdefault(id(optimizer), _PerOptimizer())

    def _check_unscaled_nowhere_else(self, optimizer: Any) -> None:
        for stages in self._stages.values():
            elsewhere = stages.get(id(optimizer))
            if elsewhere is not None and elsewhere.stage is _Stage.UNSCALED:
                raise RuntimeError(
                    "step() is not where unscale_() is: call both in the same tf.function, or both "
                    "outside"
                )


def _check_optimizer(optimizer: Any) -> None:
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras, or a "
            "tf.compat.v1.train.Optimizer"
        )
    if _tf_compat.scales_loss(optimizer):
        raise ValueError(
            f"optimizer: got {type(optimizer).__name__}, which scales the loss already"
        )


def _variable(value: Any, dtype: tf.DType, name: str) -> tf.Variable:
    return tf.Variable(value, dtype=dtype, trainable=False, name=name)

"""GradScaler: torch.amp's loss scaling for tf.function, eager code and Keras' optimizers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from npu_precision import _device_types, _errors, _tf_compat, scope
from npu_precision.loss_scaling import (
    arguments,
    gradients,
    replicas,
    rounds,
    scaler_state,
    strategies,
)
from npu_precision.loss_scaling.conditional_step import packed_pairs, step_if
from npu_precision.loss_scaling.gradients import summed, unscaled_and_agreed
from npu_precision.loss_scaling.observed_gradients import observed
from npu_precision.loss_scaling.rounds import Round, Rounds, Stage
from npu_precision.loss_scaling.strategies import Growth
from npu_precision.loss_scaling.variables import GrowthVariables, LossScaleVariables

_NUMBERS = (2.0**16, 2.0, 0.5, 2000)
_STRATEGIES = (strategies.NoLossScale, strategies.FixedLossScale, strategies.DynamicLossScale)


def _takes_a_device_first(init: Callable[..., None]) -> Callable[..., None]:
    """Lets a constructor also take the device as its first argument, as in torch.amp."""

    @functools.wraps(init)
    def with_device(self: Any, *args: Any, **kwargs: Any) -> None:
        if args and isinstance(args[0], str) and "device" not in kwargs:
            args, kwargs = args[1:], {"device": args[0], **kwargs}
        init(self, *args, **kwargs)

    return with_device


class GradScaler(tf.Module):
    """Scales losses, unscales gradients, skips steps that overflow, and adjusts the scale.

    The calls are those of torch.amp. But gradients are values in TensorFlow: unscale_() takes and
    returns them, where torch changes them in place.

        scaler = npu_precision.GradScaler()

        @tf.function
        def train_step(x, y):
            with tf.GradientTape() as tape:
                loss = scaler.scale(compute_loss(model(x), y))
            gradients = tape.gradient(loss, model.trainable_variables)
            gradients = scaler.unscale_(optimizer, gradients)  # only if you clip them
            made = scaler.step(optimizer, zip(gradients, model.trainable_variables))
            scaler.update()

    The calls may be in one tf.function, in several, or in eager code. A call out of order raises
    RuntimeError, and InvalidArgumentError from within a tf.function.

    Under MirroredStrategy and MultiWorkerMirroredStrategy, unscale_() and step() are called in
    strategy.run(). An overflow in one replica skips the step of all, and what all replicas call
    counts once.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval: as for DynamicLossScale.
        enabled: False returns losses and gradients as they are, and checks nothing.
        strategy: an instance of NoLossScale, FixedLossScale or DynamicLossScale, in place of the
            four numbers.
        device: "cpu", "gpu", "cuda" or "npu", as the first argument too; accepted for scripts of
            PyTorch. The scale is where TensorFlow puts variables.
        combine_ddp: whether step() adds up the gradients of all replicas, in one buffer per dtype,
            before it divides them by the scale, in place of the optimizer, which would do it after.

    Raises:
        ValueError: an argument out of its range, or a strategy given together with numbers.
        RuntimeError: made in the graph of a session.

    Source: torch.amp.GradScaler.
    """

    @_takes_a_device_first
    def __init__(
        self,
        init_scale: float = _NUMBERS[0],
        growth_factor: float = _NUMBERS[1],
        backoff_factor: float = _NUMBERS[2],
        growth_interval: int = _NUMBERS[3],
        enabled: bool = True,
        strategy: Any = None,
        *,
        device: str | None = None,
        combine_ddp: bool = False,
    ) -> None:
        super().__init__()
        if device is not None:
            _device_types.check("device", device)
        for name, value in (("enabled", enabled), ("combine_ddp", combine_ddp)):
            if not isinstance(value, bool):
                raise ValueError(f"{name}: got {_errors.got(value)}, expected a bool")
        numbers = (init_scale, growth_factor, backoff_factor, growth_interval)
        if strategy is None:
            strategy = strategies.DynamicLossScale(*numbers)
        elif numbers != _NUMBERS:
            raise ValueError("strategy: got one, and numbers of another: give either")
        elif not isinstance(strategy, _STRATEGIES):
            raise ValueError(
                f"strategy: got {_errors.got(strategy)}, expected an instance of NoLossScale, "
                "FixedLossScale or DynamicLossScale"
            )
        arguments.watch_tapes()
        self._enabled = enabled
        self._combine_ddp = combine_ddp
        self._has_scaled = False
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    "GradScaler is for eager code and tf.function; in the graph of a session, use "
                    "npu_precision.NPULossScaleOptimizer"
                )
            is_dynamic = isinstance(strategy, strategies.DynamicLossScale)
            self._growth = GrowthVariables(strategy) if is_dynamic else None
            self._state = LossScaleVariables(
                strategy if enabled else strategies.NoLossScale(), self._growth
            )
            self._state.scale()  # makes its variables
            self._rounds = Rounds(rounds.GRAD_SCALER)
            self.skipped_steps = tf.Variable(0, False, dtype=tf.int64, name="skipped_steps")

    def is_enabled(self) -> bool:
        """Whether the scaler scales losses and checks gradients."""
        return self._enabled

    def get_scale(self) -> tf.Tensor:
        """The scale, a scalar float32 tensor."""
        return self._state.scale()

    def scale(self, outputs: Any) -> Any:
        """Multiplies a loss, or a nest of losses, by the scale, each in its own dtype."""
        self._has_scaled = True
        if not self._enabled:
            return outputs
        arguments.note_given(outputs, self)
        scale = self._state.scale()
        return tf.nest.map_structure(lambda loss: gradients.scaled(loss, scale), outputs)

    def unscale_(self, optimizer: Any, grads: Iterable[Any] | None = None) -> list[Any]:
        """Divides gradients by the scale, for code that uses them before step(), such as clipping.

        Args:
            optimizer: the optimizer that step() will be called with.
            grads: gradients of its variables; dense, IndexedSlices or None.

        Returns:
            The unscaled gradients, to go on with. `grads` stay as they are.

        Raises:
            RuntimeError: called twice for an optimizer since the last update(), or after step().
            ValueError: grads are no gradients, or not gradients of the result of scale().
            TypeError: called without them, as in torch.
        """
        grads = arguments.gradients("grads", grads)
        if not self._enabled:
            return grads
        replicas.refuse_strategy("GradScaler.unscale_()")
        arguments.check_gradients(grads, self, "scale")
        round_ = self._round_of(optimizer)
        given, grads = grads, observed(grads, self._state.scale(), optimizer)
        may_unscale = replicas.once(round_.may_enter, Stage.UNSCALED)
        with tf.control_dependencies(may_unscale), scope.keep_dtype_scope():
            unscaled, finite = unscaled_and_agreed(grads, self._divisor(round_), False, None)
            replicas.once(round_.enter, Stage.UNSCALED, finite)
        round_.given.remember(given)
        return unscaled

    def step(self, optimizer: Any, grads_and_vars: Iterable[Any] | None = None) -> tf.Tensor:
        """Applies the gradients if all are finite; unscales them first unless unscale_() has.

        Args:
            optimizer: a Keras optimizer, or a tf.compat.v1.train.Optimizer.
            grads_and_vars: pairs, as for the optimizer's apply_gradients.

        Returns:
            Whether the step was made, a scalar bool tensor; `skipped_steps` counts the others.

        Raises:
            RuntimeError: called without scale(), twice since the last update(), or under a
                tf.distribute strategy of several replicas that is not mirrored.
            ValueError: optimizer has no apply_gradients, or scales the loss itself; the gradients
                are those passed to unscale_() instead of its results, or gradients of a loss passed
                to scale() instead of its result, or all None.
            TypeError: called without them, as in torch.
        """
        arguments.check_optimizer(optimizer)
        pairs = arguments.pairs(grads_and_vars)
        apply = _tf_compat.converted(optimizer.apply_gradients)
        if not self._enabled:
            apply(pairs)
            return tf.constant(True)
        replicas.refuse_strategy("GradScaler.step()")
        if not self._has_scaled:
            raise RuntimeError(rounds.STEP_WITHOUT_SCALE)
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        arguments.check_gradients(grads, self, "scale")
        round_ = self._round_of(optimizer)
        if round_.was_given(grads):
            raise ValueError(rounds.SCALED_AFTER_UNSCALING.format(call="unscale_"))
        is_unscaled = round_.is_in(Stage.UNSCALED)
        grads = observed(grads, self._state.scale(), optimizer, None, variables, is_unscaled)
        may_step = replicas.once(round_.may_enter, Stage.STEPPED)
        with tf.control_dependencies(may_step), scope.keep_dtype_scope():
            grads, no_overflow = summed(grads) if self._combine_ddp else (grads, None)
            grads, targets = packed_pairs(optimizer, grads, variables)
            # Checks again, because the script may have made gradients infinite after unscale_().
            grads, finite = unscaled_and_agreed(grads, self._divisor(round_), False, no_overflow)
            finite = replicas.once(round_.enter, Stage.STEPPED, finite)
        return step_if(
            finite if self._state.strategy.checks_overflow else None,
            optimizer,
            list(zip(grads, targets)),
            apply,
            self.skipped_steps,
            are_summed=no_overflow is not None,
        )

    def update(self, new_scale: Any = None) -> None:
        """Adjusts the scale, after the steps of all optimizers.

        Args:
            new_scale: a scale to set, in place of the adjusted one.

        Raises:
            RuntimeError: neither unscale_() nor step() was called since the last update().
            ValueError: new_scale is out of the strategy's range, or the scale is fixed.
        """
        if not self._enabled:
            return
        if replicas.in_replica() and tf.is_tensor(new_scale):
            raise ValueError(
                "new_scale: got a tensor in a replica of a tf.distribute strategy, expected a "
                "Python number, which is the same in all replicas"
            )
        replicas.once(lambda: self._update(new_scale))

    def _update(self, new_scale: Any) -> None:
        if new_scale is not None:
            self._state.set_scale("new_scale", new_scale)
            self._rounds.begin()
            return
        with tf.control_dependencies(self._rounds.may_end()):
            has_checks = self._rounds.has_checks.read_value()
            tf.cond(has_checks, self._adjust, lambda: tf.constant(False))
        self._rounds.begin()

    def _adjust(self) -> tf.Tensor:
        self._state.update(self._rounds.all_finite.read_value())
        return tf.constant(True)

    def _round_of(self, optimizer: Any) -> Round:
        return self._rounds.of(optimizer, type(optimizer).__name__)

    def _divisor(self, round_: Round) -> tf.Tensor:
        # XLA drops the assertions on the order of calls; even then nothing is divided twice.
        return _tf_compat.where(round_.is_in(Stage.UNSCALED), 1.0, self._state.scale())

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows.

        Raises:
            RuntimeError: called in a tf.function.
            ValueError: the scale is fixed.
        """
        return self._growth_numbers("growth_factor").growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows, also for functions traced before.

        Args:
            new_factor: above 1, and finite.

        Raises:
            ValueError: new_factor is out of its range, or the scale is fixed.
            RuntimeError: called in a tf.function.
        """
        strategies.check_growth("new_factor", new_factor)
        self._set_growth("growth_factor", float(new_factor))

    def get_backoff_factor(self) -> float:
        """The factor by which the scale backs off; raises as get_growth_factor()."""
        return self._growth_numbers("backoff_factor").backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale backs off, as set_growth_factor().

        Args:
            new_factor: above 0, below 1.
        """
        strategies.check_backoff("new_factor", new_factor)
        self._set_growth("backoff_factor", float(new_factor))

    def get_growth_interval(self) -> int:
        """After how many finite steps in a row the scale grows; raises as get_growth_factor()."""
        return self._growth_numbers("growth_interval").growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of finite steps in a row after which the scale grows, as
        set_growth_factor().

        If as many have passed already, the scale grows with the next one.

        Args:
            new_interval: at least 1.
        """
        strategies.check_count("new_interval", new_interval)
        self._set_growth("growth_interval", int(new_interval))

    def _growth_numbers(self, name: str) -> Growth:
        _check_eager(f"the {name}")
        if self._growth is None:
            raise ValueError(f"{name}: the scale is fixed, and has none")
        return self._growth.numbers()

    def _set_growth(self, name: str, value: float) -> None:
        growth = self._growth_numbers(name)._replace(**{name: value})
        self._growth.set(growth)  # type: ignore[union-attr]

    def state_dict(self, torch: bool = False) -> dict[str, Any]:
        """The state and the strategy's parameters, as Python numbers; empty if not enabled.

        Args:
            torch: whether to give the five names alone that torch.amp.GradScaler loads.

        Raises:
            RuntimeError: called in a tf.function.
            ValueError: torch's GradScaler has no such strategy.
        """
        _check_eager("state_dict()")
        strategy = self._state.strategy
        if not self._enabled:
            return {}
        if torch:
            scaler_state.check_is_torchs(strategy)
        state = scaler_state.as_dict(strategy, self._growth, self._state.numbers())
        return {name: state[name] for name in scaler_state.TORCH} if torch else state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what state_dict() returned, of this class or of torch.amp.GradScaler.

        growth_factor, backoff_factor and growth_interval become those of the state. A scaler that
        is not enabled ignores it.

        Raises:
            ValueError: its names, or its other parameters, differ from those of this scaler, or a
                number is out of its range.
            RuntimeError: called in a tf.function.
        """
        if not self._enabled:
            return
        state, growth = scaler_state.from_dict(state_dict, self.state_dict())
        self._state.check(state)
        if self._growth is not None:
            self._growth.set(growth)
        self._state.set(state)
        self._rounds.begin()


def _check_eager(what: str) -> None:
    if not tf.executing_eagerly():
        raise RuntimeError(f"{what} is asked for in a graph, where there are no numbers")

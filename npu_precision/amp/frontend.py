"""The public calls of amp, by the names that Apex gives them: initialize(), scale_loss(), ..."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.amp import arguments, keras_optimizer, opt_levels, registered
from npu_precision.amp.announced_scale import AnnouncedScale
from npu_precision.amp.banner import banner
from npu_precision.amp.keras_optimizer import KerasLosses
from npu_precision.amp.opt_levels import Properties
from npu_precision.amp.session_optimizer import SessionOptimizer
from npu_precision.loss_scaling.strategies import LossScaleState
from npu_precision.loss_scaling.variables import LossScaleVariables
from npu_precision.options import PrecisionOptions
from npu_precision.session import functions, rewriter_config
from npu_precision.session.sessions import npu_config_proto

_LOGGER = logging.getLogger("npu_precision")


@dataclasses.dataclass
class _Initialized:
    """The result of the last initialize(), for state_dict() and load_state_dict().

    Attributes:
        scales: that of each loss.
        enabled: whether it was not called with enabled=False.
        in_functions: whether it put options in force for functions.
        models: those that it was given.
    """

    scales: list[LossScaleVariables]
    enabled: bool
    in_functions: bool
    models: list[Any]


_initialized: _Initialized | None = None
_not_enabled: weakref.WeakSet[Any] = weakref.WeakSet()


def initialize(
    models: Any = None,
    optimizers: Any = None,
    session_config: Any = None,
    *,
    opt_level: Any = None,
    optimizer: Any = None,
    **overrides: Any,
) -> Any:
    """Adds loss scaling to optimizers, and sets the precision mode of an optimization level.

        model, optimizer = npu_precision.amp.initialize(model, optimizer, opt_level="O1")
        model = npu_precision.amp.initialize(model, opt_level="O2")  # for inference
        optimizer, config = npu_precision.amp.initialize(optimizer, "O1")

    With models, or an optimizer of Keras, the options take effect at once for every tf.function, as
    with npu_precision.enable(). Run sessions and Estimators with `config`, which only the form
    without models returns.

    Args:
        models: a Keras model or layer, a tf.Module, or a list of them; or, in the form without
            models, optimizers.
        optimizers: a Keras optimizer or a list of them; None for inference. In the form without
            models: opt_level. There, optimizers of tf.compat.v1.train may be given too.
        session_config: in the form without models, a ConfigProto to start from; it is not changed.
            Else `enabled`, whose place that is in Apex.
        opt_level: "O0", everything in float32; "O1" (default), the lists decide what is lowered;
            "O2", everything is lowered but batch norms and what updates variables; "O3",
            everything.
        optimizer: the first argument of the form without models.
        **overrides: values in place of those of the level; None keeps that of the level.
            enabled (bool, default True): False returns the arguments as they are, and ends what an
                earlier call began.
            keep_batchnorm_fp32 (bool): whether batch norms stay float32.
            master_weights (bool): accepted; variables are float32 at every level.
            patch_torch_functions (bool): True at O1 alone, where the lists decide op by op.
            loss_scale (a number, or "dynamic"): 1.0 scales nothing and checks nothing.
            min_loss_scale, max_loss_scale (numbers): the bounds of a dynamic scale; by default
                none and 2^24.
            num_losses (int, default 1): the number of losses, each with its own scale.
            cast_model_type (tf.float16, the default, or tf.bfloat16): the low type.
            cast_model_outputs (tf.float32): accepted, since fetched and returned tensors keep
                their dtype anyway.
            combine_grad (bool, default False): whether gradients are unscaled and checked for
                overflow in one flat buffer per dtype.
            verbosity (0 or 1, the default): whether the options, and steps that overflow, are
                printed.
            Any field of PrecisionOptions that the level does not decide, such as report_dir.

    Returns:
        (models, optimizers); without optimizers, models; without models, (the optimizer or list,
        a ConfigProto). Models are returned as they are, a Keras optimizer is changed in place.

    Raises:
        ValueError: a wrong value, one that makes no sense at the level, or something that is no
            model and no optimizer, or an optimizer that scales the loss already.
        TypeError: an unknown override.
        RuntimeError: a Keras optimizer in the graph of a session.

    Source: apex.amp.initialize(models, optimizers, enabled, opt_level, ...).
    """
    given = arguments.parse(
        models if optimizer is None else optimizer, optimizers, session_config, opt_level
    )
    if given.enabled is not None:
        overrides["enabled"] = given.enabled
    level = "O1" if given.opt_level is None else given.opt_level
    properties = opt_levels.properties(level, overrides)
    several = arguments.as_list(given.optimizers)
    if len({id(one) for one in several}) < len(several):
        raise ValueError("optimizer: got the same one twice")
    if properties.enabled:
        made, config = _begin(given, properties, several, overrides)
    else:
        made, config = _end(several), given.session_config
    same = made if isinstance(given.optimizers, (list, tuple)) else (made or [None])[0]
    if given.models is None:
        return same, config
    return given.models if given.optimizers is None else (given.models, same)


def _begin(
    given: arguments.Arguments,
    properties: Properties,
    optimizers: list[Any],
    overrides: Mapping[str, Any],
) -> tuple[list[Any], Any]:
    """Puts the options in force; returns the optimizers, with losses, and the config."""
    global _initialized
    for one in optimizers:
        keras_optimizer.check_kind(one)
    options = properties.precision_options()
    config = npu_config_proto(given.session_config, options)
    strategy, combined = properties.strategy(), properties.combine_grad
    scales: list[LossScaleVariables] = [
        AnnouncedScale(strategy, loss_id) if properties.verbosity else LossScaleVariables(strategy)
        for loss_id in range(properties.num_losses)
    ]
    made = [
        SessionOptimizer(one, scales, combined)
        if isinstance(one, _tf_compat.tf1.train.Optimizer)
        else KerasLosses(scales, combined)
        for one in optimizers
    ]
    in_functions = not optimizers or any(isinstance(losses, KerasLosses) for losses in made)
    if in_functions:
        _enable(config)
    _warn_of_registered(properties, options)
    if properties.verbosity:
        print(banner(properties, overrides))
    if options.precision_mode == "force_fp16":
        for one in optimizers:
            keras_optimizer.warn_of_float16(one, f"{properties.opt_level} has all")
    # Changes optimizers last, so that a caller may catch an error and try again.
    wrapped = [
        keras_optimizer.add_losses(one, losses) if isinstance(losses, KerasLosses) else losses
        for one, losses in zip(optimizers, made)
    ]
    registered.on_change(lambda: in_functions and _take_up(given, properties))
    models = arguments.as_list(given.models)
    for model in models:
        if getattr(model, "train_function", None) is not None:
            model.train_function = None  # It was made without a loss scale; fit() makes another.
    _initialized = _Initialized(scales if optimizers else [], True, in_functions, models)
    return wrapped, config


def _enable(config: Any) -> None:
    entry = rewriter_config.npu_optimizer_entry(config.graph_options.rewrite_options)
    functions.enable(PrecisionOptions.from_parameter_map(entry.parameter_map))


def _take_up(given: arguments.Arguments, properties: Properties) -> bool:
    """Puts in force for functions what was registered since; returns True."""
    options = properties.precision_options()
    _enable(npu_config_proto(given.session_config, options))
    _warn_of_registered(properties, options)
    return True


def _warn_of_registered(properties: Properties, options: PrecisionOptions) -> None:
    if options.mixlist_edits is None and registered.registered():
        _LOGGER.warning("amp: registered functions have no effect at %s", properties.opt_level)


def _end(optimizers: list[Any]) -> list[Any]:
    """Ends what an earlier call began; returns the optimizers as they were before it."""
    global _initialized
    registered.on_change(None)
    if _initialized is not None and _initialized.in_functions:
        functions.disable()
    before = []
    for one in optimizers:
        if isinstance(one, SessionOptimizer):
            before.append(one.plain)
        elif keras_optimizer.losses_of(one) is not None:
            before.append(keras_optimizer.remove_losses(one))
        else:
            keras_optimizer.check_kind(one)
            before.append(one)
    _not_enabled.update(before)
    _initialized = _Initialized([], False, False, [])
    return before


def master_params(optimizer: Any) -> Iterator[Any]:
    """The variables that an optimizer trains, which are float32: for clipping, and the like.

    Args:
        optimizer: an optimizer from initialize().

    Raises:
        ValueError: another optimizer.
        RuntimeError: it made no step yet, and initialize() was given no models.

    Source: apex.amp.master_params(optimizer).
    """
    losses = _losses_of(optimizer, 0)
    variables = losses.trained() if isinstance(losses, KerasLosses) else []
    if isinstance(losses, SessionOptimizer):
        variables = tf.compat.v1.trainable_variables()
    if not variables and _initialized is not None:
        variables = [v for model in _initialized.models for v in model.trainable_variables]
    if not variables:
        raise RuntimeError(
            "optimizer: it made no step yet, so that nobody knows its variables; give "
            "amp.initialize() the model too"
        )
    yield from variables


@contextlib.contextmanager
def scale_loss(
    loss: Any,
    optimizer: Any,
    loss_id: int = 0,
    model: Any = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Any]:
    """Gives the loss times its scale, to take gradients of.

        with npu_precision.amp.scale_loss(loss, optimizer) as scaled_loss:
            gradients = tape.gradient(scaled_loss, variables)  # inside the tape's scope
        optimizer.apply_gradients(zip(gradients, variables))

    With a Keras optimizer, apply_gradients() takes the gradients of the scaled loss. To use them
    before, as for clipping, call unscale_gradients(). With a TF1 optimizer, compute_gradients() and
    minimize() take the loss, scaled or not, and unscale the gradients.

    Args:
        loss: a scalar tensor.
        optimizer: an optimizer from initialize(), or a list of them, which share the loss.
        loss_id: the number of the loss, below num_losses.
        model: accepted for scripts of Apex, which does not use it either.
        delay_unscale: accepted for scripts of Apex that accumulate gradients: here they are values,
            which nothing unscales before unscale_gradients() or the step. Add them up, scaled; the
            scale stays as it is until the step.
        delay_overflow_check: accepted for scripts of Apex; gradients are checked at the step.

    Raises:
        ValueError: loss_id out of range, or the optimizer is not from initialize().

    Source: apex.amp.scale_loss(loss, optimizers, loss_id, model, delay_unscale).
    """
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    if not optimizers:
        raise ValueError("optimizer: got an empty list, expected what amp.initialize() returned")
    all_losses = [_losses_of(one, loss_id) for one in optimizers]
    if any(_scales(one) != _scales(all_losses[0]) for one in all_losses):
        raise ValueError("optimizer: got a list whose scales differ: initialize() them in one call")
    # Every optimizer records the call; the products are the same.
    products = [loss if one is None else one.scaled(loss, loss_id) for one in all_losses]
    yield products[-1]


def unscale_gradients(grads: Sequence[Any], optimizer: Any, loss_id: int = 0) -> list[Any]:
    """Divides the gradients of a scaled loss by its scale, for use before apply_gradients().

    Args:
        grads: gradients of what scale_loss() gave for this loss; dense, IndexedSlices or None.
        optimizer: an optimizer from initialize().
        loss_id: the number of the loss, below num_losses.

    Raises:
        ValueError: as scale_loss().
        RuntimeError: the loss was not scaled since the last call; from within a tf.function,
            InvalidArgumentError.
    """
    losses = _losses_of(optimizer, loss_id)
    return list(grads) if losses is None else losses.unscaled(grads, loss_id)


def state_dict(session: Any = None) -> dict[str, dict[str, float]]:
    """The loss scales of the last initialize(), to be saved with a model.

    Args:
        session: the session that has them, in a graph; by default the default session.

    Returns:
        An entry per loss: {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 0}, ...}.

    Raises:
        RuntimeError: before initialize(), or in a graph without a session.

    Source: apex.amp.state_dict().
    """
    session = _session(session)
    result = {}
    for index, scale in enumerate(_last().scales):
        state = _numbers(scale, session)
        result[f"loss_scaler{index}"] = {"loss_scale": state.scale, "unskipped": state.good_steps}
    return result


def load_state_dict(state_dict: Mapping[str, Any], session: Any = None) -> None:
    """Restores what state_dict() returned. Fixed scales stay; without `enabled` nothing changes.

    Args:
        state_dict: with as many losses as initialize() was given.
        session: as for state_dict().

    Raises:
        ValueError: another shape, or a number out of its range; nothing is changed then.
        RuntimeError: as state_dict().

    Source: apex.amp.load_state_dict().
    """
    if not _last().enabled:
        return
    session, scales = _session(session), _last().scales
    names = [f"loss_scaler{index}" for index in range(len(scales))]
    if not isinstance(state_dict, Mapping) or sorted(state_dict) != sorted(names):
        what = sorted(state_dict) if isinstance(state_dict, Mapping) else state_dict
        raise ValueError(
            f"state_dict: got {what!r}, expected {names}: one for each of num_losses={len(names)}"
        )
    states = []
    for name, scale in zip(names, scales):
        one = state_dict[name]
        if not isinstance(one, Mapping) or set(one) != {"loss_scale", "unskipped"}:
            raise ValueError(f"state_dict: {name}: got {one!r}, expected loss_scale and unskipped")
        states.append(LossScaleState(one["loss_scale"], one["unskipped"]))
        try:
            scale.check(states[-1], session)
        except ValueError as error:
            text = (
                str(error).replace("_growth_tracker", "unskipped").replace("scale:", "loss_scale:")
            )
            raise ValueError(f"state_dict: {name}: {text}") from None
    for scale, state in zip(scales, states):
        scale.set(state, session)


def _scales(losses: SessionOptimizer | KerasLosses | None) -> list[LossScaleVariables]:
    return [] if losses is None else losses.scales


def _losses_of(optimizer: Any, loss_id: int) -> SessionOptimizer | KerasLosses | None:
    """The losses of an optimizer; None if initialize() was called with enabled=False."""
    is_tf1 = isinstance(optimizer, SessionOptimizer)
    losses = optimizer if is_tf1 else keras_optimizer.losses_of(optimizer)
    if losses is None:
        if optimizer in _not_enabled:
            return None
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected what amp.initialize() returned"
        )
    count = len(losses.scales)
    if isinstance(loss_id, bool) or not isinstance(loss_id, int) or not 0 <= loss_id < count:
        raise ValueError(
            f"loss_id: got {_errors.got(loss_id)}, expected a whole number from 0 to {count - 1}: "
            f"initialize() was called with num_losses={count}"
        )
    return losses


def _session(session: Any) -> Any:
    session = session or tf.compat.v1.get_default_session()
    if session is None and not tf.executing_eagerly():
        raise RuntimeError("in a graph, give the session that has the loss scales")
    return session


def _last() -> _Initialized:
    if _initialized is None:
        raise RuntimeError("there is no state before amp.initialize()")
    return _initialized


def _numbers(scale: LossScaleVariables, session: Any) -> LossScaleState:
    if not scale.strategy.adjusts or (session is not None and not scale.is_in(session)):
        return scale.strategy.initial()
    return scale.numbers(session)

"""The functions of amp for a training step, by Apex's names: initialize(), scale_loss(), ..."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.amp import arguments, keras_optimizer, opt_levels, registered, state
from npu_precision.amp.announced_scale import AnnouncedScale
from npu_precision.amp.banner import banner
from npu_precision.amp.keras_optimizer import KerasLosses
from npu_precision.amp.opt_levels import Properties
from npu_precision.amp.session_optimizer import SessionOptimizer
from npu_precision.amp.shared_losses import SharedLosses
from npu_precision.amp.state import Initialized
from npu_precision.loss_scaling.variables import LossScaleVariables
from npu_precision.options import PrecisionOptions
from npu_precision.session import functions, rewriter_config
from npu_precision.session.sessions import npu_config_proto

_LOGGER = logging.getLogger("npu_precision")


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
        **overrides: values that replace the level's; None keeps the level's value.
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
            combine_ddp (bool, default False): whether a step adds up the gradients of all replicas
                of a strategy, in one buffer per dtype, before it unscales and checks them, in place
                of the optimizer, which would do it after; for Keras optimizers.
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
        made, config = _end(several, arguments.as_list(given.models)), given.session_config
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
    for one in optimizers:
        keras_optimizer.check_kind(one)
    options = properties.precision_options()
    config = npu_config_proto(given.session_config, options)
    strategy, combined = properties.strategy(), properties.combine_grad
    tf1_optimizer = _tf_compat.tf1.train.Optimizer
    if properties.combine_ddp and any(isinstance(one, tf1_optimizer) for one in optimizers):
        raise ValueError(
            "combine_ddp: got an optimizer of tf.compat.v1.train, expected one of Keras, under a "
            "tf.distribute strategy; over hccl's ranks, NPUDistributedOptimizer adds up"
        )
    scales: list[LossScaleVariables] = [
        AnnouncedScale(strategy, loss_id) if properties.verbosity else LossScaleVariables(strategy)
        for loss_id in range(properties.num_losses)
    ]
    shared = SharedLosses(scales)
    made = [
        SessionOptimizer(one, scales, combined)
        if isinstance(one, tf1_optimizer)
        else KerasLosses(scales, combined, properties.combine_ddp, shared)
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
            model.train_function = None  # Built without a loss scale; fit() makes another.
    warns = in_functions and properties.opt_level != "O0"  # which lowers nothing
    state.initialized = Initialized(scales if optimizers else [], True, in_functions, models, warns)
    return wrapped, config


def _enable(config: Any) -> None:
    entry = rewriter_config.npu_optimizer_entry(config.graph_options.rewrite_options)
    functions.enable(PrecisionOptions.from_parameter_map(entry.parameter_map))


def _take_up(given: arguments.Arguments, properties: Properties) -> bool:
    """Applies functions registered since initialize() to tf.functions; returns True."""
    options = properties.precision_options()
    _enable(npu_config_proto(given.session_config, options))
    _warn_of_registered(properties, options)
    return True


def _warn_of_registered(properties: Properties, options: PrecisionOptions) -> None:
    if options.mixlist_edits is None and registered.registered():
        _LOGGER.warning("amp: registered functions have no effect at %s", properties.opt_level)


def _end(optimizers: list[Any], models: list[Any]) -> list[Any]:
    """Ends what an earlier call began; returns the optimizers as they were before it."""
    registered.on_change(None)
    if state.initialized is not None and state.initialized.in_functions:
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
    state.initialized = Initialized([], False, False, models, False)
    return before


def master_params(optimizer: Any) -> Iterator[Any]:
    """The variables that an optimizer trains, which are float32: for clipping, and the like.

    Args:
        optimizer: an optimizer from initialize().

    Raises:
        ValueError: the optimizer is not from initialize().
        RuntimeError: the optimizer made no step yet, or was not enabled, and initialize() was given
            no built model.

    Source: apex.amp.master_params(optimizer).
    """
    losses = _losses_of(optimizer, 0)
    variables = losses.trained() if isinstance(losses, KerasLosses) else []
    if isinstance(optimizer, _tf_compat.tf1.train.Optimizer):
        variables = tf.compat.v1.trainable_variables()
    if not variables and state.initialized is not None:
        variables = [v for model in state.initialized.models for v in model.trainable_variables]
    if not variables:
        raise RuntimeError(
            "optimizer: nobody knows its variables before its first step, or without one that "
            "amp.initialize() enabled; give initialize() the model too, and build the model"
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
    """Context that yields the loss times its scale, for computing gradients.

        with npu_precision.amp.scale_loss(loss, optimizer) as scaled_loss:
            gradients = tape.gradient(scaled_loss, variables)  # inside the tape's scope
        optimizer.apply_gradients(zip(gradients, variables))

    With a Keras optimizer, apply_gradients() takes the gradients of the scaled loss. To use them
    before, as for clipping, call unscale_gradients(). With a TF1 optimizer, compute_gradients() and
    minimize() take the loss, scaled or not, and unscale the gradients.

    Args:
        loss: a tensor.
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
    _warn_of_eager_code()
    for one in all_losses:
        if isinstance(one, KerasLosses):
            one.begin(loss_id, len(all_losses))
    # Each optimizer records the call; all return the same product.
    products = [loss if one is None else one.scaled(loss, loss_id) for one in all_losses]
    yield products[-1]


def _warn_of_eager_code() -> None:
    last = state.initialized
    if last is None or not last.warns_of_eager_code or functions.has_reached_functions():
        return
    if tf.executing_eagerly():
        last.warns_of_eager_code = False
        _LOGGER.warning(
            "amp: the loss was computed eagerly, where nothing is lowered: decorate the step with "
            "@tf.function"
        )


def unscale_gradients(grads: Sequence[Any], optimizer: Any, loss_id: int = 0) -> list[Any]:
    """Divides the gradients of a scaled loss by its scale, for use before apply_gradients().

    Args:
        grads: gradients of the result of scale_loss() for this loss; dense, IndexedSlices or None.
        optimizer: an optimizer from initialize().
        loss_id: the number of the loss, below num_losses.

    Raises:
        ValueError: as scale_loss().
        RuntimeError: the loss was not scaled since the last call; from within a tf.function,
            InvalidArgumentError.
    """
    losses = _losses_of(optimizer, loss_id)
    return list(grads) if losses is None else losses.unscaled(grads, loss_id)


def _scales(losses: SessionOptimizer | KerasLosses | None) -> list[LossScaleVariables]:
    return [] if losses is None else losses.scales


def _losses_of(optimizer: Any, loss_id: int) -> SessionOptimizer | KerasLosses | None:
    """The losses of an optimizer; None if initialize() was called with enabled=False."""
    is_tf1 = isinstance(optimizer, SessionOptimizer)
    losses = optimizer if is_tf1 else keras_optimizer.losses_of(optimizer)
    if losses is None:
        if any(optimizer is one for one in _not_enabled):
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

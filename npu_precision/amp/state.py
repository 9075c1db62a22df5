"""The result of the last amp.initialize(), and its loss scales as a dictionary in Apex's form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling.strategies import LossScaleState
from npu_precision.loss_scaling.variables import LossScaleVariables


@dataclasses.dataclass
class Initialized:
    """The result of the last initialize(), for state_dict() and load_state_dict().

    Attributes:
        scales: a scale per loss.
        enabled: whether it was not called with enabled=False.
        in_functions: whether it put options in force for functions.
        models: the models that it was given.
        warns_of_eager_code: whether to warn, once, if the loss is computed eagerly.
    """

    scales: list[LossScaleVariables]
    enabled: bool
    in_functions: bool
    models: list[Any]
    warns_of_eager_code: bool


initialized: Initialized | None = None


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


def _session(session: Any) -> Any:
    session = session or tf.compat.v1.get_default_session()
    if session is None and not tf.executing_eagerly():
        raise RuntimeError("in a graph, give the session that has the loss scales")
    return session


def _last() -> Initialized:
    if initialized is None:
        raise RuntimeError("there is no state before amp.initialize()")
    return initialized


def _numbers(scale: LossScaleVariables, session: Any) -> LossScaleState:
    if not scale.strategy.adjusts or (session is not None and not scale.is_in(session)):
        return scale.strategy.initial()
    return scale.numbers(session)

"""Wraps private parts of tf.estimator's Estimator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.training import monitored_session

from npu_precision._tf_compat.versions import tf1


def map_hooks_of_sessions(transform: Callable[[Any], list[Any]]) -> None:
    """Gives each later MonitoredSession transform(hooks) in place of its hooks."""
    original = monitored_session._MonitoredSession.__init__

    @functools.wraps(original)
    def __init__(self: Any, session_creator: Any, hooks: Any, *args: Any, **kwargs: Any) -> None:
        original(self, session_creator, transform(hooks), *args, **kwargs)

    monitored_session._MonitoredSession.__init__ = __init__


def wrap_training(estimator: Any, wrap: Callable[[Any, list[Any]], Any]) -> None:
    """Makes an Estimator train by the EstimatorSpec that wrap(spec, hooks) returns.

    `spec` comes from the model function; `hooks` are those of the call and those that end training.
    """
    # tf.estimator lets no class override it.
    original = estimator._train_with_estimator_spec

    def train(spec: Any, worker_hooks: Any, hooks: Any, *args: Any, **kwargs: Any) -> Any:
        return original(wrap(spec, list(hooks)), worker_hooks, hooks, *args, **kwargs)

    estimator._train_with_estimator_spec = train


def set_estimator_session_config(estimator: Any, config: Any) -> None:
    """Gives an Estimator's sessions another ConfigProto than its RunConfig has."""
    estimator._session_config = config


def last_step(hooks: Iterable[Any]) -> int | None:
    """The global step at which the first of the hooks ends training; None if none does.

    Known once there is a session.
    """
    steps = [hook._last_step for hook in hooks if isinstance(hook, tf1.train.StopAtStepHook)]
    return min((int(step) for step in steps if step is not None), default=None)


def config_of_session(session: Any) -> Any:
    """The ConfigProto that a session was made with, empty if it had none."""
    config = session._config
    return config_pb2.ConfigProto() if config is None else config

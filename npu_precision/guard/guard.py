"""PrecisionGuard: lets a training survive a value that does not fit its type."""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.guard.healer import Healer, Limits
from npu_precision.guard.keras_training import (
    GuardedFunction,
    HealedFunction,
    KerasTraining,
    give_back,
)
from npu_precision.guard.session_training import GuardedGraph, Run, SessionTraining
from npu_precision.hccl import ranks
from npu_precision.loss_scaling import strategies

tf1: Any = tf.compat.v1
_LOGGER = logging.getLogger("npu_precision")


class PrecisionGuard(tf.keras.callbacks.Callback, tf1.train.SessionRunHook):  # type: ignore[misc]
    """Heals a training in which a value overflows or vanishes in a low type.

        guard = npu_precision.PrecisionGuard(mixlist="healed.json")
        model.fit(images, labels, callbacks=[guard])

    It is also a hook for MonitoredSession and for an Estimator's train(). Their config must have
    modify_mixlist="healed.json", a file that the guard writes when it is created:

        config = NPURunConfig(precision_mode="allow_mix_precision", modify_mixlist="healed.json")
        NPUEstimator(model_fn, config=config).train(input_fn, hooks=[guard])

    The guard checks the loss and the weights after each step. If one is not finite, if the loss
    leaves its band, or if a weight has not changed since the last state was saved, the guard
    restores that state, finds the op where the fault began, adds the op to the mixlist with the
    reason beside it, and continues with that mixlist from the same batch. Each heal is one line in
    the log. If float32 fails on the same batch too, the model or its data is at fault: the guard
    stops with an error that says where the fault began. After this and any other error, the model
    has the last good state.

    Weights, slots, counters, the loss scale, metrics and random numbers of tf.random.Generator are
    restored; random numbers of other ops differ when a step is run again.

    Args:
        mixlist: the file for the ops to keep in float32, which begins with the entries of the
            modify_mixlist in force. A file that an earlier guard wrote is in force from the first
            step.
        snapshot_every: the number of steps between saved states. A state takes the memory of the
            weights and slots once more, and the inputs since then are kept.
        band: the lowest and the highest loss that is no fault. Without it, a loss that is ten times
            the usual one in float32 too is the training's own fault.
        max_heals: the number of heals after which the guard stops.
        memory: the most bytes of inputs that are kept; larger ones have states saved more often.
        loss: in sessions, the loss as a tensor or its name; by default the graph's losses, among
            which an Estimator puts its own.

    Raises:
        ValueError: a wrong argument.
        FileExistsError: mixlist is a file that no guard wrote.
        OSError: mixlist cannot be read or written.
    """

    def __init__(
        self,
        mixlist: str | os.PathLike[str] = "healed.json",
        snapshot_every: int = 20,
        band: tuple[float, float] | None = None,
        max_heals: int = 3,
        memory: int = 2**28,
        loss: Any = None,
    ) -> None:
        super().__init__()
        for name, value in {"snapshot_every": snapshot_every, "max_heals": max_heals}.items():
            strategies.check_count(name, value)
        strategies.check_whole("memory", memory, 1, 2**63 - 1)
        if not isinstance(mixlist, (str, os.PathLike)):
            raise ValueError(f"mixlist: got {_errors.got(mixlist)}, expected str or os.PathLike")
        self._limits = Limits(snapshot_every, _checked(band), max_heals, memory)
        self._mixlist = HealedMixlist(mixlist)
        self._healer: Healer | None = None
        self._loss = loss
        self._graph: GuardedGraph | None = None

    @property
    def heals(self) -> int:
        """The number of heals so far."""
        return 0 if self._healer is None else self._healer.heals

    def on_train_begin(self, logs: Any = None) -> None:
        """Replaces the model's train_function and test_function.

        Raises:
            ValueError: a loss is given, which is for sessions; or no precision mode has an effect:
                the model runs eagerly, or has Keras' own mixed precision.
        """
        if self._loss is not None:
            raise ValueError("PrecisionGuard: loss is for sessions; fit has the model's own")
        if self.model.run_eagerly:
            raise ValueError(
                "PrecisionGuard: the model runs eagerly, where no precision mode has an effect; "
                "compile it with run_eagerly=False"
            )
        policy = _tf_compat.low_policy_of(self.model)
        if policy:
            raise ValueError(
                f"PrecisionGuard: {policy}, Keras' own mixed precision, is in the model, which no "
                "mixlist changes; use npu_precision.enable() or autocast() instead of the policy"
            )
        training = KerasTraining(self.model)
        if _tf_compat.is_compiled_by_xla(self.model) and not training.is_compiled:
            _LOGGER.warning(
                "PrecisionGuard: the model is compiled with jit_compile=True; its steps run "
                "without XLA, as several replicas do, and a mode that does not lower what XLA "
                "compiles"
            )
        self._healer = Healer(training, self._mixlist, self._limits)
        self.model.make_test_function()
        self.model.test_function = HealedFunction(self.model, training)
        self.model.train_function = GuardedFunction(self.model, self._healer.step)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Makes the guard save a new state, because metrics are reset here."""
        assert self._healer is not None
        self._healer.save_anew()

    def on_train_end(self, logs: Any = None) -> None:
        """Restores the model's own functions."""
        give_back(self.model)

    def begin(self) -> None:
        """Adds the guard's ops to the graph of a session.

        Raises:
            ValueError: there is no loss, or there are several ranks.
        """
        if ranks.current().size > 1:
            raise ValueError("PrecisionGuard: in sessions, it is for one rank, got several")
        self._graph = GuardedGraph(self._loss, self._limits.max_heals)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Replaces the session's run.

        Raises:
            ValueError: the session's config has a precision mode and a different mixlist.
        """
        assert self._graph is not None
        run = session.run
        training = SessionTraining(session, run, self._graph, self)
        options = training.options()
        if options is not None and not self._mixlist.is_of(options):
            raise ValueError(
                f"PrecisionGuard: the session's config has modify_mixlist "
                f"{options.modify_mixlist!r}, expected {str(self._mixlist.path)!r}, the guard's, "
                "which is read anew when it changes: npu_config_proto(precision_mode=..., "
                f"modify_mixlist={str(self._mixlist.path)!r})"
            )
        healer = self._healer = Healer(training, self._mixlist, self._limits)

        def guarded(
            fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
        ) -> Any:
            # Users and hooks run other fetches between steps.
            if not (isinstance(fetches, dict) and self in fetches):
                return run(fetches, feed_dict, options, run_metadata)
            return healer.step(Run(fetches, feed_dict or {}, options, run_metadata))

        session.run = guarded

    def before_run(self, run_context: Any) -> Any:
        """Fetches the loss of a training step, and the batches that it reads."""
        assert self._graph is not None
        if not self._graph.trains(run_context.original_args.fetches):
            return None
        return tf1.train.SessionRunArgs(self._graph.fetches())


def _checked(band: Any) -> tuple[float, float] | None:
    if band is None:
        return None
    try:
        low, high = map(float, band)
    except (TypeError, ValueError):
        low, high = 1.0, 0.0
    if not low < high:
        raise ValueError(
            f"band: got {_errors.got(band)}, expected the lowest and the highest loss, as (0, 10)"
        )
    return low, high

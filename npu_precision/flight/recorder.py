"""FlightRecorder: records where values leave a type's range, in tensors and in gradients."""

from __future__ import annotations

import collections
import logging
import math
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import _errors
from npu_precision.flight import guarded
from npu_precision.flight.forward import GraphRecord
from npu_precision.flight.log import FlightLog
from npu_precision.flight.selection import every, of_arguments
from npu_precision.flight.tensor_watch import WATCHES, TensorWatch, WatchedStep
from npu_precision.hccl import ranks
from npu_precision.loss_scaling import observed_gradients
from npu_precision.loss_scaling.observed_gradients import Counts, Site

_LOGGER = logging.getLogger("npu_precision")
_MOST_NAMES = 20
_VALUES = ("", "infinity", "nan")
_NOTHING = (
    "no step was recorded: nothing ran inside the with that a precision mode lowers, and no step "
    "with loss scaling was built in it. A session's graph must first run inside it; what runs "
    "eagerly is not seen"
)
_NOTHING_SELECTED = "no step was recorded: steps or scopes select nothing of what ran"


class FlightRecorder:
    """Records the ranges of lowered tensors, and of the gradients of a loss scaler.

        with npu_precision.FlightRecorder("flight") as recorder:
            train()
        print(recorder.summary())

    Tensors: it records one in `every_n_steps` runs of every graph, the first run among them: the
    largest magnitude of each tensor that is computed in a low type or rounded to one, the shares of
    its elements over and under that type's range, where the first infinity or NaN began, and the
    scope whose range drifts. It covers tf.functions, Keras' fit, and sessions that first run a
    graph inside the `with`. It changes no result. A recorded step copies the tensors of GPUs to the
    host. Functions that XLA compiles are compiled once more, for the steps that are recorded, which
    may round elsewhere; in loops and branches within them, nothing is recorded.

    Gradients: it records steps that NPULossScaleOptimizer, GradScaler or npu_precision.amp build
    inside the `with`: every step that overflows, and one in `every_n_steps` of the others.

    Each event is a line of FOLDER/flight.jsonl and points of TensorBoard's scalars (tensorboard
    --logdir FOLDER); `npu-precision flight FOLDER -o page.html` makes a page of them. One of
    several ranks writes to FOLDER/rank_N.

    Args:
        folder: created if it does not exist; lines are added to those of earlier runs.
        every_n_steps: one in so many steps is recorded; 100 by default.
        watch: "lowered"; "all", for tensors of float32 too, and what the graph reads; None, for
            gradients alone.
        steps: instead of every_n_steps, the steps to record, counted from 0 for each graph: as
            range(500, 600), or range(500, 1000, 10).
        scopes: only tensors in these scopes of the model are recorded, as ["encoder/layer_3"]: the
            parts of a scope are parts of the tensor's name, one after the other.
        statistics: whether the mean, the standard deviation, the sum of magnitudes, the Euclidean
            norm, the least and the largest of a tensor's finite values are recorded too. Not of
            tensors within functions that XLA compiles.
        stop_at_infinity: whether a step fails with InvalidArgumentError where the first value is
            not finite, or becomes infinite in its low type. Steps that are not recorded do not;
            without every_n_steps and steps, each is. With loss scaling, gradients that overflow
            stop it too.

    Raises:
        ValueError: every_n_steps is not a whole number of at least 1, steps is no range of at least
            one step that counts up from 0 or more, both are given, or another value is none of
            those above.
        OSError: the folder cannot be written to.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every_n_steps: int | None = None,
        watch: str | None = "lowered",
        *,
        steps: range | None = None,
        scopes: Sequence[str] = (),
        statistics: bool = False,
        stop_at_infinity: bool = False,
    ) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise ValueError(f"folder: got {_errors.got(folder)}, expected str or os.PathLike")
        if watch is not None and watch not in WATCHES:
            expected = ", ".join(map(repr, WATCHES))
            raise ValueError(f"watch: got {_errors.got(watch)}, expected {expected} or None")
        selection = of_arguments(every_n_steps, steps, scopes, statistics, stop_at_infinity)
        of_tensors = {
            "scopes": scopes,
            "statistics": statistics,
            "stop_at_infinity": stop_at_infinity,
        }
        for name, value in of_tensors.items():
            if watch is None and value:
                raise ValueError(f"{name}: it is about tensors, and watch=None records none")
        where = ranks.current()
        self._rank = {"rank": where.rank} if where.size > 1 else {}
        folder = pathlib.Path(folder, f"rank_{where.rank}") if self._rank else folder
        try:
            self._log = FlightLog(folder)
        except (OSError, tf.errors.OpError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OSError(
                f"FlightRecorder: cannot write to folder {str(folder)!r}: {reason}"
            ) from error
        self._selection = selection
        self._watch = TensorWatch(watch, selection, self._see_step) if watch else None
        self._graphs: dict[int, GraphRecord] = {}
        self._lock = threading.Lock()
        self._is_open, self._was_entered = True, False
        self._in_trials = False
        # By the source of gradients.
        self._steps: collections.Counter[str] = collections.Counter()
        self._overflows: collections.Counter[str] = collections.Counter()
        self._last_overflow: dict[str, dict[str, Any]] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> FlightRecorder:
        """Starts recording, in all threads.

        Raises:
            RuntimeError: it was entered before, or another recorder watches tensors.
        """
        if self._was_entered:
            raise RuntimeError("FlightRecorder: it was entered before: make another")
        if self._watch is not None:
            self._watch.__enter__()
        self._was_entered = True
        recorded = self._selection.steps
        start: dict[str, Any] = {"event": "start", "every_n_steps": recorded.step}
        if recorded != every(recorded.step):
            start["steps"] = [recorded.start, recorded.stop]
        self._add(start, {})
        observed_gradients.add_observer(self)
        guarded.add_recorder(self)
        return self

    def __exit__(self, *exception: object) -> None:
        """Stops recording, also of steps that were built inside."""
        observed_gradients.remove_observer(self)
        guarded.remove_recorder(self)
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
        with self._lock:
            self._is_open = False
            try:
                self._log.close()
            except OSError as error:
                _LOGGER.warning("FlightRecorder: the end of the log may be missing: %s", error)

    def summary(self) -> str:
        """The recorded steps, in a few lines of text."""
        lines = []
        for number, record in self._graphs.items():
            assert self._watch is not None
            lines.extend(record.summary(self._watch.steps(number), self._watch.dropped(number)))
        for source, steps in self._steps.items():
            lines.append(f"{source}: {steps} steps, {self._overflows[source]} overflowed")
            if source in self._last_overflow:
                lines.append(f"  last overflow: {_where(self._last_overflow[source])}")
            last = self._last[source]
            lines.append(
                f"  step {last['step']}, scale {last['scale']:g}: "
                f"{last['zero_share']:.1%} of the gradients are zero"
            )
            if last["all_zero"]:
                lines.append(
                    f"  all zero, {last['all_zero_count']} of {last['gradients']}: "
                    f"{', '.join(last['all_zero'])}"
                )
        tensors = [
            tensor.node for record in self._graphs.values() for tensor in record.graph.tensors
        ]
        empty = [
            f"scopes: no tensor is in {scope!r}; a recorder without scopes tells the names, to "
            "which Keras 3 may add numbers, as in 'model_1/layer_1'"
            for scope in self._selection.scopes
            if not any(f"/{scope}/" in f"/{name}/" for name in tensors)
        ]
        if not lines:
            selects = self._selection.scopes or self._selection.steps.start
            lines = [_NOTHING_SELECTED if selects else _NOTHING]
        return "\n".join(lines + empty)

    def see(self, site: Site, scale: float, counts: Counts) -> None:
        """Counts a step, and records it if it is one in every_n_steps, or overflows in between."""
        with self._lock:
            if not self._is_open:
                return
            step = self._steps[site.source]
            self._steps[site.source] += 1
            recorded = self._selection.steps
            is_within = recorded.start <= step < recorded.stop
            if step in recorded or (is_within and counts.kinds.any()):
                self._write(site, step, scale, counts)

    def see_trials(self, begin: bool) -> None:
        """Notes which steps are trials of a PrecisionGuard; see guarded.trials."""
        if self._watch is not None:
            self._watch.flush()  # What ran before is of the other kind.
        self._in_trials = begin

    def see_heal(self, event: Mapping[str, Any]) -> None:
        """Records that a step was healed."""
        if self._watch is not None:
            self._watch.flush()  # The healed step stands before the event.
        with self._lock:
            self._add(event, {})

    def _write(self, site: Site, step: int, scale: float, counts: Counts) -> None:
        bad = np.flatnonzero(counts.kinds)
        all_zero = np.flatnonzero((counts.zeros == counts.sizes) & (counts.sizes > 0))
        zero_share = float(counts.zeros.sum() / max(counts.sizes.sum(), 1))
        event: dict[str, Any] = {
            "event": "overflow" if bad.size else "sample",
            "source": site.source,
            "step": step,
            "scale": scale,
            "gradients": len(counts.kinds),
            "zero_share": zero_share,
            "all_zero_count": int(all_zero.size),
            "all_zero": [site.names[index] for index in all_zero[:_MOST_NAMES]],
        }
        if bad.size:
            first = bad[0]  # gradients are in the order of the backward pass
            event["not_finite_count"] = int(bad.size)
            event["first"] = {
                "gradient": site.names[first],
                "forward_op": site.forward_ops[first],
                "value": _VALUES[counts.kinds[first]],
            }
        scalars = {"loss_scale": scale, "overflow": float(bad.size > 0), "zero_share": zero_share}
        self._last[site.source] = event
        if bad.size:
            self._overflows[site.source] += 1
            self._last_overflow[site.source] = event
        # JSON has no infinity, which the scale of a custom manager may reach.
        event = {**event, "scale": scale if math.isfinite(scale) else str(scale)}
        self._add(event, {f"{site.source}/{tag}": scalars[tag] for tag in scalars})

    def _see_step(self, step: WatchedStep) -> None:
        with self._lock:
            number = step.graph.number
            if number not in self._graphs:
                self._graphs[number] = GraphRecord(step.graph)
                self._add(self._graphs[number].description(), {})
            record = self._graphs[number]
            trial = {"trial": True} if self._in_trials else {}
            record.is_trial = record.is_trial and self._in_trials
            self._add({**record.event(step), **trial}, record.scalars(step))

    def _add(self, event: Mapping[str, Any], scalars: dict[str, float]) -> None:
        if not self._is_open:
            return
        try:
            self._log.add({**event, **self._rank}, scalars)
        except OSError as error:
            self._is_open = False
            _LOGGER.warning("FlightRecorder: nothing more is recorded: %s", error)


def _where(event: dict[str, Any]) -> str:
    first = event["first"]
    op = (
        f" of {first['forward_op']}" if first["forward_op"] not in (None, first["gradient"]) else ""
    )
    return (
        f"step {event['step']}, scale {event['scale']:g}: {first['value']} in {first['gradient']}"
        f"{op}, and {event['not_finite_count'] - 1} more"
    )

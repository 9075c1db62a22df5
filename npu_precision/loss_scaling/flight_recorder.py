"""FlightRecorder: what overflowed first, and how much underflowed, step by step."""

from __future__ import annotations

import collections
import logging
import os
import threading
from typing import Any

import numpy as np

from npu_precision import _errors
from npu_precision.loss_scaling import observed_gradients, strategies
from npu_precision.loss_scaling.flight_log import FlightLog
from npu_precision.loss_scaling.observed_gradients import Counts, Site

_LOGGER = logging.getLogger("npu_precision")
_MOST_NAMES = 20
_VALUES = ("", "infinity", "nan")


class FlightRecorder:
    """Writes down every step that overflows, and of every so many others what underflowed.

        with npu_precision.FlightRecorder("flight") as recorder:
            train()
        print(recorder.summary())

    Of steps that are built inside, by NPULossScaleOptimizer, GradScaler or npu_precision.amp. Each
    event is a line of FOLDER/flight.jsonl and a point of TensorBoard's scalars (tensorboard
    --logdir FOLDER). XLA (jit_compile=True) leaves no room for it.

    Args:
        folder: made if need be; lines are added to those that are there.
        every_n_steps: steps that do not overflow are written down this often, the first among them.

    Raises:
        ValueError: every_n_steps is no whole number of at least 1.
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: str | os.PathLike[str], every_n_steps: int = 100) -> None:
        strategies.check_count("every_n_steps", every_n_steps)
        if not isinstance(folder, (str, os.PathLike)):
            raise ValueError(f"folder: got {_errors.got(folder)}, expected str or os.PathLike")
        self._log = FlightLog(folder)
        self._every_n_steps = every_n_steps
        self._lock = threading.Lock()
        self._is_open = True
        self._steps: collections.Counter[str] = collections.Counter()
        self._overflows: list[dict[str, Any]] = []
        self._last: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> FlightRecorder:
        """Steps that are built from now on are recorded."""
        observed_gradients.observers.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is recorded any more, of steps that were built inside neither."""
        observed_gradients.observers.remove(self)
        with self._lock:
            self._is_open = False
            self._log.close()

    def summary(self) -> str:
        """What was seen, in a few lines of text."""
        lines = []
        for source, steps in self._steps.items():
            overflows = [event for event in self._overflows if event["source"] == source]
            lines.append(f"{source}: {steps} steps, {len(overflows)} overflowed")
            if overflows:
                lines.append(f"  last overflow: {_where(overflows[-1])}")
            last = self._last.get(source)
            if last is not None:
                lines.append(
                    f"  step {last['step']}, scale {last['scale']:g}: "
                    f"{last['zero_share']:.1%} of the gradients are zero"
                )
                if last["all_zero"]:
                    lines.append(
                        f"  all zero, {last['all_zero_count']} of {last['gradients']}: "
                        f"{', '.join(last['all_zero'])}"
                    )
        return "\n".join(lines) or "no step was recorded"

    def is_due(self, site: Site, all_finite: bool) -> tuple[int, bool]:
        """Counts a step: its number, and whether it is to be written down."""
        with self._lock:
            step = self._steps[site.source]
            self._steps[site.source] += 1
            return step, self._is_open and (not all_finite or step % self._every_n_steps == 0)

    def add(self, site: Site, step: int, scale: float, counts: Counts) -> None:
        """Writes down one step."""
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
            first = bad[0]  # they are in the order of the backward pass
            event["not_finite_count"] = int(bad.size)
            event["first"] = {
                "gradient": site.names[first],
                "forward_op": site.forward_ops[first],
                "value": _VALUES[counts.kinds[first]],
            }
        scalars = {"loss_scale": scale, "overflow": float(bad.size > 0), "zero_share": zero_share}
        with self._lock:
            if not self._is_open:
                return
            self._last[site.source] = event
            if bad.size:
                self._overflows.append(event)
            try:
                self._log.add(event, {f"{site.source}/{tag}": scalars[tag] for tag in scalars})
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

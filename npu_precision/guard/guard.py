"""PrecisionGuard: lets a training survive a value that does not fit its type."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from npu_precision import _errors
from npu_precision.guard.healed_mixlist import HealedMixlist
from npu_precision.guard.healer import Healer, Limits
from npu_precision.guard.keras_training import GuardedFunction, KerasTraining
from npu_precision.loss_scaling import strategies


class PrecisionGuard(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Heals a training in which a value overflows or vanishes in a low type.

        guard = npu_precision.PrecisionGuard(mixlist="healed.json")
        model.fit(images, labels, callbacks=[guard])

    After each step it looks at the loss and the weights. If one is not finite, if the loss leaves
    its band, or if no weight has changed since the last state was saved, it brings back that state,
    finds the op where it began, puts it into the mixlist with the reason beside it, and goes on
    with that mixlist from the same batch. Each heal is one line in the log. It stops, with an
    error that says where it began, if float32 fails on the same batch too: then the model or its
    data is at fault. Then and after any other error the last good state is in the model.

    Weights, slots, counters, the loss scale, metrics and random numbers of tf.random.Generator are
    brought back; random numbers of other ops are not the same when a step is run again.

    Args:
        mixlist: the file for what is kept in float32, which begins with the entries of the
            modify_mixlist in force. One that a guard wrote before is in force from the first step.
        snapshot_every: how many steps have one saved state. It takes the memory of the weights and
            slots once more, and the inputs since then are kept.
        band: the lowest and the highest loss that is no fault. Without it, a loss of which float32
            makes ten times the usual one is the training's own fault.
        max_heals: how often it heals; then it stops.
        memory: the most bytes of inputs that are kept; larger ones have states saved more often.

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
    ) -> None:
        super().__init__()
        counts = {"snapshot_every": snapshot_every, "max_heals": max_heals, "memory": memory}
        for name, value in counts.items():
            strategies.check_count(name, value)
        if not isinstance(mixlist, (str, os.PathLike)):
            raise ValueError(f"mixlist: got {_errors.got(mixlist)}, expected str or os.PathLike")
        self._limits = Limits(snapshot_every, _checked(band), max_heals, memory)
        self._mixlist = HealedMixlist(mixlist)
        self._healer: Healer | None = None

    @property
    def heals(self) -> int:
        """How often it has healed."""
        return 0 if self._healer is None else self._healer.heals

    def on_train_begin(self, logs: Any = None) -> None:
        """Takes the place of the model's train_function.

        Raises:
            ValueError: the model runs eagerly, where no precision mode has an effect.
        """
        if self.model.run_eagerly:
            raise ValueError(
                "PrecisionGuard: the model runs eagerly, where no precision mode has an effect; "
                "compile it with run_eagerly=False"
            )
        self._healer = Healer(KerasTraining(self.model), self._mixlist, self._limits)
        self.model.train_function = GuardedFunction(self.model, self._healer.step)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Metrics begin anew, so that steps before are not to be run again."""
        assert self._healer is not None
        self._healer.save_anew()

    def on_train_end(self, logs: Any = None) -> None:
        """Gives the model its own train_function back."""
        if isinstance(self.model.train_function, GuardedFunction):
            self.model.train_function = self.model.train_function.original


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

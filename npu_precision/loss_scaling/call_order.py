"""The order of calls in loss scaling: for each style, a table of stages, calls and error texts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple


class Stage(enum.IntEnum):
    """The last call for an optimizer or a loss in this round. An update begins a new round."""

    READY = 0
    SCALED = 1
    UNSCALED = 2
    STEPPED = 3


class Call(NamedTuple):
    """A row of a table.

    Attributes:
        leads_to: the stage after the call.
        refused_in: the stages in which the call is an error, each with its text. All other stages
            allow the call.
    """

    leads_to: Stage
    refused_in: Mapping[Stage, str] = {}


Calls = Mapping[str, Call]

# GradScaler, per optimizer. scale() belongs to no optimizer, so it leads to no stage. update()
# takes the round as a whole, which is READY until gradients of any optimizer are checked.
GRAD_SCALER: Calls = {
    "unscale_": Call(
        Stage.UNSCALED,
        {
            Stage.UNSCALED: "{subject}: unscale_() was called for it since the last update(), "
            "expected step() next; go on with the gradients that the first call returned",
            Stage.STEPPED: "{subject}: unscale_() is called after step(), expected before it; call "
            "update() to begin the next step",
        },
    ),
    "step": Call(
        Stage.STEPPED,
        {
            Stage.STEPPED: "{subject}: step() was called for it since the last update(), expected "
            "one step() per optimizer; call update() to begin the next step",
        },
    ),
    "update": Call(
        Stage.READY,
        {
            Stage.READY: "update() is called without step() since the last one, expected step() or "
            "unscale_() before it; call update() once, after the steps of all optimizers",
        },
    ),
}

# amp with an optimizer of Keras, per loss. apply_gradients() takes all losses of the round: those
# that are unscaled, or the only one that is scaled. It is also the update.
AMP_KERAS: Calls = {
    "scale_loss": Call(Stage.SCALED),
    "unscale_gradients": Call(
        Stage.UNSCALED,
        dict.fromkeys(
            (Stage.READY, Stage.UNSCALED),
            "{subject}: unscale_gradients() is called without scale_loss(), expected the gradients "
            "of a loss that was scaled since; call scale_loss() for each batch, then this",
        ),
    ),
}
AMP_KERAS_STEP = (
    "{subject}: got the gradients of no scaled loss, or of several, expected those of one loss "
    "that scale_loss() scaled; of several, call unscale_gradients() for each"
)

# amp with an optimizer of TF1, per loss and graph. Gradients may also come from compute_gradients()
# of a plain loss, which scales and unscales by itself: so unscaling is allowed in every stage.
AMP_SESSION: Calls = {
    "scale_loss": Call(Stage.SCALED),
    "unscale_gradients": Call(Stage.UNSCALED),
    "compute_gradients": Call(
        Stage.UNSCALED,
        {
            Stage.SCALED: "loss: got one that scale_loss() did not return, after scale_loss() was "
            "called: this is not what it gave; minimize that, as it is; of several, add up the "
            "gradients that compute_gradients() gives for each",
        },
    ),
    "apply_gradients": Call(
        Stage.READY,
        {
            Stage.SCALED: "grads_and_vars: the gradients of {subject} are still scaled: take them "
            "by compute_gradients(scaled_loss), or call amp.unscale_gradients()",
        },
    ),
}

STEP_WITHOUT_SCALE = (
    "step() is called without scale(), expected the gradients of a scaled loss; call scale(loss), "
    "and take the gradients of what it returns"
)
SCALED_AFTER_UNSCALING = (
    "grads_and_vars: got the gradients that {call}() was given; pass on those that it returned"
)


class BuiltCalls:
    """The stages of losses while a session's graph is built. Plain Python: each call comes once."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._stages: dict[int, Stage] = {}

    def enter(self, call: str, loss_id: int) -> None:
        """Records the call for a loss."""
        self._stages[loss_id] = self._calls[call].leads_to

    def check(self, call: str) -> None:
        """Raises ValueError if the call is out of order for any loss."""
        for loss_id, stage in sorted(self._stages.items()):
            if stage in self._calls[call].refused_in:
                text = self._calls[call].refused_in[stage]
                raise ValueError(text.format(subject=f"loss {loss_id}"))

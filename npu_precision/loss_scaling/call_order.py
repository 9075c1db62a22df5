"""The order of calls in loss scaling: for each style, a table of stages and error texts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Dict


class Stage(enum.IntEnum):
    """The last call for an optimizer or a loss in this round; an update begins a new round."""

    READY = 0  # update
    SCALED = 1
    UNSCALED = 2
    STEPPED = 3


# For the stage that a call leads to: the stages that refuse the call, each with its error.
Refusals = Dict[Stage, str]
Table = Dict[Stage, Refusals]

# GradScaler, per optimizer. scale() is for all optimizers, so none is ever SCALED. update() looks
# at the whole round, which is READY until gradients of any optimizer are checked.
GRAD_SCALER: Table = {
    Stage.UNSCALED: {
        Stage.UNSCALED: "{subject}: unscale_() was called for it since the last update(), expected "
        "step() next: go on with the gradients that the first call returned",
        Stage.STEPPED: "{subject}: unscale_() is called after step(), expected before it: call "
        "update() to begin the next step",
    },
    Stage.STEPPED: {
        Stage.STEPPED: "{subject}: step() was called for it since the last update(), expected one "
        "step() per optimizer: call update() to begin the next step",
    },
    Stage.READY: {
        Stage.READY: "update() is called without step() since the last one, expected step() or "
        "unscale_() before it: call it once, after the steps of all optimizers",
    },
}
STEP_WITHOUT_SCALE = (
    "step() is called without scale(), expected the gradients of a scaled loss: take them of what "
    "scale(loss) returns"
)

# amp with an optimizer of Keras, per loss. apply_gradients() takes all losses that are UNSCALED,
# or the only one that is SCALED; then it begins a new round.
_NOT_SCALED = (
    "{subject}: unscale_gradients() is called without scale_loss(), expected the gradients of a "
    "loss that was scaled since: call scale_loss() once before each unscale_gradients()"
)
AMP_KERAS: Table = {
    Stage.SCALED: {},
    Stage.UNSCALED: {Stage.READY: _NOT_SCALED, Stage.UNSCALED: _NOT_SCALED},
}
AMP_KERAS_STEP = (
    "{subject}: got the gradients of no scaled loss, or of several, expected those of one that "
    "scale_loss() scaled; of several, call unscale_gradients() for each; a penalty on gradients is "
    "a loss with a loss_id of its own"
)

# amp with an optimizer of TF1, per loss and graph; each call looks at all losses.
# compute_gradients() of a plain loss scales and unscales by itself, so it has no stage.
AMP_SESSION_PLAIN_LOSS: Refusals = {
    Stage.SCALED: "loss: scale_loss() was called, and this is not what it gave: minimize that, as "
    "it is; of several, add up the gradients that compute_gradients() gives for each",
}
AMP_SESSION_STEP: Refusals = {
    Stage.SCALED: "grads_and_vars: the gradients of {subject} are still scaled: take them by "
    "compute_gradients(scaled_loss), or call amp.unscale_gradients()",
}

SCALED_AFTER_UNSCALING = (
    "grads_and_vars: got the gradients that {call}() was given; pass on those that it returned"
)
# Of the gradients that a step or an unscaling is given.
_INSIDE = "call {call}(loss) inside the tape's scope, and take the gradients of what it returns"
NO_GRADIENTS = "got None for every variable, expected gradients: " + _INSIDE
GRADIENTS_OF_PLAIN_LOSS = (
    "got the gradients of the loss that {call}() was given, expected those of what it returned: "
    + _INSIDE
)


def check_losses(refusals: Refusals, stages: Mapping[int, Stage]) -> None:
    """Raises ValueError if the stage of a loss, by its loss_id, refuses a call."""
    for loss_id, stage in sorted(stages.items()):
        if stage in refusals:
            raise ValueError(refusals[stage].format(subject=f"loss {loss_id}"))

"""Finds the mistake of taking gradients of the loss itself, not of what scaling returned."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.loss_scaling import call_order

# An attribute of a loss: a set of those that it was given to. Its gradients share the set, since
# either may be first, the call that scales the loss or that of the tape.
_GIVEN_TO = "_npu_precision_given_to"
_GRADIENT_OF = "_npu_precision_gradient_of"


@functools.lru_cache(maxsize=None)
def watch_tapes() -> None:
    """Notes, from now on, what every tf.GradientTape takes the gradients of."""
    _tf_compat.call_for_tape_gradients(_note)


def note_given(losses: Any, owner: Any) -> None:
    """Notes that a nest of losses was given to the owner, which scales them."""
    for loss in tf.nest.flatten(losses):
        if isinstance(loss, tf.Tensor):
            _given_to(loss).add(owner)


def check_gradients(grads: Iterable[Any], owner: Any, call: str) -> None:
    """Raises ValueError if the backward pass did not see how the owner scaled the loss.

    Args:
        grads: of one step, or of one unscaling. Those that no tape yielded pass.
        owner: as for note_given().
        call: the function that scales, as the error calls it.
    """
    grads = list(grads)
    known = [grad for grad in grads if grad is not None]
    if grads and not known:
        raise ValueError(call_order.NO_GRADIENTS.format(call=call))
    # Several tapes may yield one tensor, such as a zero, so one alone says nothing.
    if known and all(owner in getattr(grad, _GRADIENT_OF, ()) for grad in known):
        raise ValueError(call_order.GRADIENTS_OF_PLAIN_LOSS.format(call=call))


def _note(target: Any, grads: Any) -> None:
    targets = [one for one in tf.nest.flatten(target) if isinstance(one, tf.Tensor)]
    if len(targets) != 1:
        return
    for grad in tf.nest.flatten(grads):
        if isinstance(grad, (tf.Tensor, tf.IndexedSlices)):
            setattr(grad, _GRADIENT_OF, _given_to(targets[0]))


def _given_to(loss: tf.Tensor) -> Any:
    if not hasattr(loss, _GIVEN_TO):
        setattr(loss, _GIVEN_TO, weakref.WeakSet())
    return getattr(loss, _GIVEN_TO)

"""Checks the arguments of loss scaling's functions.

Detecting two mistakes needs records of earlier calls: taking gradients of the loss instead of the
scaled loss, and using the scaled gradients after unscaling.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.loss_scaling import replicas

# The attribute in which an optimizer that amp has changed keeps its losses.
LOSSES = "npu_precision_losses"
_VALUES = "got no gradients; they are values here, which are passed on: {call}"
# Messages about the gradients that are passed to a step or an unscaling.
_INSIDE = "call {call}(loss) inside the tape's scope, and take the gradients of what it returns"
_NO_GRADIENTS = "got None for every variable, expected gradients: " + _INSIDE
_GRADIENTS_OF_PLAIN_LOSS = (
    "got the gradients of the loss that {call}() was given, expected those of what it returned: "
    + _INSIDE
)
# An attribute of a loss: the set of owners that it was given to. Its gradients share the set,
# because either may come first, the call for scaling or the tape's.
_GIVEN_TO = "_npu_precision_given_to"
_GRADIENT_OF = "_npu_precision_gradient_of"


def gradients(name: str, grads: Iterable[Any] | None) -> list[Any]:
    """Returns the gradients that were passed to unscale_(), as a list.

    Raises:
        ValueError: the argument is no list of gradients.
        TypeError: the argument is missing, as in a script of torch.
    """
    if grads is None:
        raise TypeError(_VALUES.format(call="gradients = scaler.unscale_(optimizer, gradients)"))
    if tf.is_tensor(grads) or not isinstance(grads, Iterable):
        raise ValueError(f"{name}: got {_errors.got(grads)}, expected a list of gradients")
    grads = list(grads)
    for grad in grads:
        if not (grad is None or tf.is_tensor(grad) or isinstance(grad, tf.IndexedSlices)):
            raise ValueError(
                f"{name}: got {_errors.got(grad)} among them, expected tensors, IndexedSlices or "
                "None"
            )
    return grads


def pairs(grads_and_vars: Iterable[Any] | None) -> list[tuple[Any, Any]]:
    """Returns the pairs that were passed to step(), as a list; raises as gradients()."""
    if grads_and_vars is None:
        raise TypeError(_VALUES.format(call="scaler.step(optimizer, zip(gradients, variables))"))
    result = list(grads_and_vars)
    for pair in result:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"grads_and_vars: got {_errors.got(pair)} among them, expected pairs of a gradient "
                "and a variable"
            )
        if hasattr(pair[0], "assign") and not hasattr(pair[1], "assign"):
            raise ValueError(
                "grads_and_vars: got pairs of a variable and a gradient, expected the gradient "
                "first"
            )
    gradients("grads_and_vars", [grad for grad, _ in result])
    return result


def check_optimizer(optimizer: Any) -> None:
    """Raises ValueError unless it is an optimizer that does not scale the loss yet."""
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras, or a "
            "tf.compat.v1.train.Optimizer"
        )
    if _tf_compat.scales_loss(optimizer) or hasattr(optimizer, LOSSES):
        raise ValueError(
            f"optimizer: got {type(optimizer).__name__}, which scales the loss already"
        )


@functools.lru_cache(maxsize=None)
def watch_tapes() -> None:
    """Records, from now on, the target of each gradient that a tf.GradientTape computes."""
    _tf_compat.call_for_tape_gradients(_note)


def note_given(losses: Any, owner: Any) -> None:
    """Records that a nest of losses was given to the owner, which scales them."""
    for loss in tf.nest.flatten(losses):
        if isinstance(loss, tf.Tensor):
            _given_to(loss).add(owner)


def check_gradients(grads: Iterable[Any], owner: Any, call: str) -> None:
    """Raises ValueError if the backward pass did not see how the owner scaled the loss.

    Args:
        grads: the gradients of a step or an unscaling. Gradients that come from no tape pass.
        owner: as for note_given().
        call: the function that scales, as the error calls it.
    """
    grads = list(grads)
    known = [grad for grad in grads if grad is not None]
    if grads and not known:
        raise ValueError(_NO_GRADIENTS.format(call=call))
    # Several tapes may yield one tensor, such as a zero, so one gradient alone proves nothing.
    if known and all(owner in getattr(grad, _GRADIENT_OF, ()) for grad in known):
        raise ValueError(_GRADIENTS_OF_PLAIN_LOSS.format(call=call))


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


class GivenGradients:
    """Remembers the gradients that were passed to the last unscaling, as opposed to its results."""

    def __init__(self) -> None:
        self._given: tuple[Any, list[Any]] = (None, [])

    def remember(self, grads: Iterable[Any]) -> None:
        """Records the gradients passed to unscaling, in all replicas, and the graph."""

        def remember_all(all_grads: list[list[Any]]) -> None:
            known = [grad for grads in all_grads for grad in grads if grad is not None]
            self._given = (_place(), [weakref.ref(grad) for grad in known])

        replicas.once_for_all(remember_all, list(grads))

    def includes(self, grads: Iterable[Any], is_unscaled: tf.Tensor) -> bool:
        """Whether any of these was passed in this graph or one around it.

        Tensors that were passed in another branch do not count.

        Args:
            grads: the gradients of the step.
            is_unscaled: whether unscaling was called in this round. Only eager code reads it: a
                step in a tf.function does not clear the record.
        """
        place, given = self._given
        is_over = tf.executing_eagerly() and not is_unscaled
        known = [] if is_over or place not in _places() else [reference() for reference in given]
        return any(grad is one for grad in grads if grad is not None for one in known)


def _place() -> Any:
    """A weak reference to the graph being built; None in eager code."""
    return None if tf.executing_eagerly() else weakref.ref(tf.compat.v1.get_default_graph())


def _places() -> list[Any]:
    """_place(), and those of the graphs around a branch or a loop."""
    places, graph = [_place()], tf.compat.v1.get_default_graph()
    while places[0] is not None and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
        places.append(weakref.ref(graph))
    return places

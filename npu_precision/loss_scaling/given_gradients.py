"""Finds the mistake of going on with the scaled gradients after unscaling, tensor by tensor."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from npu_precision.loss_scaling import replicas


class GivenGradients:
    """The gradients that the last unscaling was given, which are not those that it returned."""

    def __init__(self) -> None:
        self._given: tuple[Any, list[Any]] = (None, [])

    def remember(self, grads: Iterable[Any]) -> None:
        """Records what unscaling is given, in all replicas, and in which graph."""

        def remember_all(all_grads: list[list[Any]]) -> None:
            known = [grad for grads in all_grads for grad in grads if grad is not None]
            self._given = (_place(), [weakref.ref(grad) for grad in known])

        replicas.once_for_all(remember_all, list(grads))

    def includes(self, grads: Iterable[Any], is_unscaled: tf.Tensor) -> bool:
        """Whether any of these was given in this graph or one around it.

        Another branch may have been given the same tensors, and this one not.

        Args:
            grads: of the step.
            is_unscaled: whether unscaling was called in this round. Only eager code reads it: a
                step in a tf.function does not clear what is remembered.
        """
        place, given = self._given
        is_over = tf.executing_eagerly() and not is_unscaled
        known = [] if is_over or place not in _places() else [reference() for reference in given]
        return any(grad is one for grad in grads if grad is not None for one in known)


def _place() -> Any:
    """A weak reference to the graph that is built; None in eager code."""
    return None if tf.executing_eagerly() else weakref.ref(tf.compat.v1.get_default_graph())


def _places() -> list[Any]:
    """_place(), and the same of the graphs around it, if it is that of a branch or a loop."""
    places, graph = [_place()], tf.compat.v1.get_default_graph()
    while places[0] is not None and getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
        places.append(weakref.ref(graph))
    return places

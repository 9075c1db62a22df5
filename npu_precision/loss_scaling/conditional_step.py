"""Makes the step of a Keras optimizer on a condition, or skips and counts it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.loss_scaling import replicas


def step_if(
    finite: tf.Tensor | None,
    optimizer: Any,
    pairs: Sequence[Any],
    apply: Callable[[list[Any]], Any],
    skipped_steps: tf.Variable,
    are_summed: bool = False,
) -> tf.Tensor:
    """Makes the step if its gradients are finite; returns whether it did, a scalar bool tensor.

    Args:
        finite: whether to make the step, a scalar bool tensor, the same in each replica; None
            always makes it.
        optimizer: the optimizer that takes the step.
        pairs: pairs of a gradient and a variable.
        apply: a function that makes the step with such pairs.
        skipped_steps: a counter of the steps that are not made.
        are_summed: whether the gradients are sums over the replicas, which the optimizer must not
            add up again.

    Raises:
        ValueError: are_summed is set, and the optimizer always adds up gradients itself.
    """
    if are_summed:
        finite = tf.constant(True) if finite is None else finite
    elif finite is None:
        apply(list(pairs))
        return tf.constant(True)
    variables = [variable for _, variable in pairs]
    if _tf_compat.needs_build(optimizer):
        replicas.once(lambda: _tf_compat.build_optimizer(optimizer, variables))
    within: Callable[[], Any] = contextlib.nullcontext
    if are_summed:
        within = functools.partial(_tf_compat.without_own_sum, optimizer)
    return replicas.cond(finite, pairs, apply, lambda: skipped_steps.assign_add(1), within)


def packed_pairs(
    optimizer: Any, grads: Sequence[Any], variables: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The gradients and variables, for apply_gradients().

    An optimizer of amp.optimizers takes the gradients of its small variables in one tensor each,
    so that one op divides and one checks them all.
    """
    if not hasattr(optimizer, "packed"):
        return list(grads), list(variables)
    _tf_compat.build_optimizer(optimizer, variables)
    pairs = optimizer.packed(zip(grads, variables))
    return [grad for grad, _ in pairs], [variable for _, variable in pairs]

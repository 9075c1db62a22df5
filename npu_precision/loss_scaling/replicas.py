"""Loss scaling under a tf.distribute strategy: calls made once for all replicas, and agreement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat


def in_replica() -> bool:
    """Whether this code runs once in each replica of a MirroredStrategy or its multi-worker kin."""
    return (
        tf.distribute.has_strategy()
        and not tf.distribute.in_cross_replica_context()
        and isinstance(tf.distribute.get_strategy(), _tf_compat.MIRRORED_STRATEGIES)
    )


def refuse_strategy(what: str) -> None:
    """Raises RuntimeError where the replicas cannot agree on a step.

    They cannot under a strategy of several replicas that is not mirrored, outside of its run(), and
    with parameter servers.
    """
    if not tf.distribute.has_strategy():
        return
    strategy = tf.distribute.get_strategy()
    if isinstance(strategy, _tf_compat.PARAMETER_SERVER_STRATEGIES):
        raise RuntimeError(
            f"{what}: got a ParameterServerStrategy, whose workers make steps of their own, "
            "expected a MirroredStrategy or a MultiWorkerMirroredStrategy: use a mode in bfloat16, "
            "which needs no loss scaling"
        )
    if strategy.num_replicas_in_sync <= 1:
        return
    if not isinstance(strategy, _tf_compat.MIRRORED_STRATEGIES):
        raise RuntimeError(
            f"{what}: got a {type(strategy).__name__} of several replicas, expected a "
            "MirroredStrategy or a MultiWorkerMirroredStrategy: use Keras' "
            "tf.keras.mixed_precision.LossScaleOptimizer there"
        )
    if tf.distribute.in_cross_replica_context():
        raise RuntimeError(
            f"{what}: called outside of the replicas, expected within a function that "
            "strategy.run() calls"
        )


def once(call: Callable[..., Any], *args: Any) -> Any:
    """Calls `call` once for all replicas, and returns its result in each; without replicas, calls
    it.

    Args:
        call: changes variables, or builds ops that do.
        *args: values that are the same in each replica.
    """
    if not in_replica():
        return call(*args)

    def merged(strategy: Any, *args: Any) -> Any:
        return call(*(strategy.experimental_local_results(arg)[0] for arg in args))

    return tf.distribute.get_replica_context().merge_call(merged, args)


def once_for_all(call: Callable[[list[list[Any]]], Any], values: Sequence[Any]) -> Any:
    """Calls `call` once with the values of all replicas in this process, a list of lists."""
    if not in_replica():
        return call([list(values)])

    def merged(strategy: Any, *values: Any) -> Any:
        local = [strategy.experimental_local_results(value) for value in values]
        count = max(map(len, local), default=1)
        # A value that is the same in all replicas comes once.
        return call([[each[min(i, len(each) - 1)] for each in local] for i in range(count)])

    return tf.distribute.get_replica_context().merge_call(merged, tuple(values))


def cond(
    predicate: tf.Tensor,
    pairs: Sequence[Any],
    apply: Callable[[list[Any]], Any],
    otherwise: Callable[[], Any],
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> tf.Tensor:
    """Applies the pairs if the predicate is true; returns it, a scalar bool tensor.

    The conditional is outside of the replicas; in its branch, each replica applies its own pairs.
    So an optimizer may exchange gradients there, which is impossible in a replica's own branch.

    Args:
        predicate: a scalar bool tensor, the same in each replica.
        pairs: pairs of this replica's gradient and a variable.
        apply: applies pairs in a replica.
        otherwise: a function that is called once if the predicate is false.
        within: makes a context in which the replicas apply their pairs.
    """
    if not in_replica():
        return _cond(predicate, lambda: apply(list(pairs)), otherwise)

    def merged(strategy: Any, predicate: Any, grads: Any, variables: Any) -> tf.Tensor:
        def apply_here(*grads: Any) -> None:
            # The variables are no arguments, because a replica would get its copies.
            apply(list(zip(grads, variables)))

        with within():
            return _cond(
                strategy.experimental_local_results(predicate)[0],
                lambda: strategy.extended.call_for_each_replica(apply_here, args=tuple(grads)),
                otherwise,
            )

    grads, variables = [grad for grad, _ in pairs], [variable for _, variable in pairs]
    args = (predicate, grads, variables)
    return tf.distribute.get_replica_context().merge_call(merged, args)


def _cond(predicate: tf.Tensor, do: Callable[[], Any], otherwise: Callable[[], Any]) -> tf.Tensor:
    def result(call: Callable[[], Any], value: bool) -> tf.Tensor:
        call()
        return tf.constant(value)

    return tf.cond(predicate, lambda: result(do, True), lambda: result(otherwise, False))


def all_true(value: tf.Tensor) -> tf.Tensor:
    """Whether the value is true in all replicas of all workers, a scalar bool tensor."""
    if not in_replica():
        return value
    missing = tf.cast(tf.logical_not(value), tf.float32)
    context = tf.distribute.get_replica_context()
    return tf.equal(context.all_reduce(tf.distribute.ReduceOp.SUM, missing), 0.0)

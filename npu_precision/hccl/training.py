"""Training on several ranks: averages gradients, and gives all ranks the same first variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision._tf_compat import tf1
from npu_precision.hccl import groups, hccl_ops, ranks

_REDUCTIONS = ("mean", *hccl_ops.REDUCTIONS)


def npu_allreduce(
    values: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = groups.WORLD,
) -> Any:
    """The mean, or another reduction, over the ranks of the group, in each of them.

    Args:
        values: a tensor, an IndexedSlices, or a list of them; None stays None.
        reduction: "mean", "sum", "prod", "max" or "min"; of an IndexedSlices, "mean" or "sum".
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group.

    Returns:
        As given. An IndexedSlices holds the slices of all ranks.

    Raises:
        ValueError: an unknown reduction or group.
        RuntimeError: as hccl_ops.allreduce.

    Source: npu_bridge's npu_allreduce.
    """
    hccl_ops.check_reduction(reduction, _REDUCTIONS)
    if isinstance(values, (list, tuple)):
        return [npu_allreduce(value, reduction, fusion, fusion_id, group) for value in values]
    size = groups.find(group).size
    if values is None or size == 1:
        return values
    if isinstance(values, tf.IndexedSlices):
        return _gathered(values, reduction, size, group)
    if reduction != "mean":
        return hccl_ops.allreduce(values, reduction, fusion, fusion_id, group)
    return hccl_ops.allreduce(values, "sum", fusion, fusion_id, group) / size


def _gathered(slices: tf.IndexedSlices, reduction: str, size: int, group: str) -> tf.IndexedSlices:
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction: got {reduction!r} for IndexedSlices, expected mean or sum")
    # Ranks may have different numbers of rows, but all_gather takes as many from each.
    rows = tf.shape(slices.indices)[0]
    rows_of_ranks = hccl_ops.allgather(tf.reshape(rows, [1]), size, group)
    most = tf.reduce_max(rows_of_ranks)
    is_row = tf.reshape(tf.sequence_mask(rows_of_ranks, most), [-1])

    def gathered(part: Any) -> Any:
        padding = [[0, most - rows]] + [[0, 0]] * (part.shape.rank - 1)
        return tf.boolean_mask(hccl_ops.allgather(tf.pad(part, padding), size, group), is_row)

    values, indices = gathered(slices.values), gathered(slices.indices)
    if reduction == "mean":
        values = values / size
    return tf.IndexedSlices(values, indices, slices.dense_shape)


class _Averaging(tf1.train.Optimizer):
    """A TF1 optimizer whose gradients are averaged over the ranks."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(False, f"Distributed{optimizer.get_name()}")
        self._optimizer = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The optimizer's own gradients, averaged."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        return [(npu_allreduce(gradient), variable) for gradient, variable in pairs]

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own."""
        return self._optimizer.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """As the optimizer's own."""
        return self._optimizer.variables()


def averaging(optimizer: Any) -> Any:
    """Returns the optimizer, or one that averages gradients over the ranks if there are several.

    Args:
        optimizer: an optimizer of TF1 or Keras.

    Raises:
        ValueError: it is neither.
    """
    if ranks.current().size == 1:
        return optimizer
    if isinstance(optimizer, tf1.train.Optimizer):
        return _Averaging(optimizer)
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError(
            f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of TF1 or of Keras"
        )
    return reducing_keras(optimizer)


def reducing_keras(optimizer: Any, reduction: str = "mean", group: str = groups.WORLD) -> Any:
    """Makes a Keras optimizer reduce gradients over the ranks, if there are several.

    Args:
        optimizer: it is changed in place, and returned.
        reduction: as for npu_allreduce.
        group: the name of a group.

    Raises:
        ValueError: it has no apply_gradients, or an unknown reduction or group.
    """
    hccl_ops.check_reduction(reduction, _REDUCTIONS)
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError(f"optimizer: got {_errors.got(optimizer)}, expected an optimizer of Keras")
    if groups.find(group).size == 1:
        return optimizer

    def step(_: Any, pairs: list[Any], apply: Callable[[list[Any]], Any]) -> Any:
        reduced = [npu_allreduce(gradient, reduction, group=group) for gradient, _ in pairs]
        return apply(list(zip(reduced, [variable for _, variable in pairs])))

    _tf_compat.change_step(optimizer, step)
    return optimizer


def broadcast_variables(variables: Sequence[Any], root_rank: int) -> tf.Operation:
    """An op that gives variables the values that they have on one rank.

    Args:
        variables: variables of known shapes, the same in each rank.
        root_rank: the rank whose values all get.
    """
    values = hccl_ops.broadcast([variable.read_value() for variable in variables], root_rank)
    return tf.group(*[tf1.assign(variable, value) for variable, value in zip(variables, values)])


class NPUBroadcastGlobalVariablesHook(tf1.train.SessionRunHook):
    """Gives all ranks the variables of one, once they are initialized or restored.

    Args:
        root_rank: the rank whose values all get.
        index: accepted, and without effect.

    Source: npu_bridge's NPUBroadcastGlobalVariablesHook.
    """

    def __init__(self, root_rank: int = 0, index: int = 0) -> None:
        del index
        self._root_rank = root_rank
        self._broadcast: tf.Operation | None = None

    def begin(self) -> None:
        """Builds the op."""
        if ranks.current().size > 1:
            self._broadcast = broadcast_variables(tf1.global_variables(), self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it."""
        del coord
        if self._broadcast is not None:
            session.run(self._broadcast)

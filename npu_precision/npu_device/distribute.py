"""npu_device.distribute: collectives of several processes, and sharding of data sets.

The processes are those of npu_precision.hccl.ranks. With one process, each function changes
nothing.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from npu_precision import _tf_compat
from npu_precision.hccl import groups, hccl_ops, ranks, training

__all__ = [
    "all_reduce",
    "broadcast",
    "npu_distributed_keras_optimizer_wrapper",
    "shard_and_rebatch_dataset",
]


def all_reduce(
    values: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = groups.WORLD,
) -> Any:
    """The mean, or another reduction, over the ranks of the group, in each of them.

    Call it in eager code or in a tf.function, in the same order in all ranks.

    Args:
        values: a tensor, an IndexedSlices, or a list of them; None stays None.
        reduction: "mean", "sum", "prod", "max" or "min".
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group of hccl.manage.api.

    Returns:
        As given.

    Raises:
        ValueError: an unknown reduction or group.
        RuntimeError: the other ranks cannot be reached; call npu_device.open() first.

    Source: npu_device's distribute.all_reduce.
    """
    return training.npu_allreduce(values, reduction, fusion, fusion_id, group)


def broadcast(
    values: Any,
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = groups.WORLD,
) -> None:
    """Gives variables the values that they have on one rank of the group.

    Args:
        values: a variable, or a nest of them, of TensorFlow or Keras.
        root_rank: the rank, in the group, whose values all get.
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group of hccl.manage.api.

    Raises:
        ValueError: an unknown group or root, or a value that is no variable.
        RuntimeError: as all_reduce.

    Source: npu_device's distribute.broadcast.
    """
    variables = [_variable(value) for value in tf.nest.flatten(values)]
    read = [variable.read_value() for variable in variables]
    sent = hccl_ops.broadcast(read, root_rank, fusion, fusion_id, group)
    if groups.find(group).size > 1:
        for variable, value in zip(variables, sent):
            variable.assign(value)


def _variable(value: Any) -> tf.Variable:
    is_one = isinstance(value, tf.Variable) or hasattr(value, "trainable")
    if not is_one:
        raise ValueError(f"values: got {type(value).__name__}, expected variables")
    return _tf_compat.plain_variable(value)


def shard_and_rebatch_dataset(dataset: Any, global_bs: int) -> tuple[Any, int]:
    """Returns this rank's elements of a dataset, and the batch size of one rank.

    Args:
        dataset: a tf.data.Dataset, not batched yet.
        global_bs: the size of a batch over all ranks.

    Returns:
        The dataset, with each element on one rank only, and global_bs divided by the number of
        ranks.

    Raises:
        ValueError: the number of ranks does not divide global_bs.

    Source: npu_device's distribute.shard_and_rebatch_dataset(dataset, global_bs).
    """
    where = ranks.current()
    if where.size == 1:
        return dataset, global_bs
    if global_bs % where.size:
        raise ValueError(
            f"global_bs: got {global_bs}, expected a number that {where.size} ranks can divide"
        )
    return dataset.shard(where.size, where.rank), global_bs // where.size


def npu_distributed_keras_optimizer_wrapper(
    optimizer: Any,
    reduce_reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = groups.WORLD,
) -> Any:
    """Makes a Keras optimizer reduce gradients over the ranks of the group before it applies them.

    Args:
        optimizer: the optimizer, which is changed in place, and returned; unchanged with one
            process.
        reduce_reduction: as for all_reduce.
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group of hccl.manage.api.

    Raises:
        ValueError: no optimizer of Keras, or an unknown reduction or group.

    Source: npu_device's distribute.npu_distributed_keras_optimizer_wrapper.
    """
    del fusion, fusion_id
    return training.reducing_keras(optimizer, reduce_reduction, group)

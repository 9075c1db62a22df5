"""Collectives of several processes, which scripts import from npu_bridge.hccl.

Each process must make the same collectives in the same order: build them in a graph of TF1, trace
them in tf.functions, or call them eagerly. A session.run blocks until the other ranks run the same
collectives. So collectives that only some ranks run, as members of a group, need a run of their
own. With one process, each collective is the identity. `fusion` and `fusion_id`, by which Ascend
groups exchanges, have no effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import tensorflow as tf

from npu_precision import _errors, _tf_compat
from npu_precision.hccl import eager_cluster, groups, server

__all__ = ["allgather", "allreduce", "broadcast", "reduce_scatter"]

# TensorFlow's names of the reductions, by HCCL's.
REDUCTIONS = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min"}

# The counts of collectives by group, because some ranks may not be in a group, and all members must
# count alike. TensorFlow 1.15 has one table of keys for all groups.
_KEYS_OF_GROUP = 1 << 20
_counters: dict[int, Iterator[int]] = {}


def allreduce(
    tensor: tf.Tensor,
    reduction: str,
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = groups.WORLD,
) -> tf.Tensor:
    """The sum, product, maximum or minimum over the ranks of the group, in each of them.

    Args:
        tensor: the part of this rank; the same shape and dtype in each.
        reduction: "sum", "prod", "max" or "min".
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group.

    Raises:
        ValueError: an unknown reduction or group.
        RuntimeError: the other ranks cannot be reached from this session, or from eager code.
    """
    del fusion, fusion_id
    check_reduction(reduction, REDUCTIONS)
    members = groups.find(group)
    if members.size == 1:
        return tf.identity(tensor)
    key = _next_key(members)
    return _tf_compat.all_reduce(tensor, members.size, members.key, key, REDUCTIONS[reduction])


def check_reduction(reduction: str, known: Collection[str]) -> None:
    """Raises ValueError unless the reduction is known."""
    if reduction not in known:
        raise ValueError(
            f"reduction: got {reduction!r}, expected one of {', '.join(known)}"
            f"{_errors.did_you_mean(reduction, list(known))}"
        )


def allgather(
    tensor: tf.Tensor,
    rank_size: int,
    group: str = groups.WORLD,
    fusion: int = 0,
    fusion_id: int = -1,
) -> tf.Tensor:
    """Concatenates the tensors of all ranks of the group on the first axis.

    Args:
        tensor: the part of this rank, [n, ...]; the same shape and dtype in each.
        rank_size: the size of the group.
        group: the name of a group.
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.

    Returns:
        [rank_size * n, ...], in the order of the ranks.

    Raises:
        ValueError: an unknown group, a rank_size that differs from the group's, or a tensor without
            axes.
        RuntimeError: as allreduce.
    """
    del fusion, fusion_id
    tensor, members = tf.convert_to_tensor(tensor), _sized(group, rank_size)
    if tensor.shape.rank == 0:
        raise ValueError("tensor: got a scalar, expected one with at least one axis")
    if members.size == 1:
        return tf.identity(tensor)
    return _tf_compat.all_gather(tensor, members.size, members.key, _next_key(members))


def broadcast(
    tensor: Sequence[tf.Tensor] | tf.Tensor,
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = groups.WORLD,
) -> Any:
    """Returns the root's tensors in each rank of the group.

    Args:
        tensor: a tensor, or a list of them; of known shapes, the same in each rank.
        root_rank: the rank, in the group, whose values all get.
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.
        group: the name of a group.

    Returns:
        A tensor, or a list of them, as given.

    Raises:
        ValueError: an unknown group or root, or a shape that is not known.
        RuntimeError: as allreduce.
    """
    del fusion, fusion_id
    members = groups.find(group)
    if not 0 <= root_rank < members.size:
        raise ValueError(f"root_rank: got {root_rank}, expected 0 to {members.size - 1}")
    if not isinstance(tensor, (list, tuple)):
        return _broadcast(tf.convert_to_tensor(tensor), root_rank, members)
    return [_broadcast(tf.convert_to_tensor(each), root_rank, members) for each in tensor]


def reduce_scatter(
    tensor: tf.Tensor,
    reduction: str,
    rank_size: int,
    group: str = groups.WORLD,
    fusion: int = 0,
    fusion_id: int = -1,
) -> tf.Tensor:
    """This rank's part of the result of allreduce: the first axis is divided among the ranks.

    All parts are exchanged, and this one is cut out.

    Args:
        tensor: [rank_size * n, ...], the same shape and dtype in each rank.
        reduction: as for allreduce.
        rank_size: the size of the group.
        group: the name of a group.
        fusion: accepted, and without effect.
        fusion_id: accepted, and without effect.

    Returns:
        [n, ...].

    Raises:
        ValueError: as allreduce; a rank_size that differs from the group's, or that does not divide
            the first axis.
        RuntimeError: as allreduce.
    """
    tensor, members = tf.convert_to_tensor(tensor), _sized(group, rank_size)
    length = tensor.shape.as_list()[0] if tensor.shape.rank else None
    if length is None or length % members.size:
        raise ValueError(
            f"tensor: got the shape {tensor.shape}, expected a first axis of known length that "
            f"{members.size} ranks can divide"
        )
    reduced = allreduce(tensor, reduction, fusion, fusion_id, group)
    part = length // members.size
    return reduced[members.rank * part : (members.rank + 1) * part]


def _broadcast(tensor: tf.Tensor, root: int, members: groups.Group) -> tf.Tensor:
    if members.size == 1:
        return tf.identity(tensor)
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"tensor: {tensor.name} has shape {tensor.shape}, expected a known one")
    key = _next_key(members)
    if members.rank == root:
        return _tf_compat.broadcast_send(tensor, members.size, members.key, key)
    return _tf_compat.broadcast_recv(tensor, members.size, members.key, key)


def _sized(group: str, rank_size: int) -> groups.Group:
    members = groups.find(group)
    if rank_size != members.size:
        raise ValueError(f"rank_size: got {rank_size}, and group {group!r} has {members.size}")
    return members


def _outermost(graph: Any) -> Any:
    """The graph that a session runs, given the body of a branch or loop in it."""
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def _next_key(members: groups.Group) -> int:
    """Returns a key for one more collective of the group; starts the server that it needs."""
    with tf.init_scope():  # leaves tf.functions
        is_eager = tf.executing_eagerly()
    _ = members.rank  # raises an error if this process is not in the group
    if is_eager:
        eager_cluster.connect()
    else:
        server.target()
        server.add_graph(_outermost(tf.compat.v1.get_default_graph()))
    counter = _counters.setdefault(members.key, itertools.count(1))
    return (members.key - groups.FIRST_KEY) * _KEYS_OF_GROUP + next(counter)

"""Sums and other collectives, over replicas of tf.distribute, and over processes by group keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import collective_ops

from npu_precision._tf_compat.processes import cluster_of_process
from npu_precision._tf_compat.versions import IS_TF1


def _placed(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor with a device, which TensorFlow 1.15 needs for collectives."""
    if not IS_TF1 or tensor.device:
        return tensor
    with tf.device("/device:CPU:0"):
        return tf.identity(tensor)


def all_reduce(
    tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int, merge_op: str
) -> tf.Tensor:
    """Reduces a tensor of each process of the group: merge_op is "Add", "Mul", "Max" or "Min"."""
    if IS_TF1 and merge_op in ("Max", "Min"):  # TensorFlow 1.15 has no kernels for these
        gathered = all_gather(tensor[tf.newaxis], group_size, group_key, instance_key)
        return (tf.reduce_max if merge_op == "Max" else tf.reduce_min)(gathered, axis=0)
    tensor = _placed(tensor)
    # The first version of the op is for sessions. In a cluster of tf.distribute, TensorFlow's
    # scoped allocator tries to merge it in functions, and logs an error where it cannot.
    if cluster_of_process() is None:
        reduce = collective_ops.all_reduce
    else:
        reduce = collective_ops.all_reduce_v2
    with tf.device(tensor.device):
        return reduce(tensor, group_size, group_key, instance_key, merge_op, "Id")


def all_gather(tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int) -> tf.Tensor:
    """Concatenates a tensor of each process of the group on the first axis."""
    tensor = _placed(tensor)
    with tf.device(tensor.device):
        return collective_ops.all_gather(tensor, group_size, group_key, instance_key)


def broadcast_send(
    tensor: tf.Tensor, group_size: int, group_key: int, instance_key: int
) -> tf.Tensor:
    """Sends a tensor to the other processes of the group."""
    if IS_TF1:  # a receiver that comes first may find no sender
        return all_reduce(tensor, group_size, group_key, instance_key, "Add")
    tensor = _placed(tensor)
    with tf.device(tensor.device):
        return collective_ops.broadcast_send(
            tensor, tensor.shape, tensor.dtype, group_size, group_key, instance_key
        )


def broadcast_recv(
    like: tf.Tensor, group_size: int, group_key: int, instance_key: int
) -> tf.Tensor:
    """Receives a tensor of the shape and dtype of `like`."""
    if IS_TF1:
        zeros = tf.zeros(like.shape, like.dtype)
        return all_reduce(zeros, group_size, group_key, instance_key, "Add")
    with tf.device(_placed(like).device):
        return collective_ops.broadcast_recv(
            like.shape, like.dtype, group_size, group_key, instance_key
        )


def sum_over_replicas(tensors: Sequence[Any]) -> list[Any]:
    """Adds up tensors of one dtype over all replicas, called in each; in one pack in a graph.

    Args:
        tensors: dense, or IndexedSlices.
    """
    add = tf.distribute.ReduceOp.SUM
    context = tf.distribute.get_replica_context()
    if IS_TF1:
        return list(context.all_reduce(add, list(tensors)))
    # A strategy may have other default options.
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=sys.maxsize)
    return list(context.all_reduce(add, list(tensors), options=options))

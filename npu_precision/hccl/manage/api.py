"""Ranks and groups, by the names that scripts import from hccl.manage.api."""

from __future__ import annotations

from collections.abc import Sequence

from npu_precision.hccl import groups, ranks

__all__ = [
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_local_rank_id",
    "get_local_rank_size",
    "get_rank_id",
    "get_rank_size",
    "get_world_rank_from_group_rank",
]


def create_group(group: str, rank_num: int, rank_ids: Sequence[int]) -> None:
    """Makes a group of ascending ranks; all processes must make the same groups in the same order.

    Raises:
        ValueError: the name is taken, or the ranks are not ascending ranks of this training.
    """
    groups.create(group, rank_num, rank_ids)


def destroy_group(group: str) -> None:
    """Ends a group of create_group.

    Raises:
        ValueError: there is no such group.
    """
    groups.destroy(group)


def get_rank_size(group: str = groups.WORLD) -> int:
    """The number of processes in the group.

    Raises:
        ValueError: there is no such group.
    """
    return groups.find(group).size


def get_rank_id(group: str = groups.WORLD) -> int:
    """The rank of this process in the group, from 0.

    Raises:
        ValueError: there is no such group, or this process is not in it.
    """
    return groups.find(group).rank


def get_local_rank_size(group: str = groups.WORLD) -> int:
    """The number of the group's processes on this machine.

    Raises:
        ValueError: there is no such group.
    """
    return len(_local_members(group))


def get_local_rank_id(group: str = groups.WORLD) -> int:
    """The number of this process among those of the group on this machine, from 0.

    Raises:
        ValueError: there is no such group, or this process is not in it.
    """
    own = groups.find(group).ranks[get_rank_id(group)]
    return _local_members(group).index(own)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The rank in the whole training of a member of the group.

    Raises:
        ValueError: there is no such group, or no such member.
    """
    members = groups.find(group).ranks
    if not 0 <= group_rank_id < len(members):
        raise ValueError(f"group_rank_id: got {group_rank_id}, expected 0 to {len(members) - 1}")
    return members[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The rank in the group of a process of the training.

    Raises:
        ValueError: there is no such group, or that process is not in it.
    """
    members = groups.find(group).ranks
    if world_rank_id not in members:
        raise ValueError(f"world_rank_id: got {world_rank_id}, expected one of {list(members)}")
    return members.index(world_rank_id)


def _local_members(group: str) -> list[int]:
    local = ranks.current().local_ranks()
    return [rank for rank in groups.find(group).ranks if rank in local]

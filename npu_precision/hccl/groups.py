"""Groups of ranks, which scripts create by hccl.manage.api."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from npu_precision import _errors
from npu_precision.hccl import ranks

WORLD = "hccl_world_group"

# Beyond the keys of tf.distribute, which counts from 1.
FIRST_KEY = 1 << 20


@dataclasses.dataclass(frozen=True)
class Group:
    """A group of ranks.

    Attributes:
        name: the name that scripts use.
        ranks: its members, ascending.
        key: the group key for TensorFlow's collectives; the same in each process.
    """

    name: str
    ranks: tuple[int, ...]
    key: int

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """The rank of this process in the group.

        Raises:
            ValueError: this process is no member.
        """
        own = ranks.current().rank
        if own not in self.ranks:
            raise ValueError(
                f"group {self.name!r}: rank {own}, which is this process, is not among its ranks "
                f"{list(self.ranks)}"
            )
        return self.ranks.index(own)


_made: dict[str, Group] = {}
_next_key = FIRST_KEY + 1


def find(name: str = WORLD) -> Group:
    """The group of that name.

    Raises:
        ValueError: there is none.
    """
    if name == WORLD:
        return Group(WORLD, tuple(range(ranks.current().size)), FIRST_KEY)
    if name not in _made:
        known = [WORLD, *_made]
        raise ValueError(
            f"group: got {name!r}, expected one of {', '.join(known)}"
            f"{_errors.did_you_mean(name, known)}; create_group() makes others"
        )
    return _made[name]


def create(name: str, rank_num: int, rank_ids: Sequence[int]) -> Group:
    """Makes a group; all processes must make the same groups in the same order.

    Raises:
        ValueError: the name is taken, or the ranks are not ascending ranks of this training.
    """
    global _next_key
    members, size = tuple(rank_ids), ranks.current().size
    if name == WORLD or name in _made:
        raise ValueError(f"group: got {name!r}, which there is already; destroy_group() ends it")
    if rank_num != len(members):
        raise ValueError(f"rank_num: got {rank_num}, and {len(members)} rank_ids: {list(members)}")
    if not members or list(members) != sorted(set(members)):
        raise ValueError(f"rank_ids: got {list(members)}, expected different ranks, ascending")
    if members[0] < 0 or members[-1] >= size:
        raise ValueError(f"rank_ids: got {list(members)}, expected ranks from 0 to {size - 1}")
    _made[name] = Group(name, members, _next_key)
    _next_key += 1
    return _made[name]


def destroy(name: str) -> None:
    """Ends a group that create() made.

    Raises:
        ValueError: there is no such group, or it is the group of all ranks.
    """
    if name == WORLD:
        raise ValueError(f"group: got {name!r}, which has all ranks and cannot be destroyed")
    find(name)
    del _made[name]

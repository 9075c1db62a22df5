"""Settings for the exchange of gradients in pieces, as in hccl.split.api; without effect here."""

from __future__ import annotations

from collections.abc import Sequence

from npu_precision import _no_effect
from npu_precision.hccl import groups

__all__ = ["set_split_strategy_by_idx", "set_split_strategy_by_size"]


def set_split_strategy_by_idx(idxList: Sequence[int], group: str = groups.WORLD) -> None:
    """Has no effect here, as the log says: each gradient is exchanged when it is there.

    Args:
        idxList: the numbers of the pieces' last gradients.
        group: the name of a group.

    Raises:
        ValueError: there is no such group, or the numbers do not ascend.
    """
    groups.find(group)
    if list(idxList) != sorted(set(idxList)):
        raise ValueError(f"idxList: got {list(idxList)}, expected ascending numbers of gradients")
    _no_effect.name_once("set_split_strategy_by_idx")


def set_split_strategy_by_size(dataSizeList: Sequence[float], group: str = groups.WORLD) -> None:
    """Has no effect here, as the log says: each gradient is exchanged when it is there.

    Args:
        dataSizeList: the shares of the pieces in percent, 100 in all.
        group: the name of a group.

    Raises:
        ValueError: there is no such group, or the shares are not 100 in all.
    """
    groups.find(group)
    if abs(sum(dataSizeList) - 100) > 1e-3:
        raise ValueError(f"dataSizeList: got {list(dataSizeList)}, expected shares that are 100")
    _no_effect.name_once("set_split_strategy_by_size")

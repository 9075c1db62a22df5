"""Groups the tensors of a graph by the scopes of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

TOP = "(no scope)"
_DEEPEST = 8
# TensorFlow puts it into the names of what it inlines, as in while/body/_12/while/MatMul.
_NUMBER = re.compile(r"_\d+")


def scopes_of(nodes: Sequence[str], most: int = 64) -> list[str]:
    """The scope of each node, all as deep as they can be for there to be at most so many.

    Args:
        nodes: their names.
        most: scopes that differ. There are more only if the first parts of the names differ more.
    """
    parts = [
        [part for part in name.split("/")[:-1] if not _NUMBER.fullmatch(part)] for name in nodes
    ]
    for depth in range(_DEEPEST, 0, -1):
        scopes = ["/".join(each[:depth]) or TOP for each in parts]
        if len(set(scopes)) <= most:
            break
    return scopes

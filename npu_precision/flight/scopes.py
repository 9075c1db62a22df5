"""Groups the tensors of a graph by the scopes of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

TOP = "(no scope)"
_DEEPEST = 8
# TensorFlow puts this part into the names of inlined nodes, as in while/body/_12/while/MatMul.
_NUMBER = re.compile(r"_\d+")


def scopes_of(nodes: Sequence[str], most: int = 64) -> list[str]:
    """The scopes of the nodes, as deep as possible with at most `most` different ones.

    Args:
        nodes: their names.
        most: the limit on different scopes, which is exceeded only if the first parts of the names
            are more.
    """
    parts = [
        [part for part in name.split("/")[:-1] if not _NUMBER.fullmatch(part)] for name in nodes
    ]
    for depth in range(_DEEPEST, 0, -1):
        scopes = ["/".join(each[:depth]) or TOP for each in parts]
        if len(set(scopes)) <= most:
            break
    return scopes

"""Searches for the suspects that must be kept, with as few trials as possible."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Callable, Sequence


class Search:
    """Finds a small set of suspects that is enough to keep.

    is_good says whether a set is enough. The result is a good set. If every superset of a good set
    is good too, no member of the result can be left out.

    Args:
        suspects: the names of nodes, the most likely ones first. Keeping all is good, keeping none
            is not.
        is_good: whether it is enough to keep a set of suspects.
        most: how many sets may be tried; None for any number.

    Attributes:
        left: about how many sets are still to be tried.
        is_complete: whether the search ended before it reached `most`.
    """

    def __init__(
        self,
        suspects: Sequence[str],
        is_good: Callable[[frozenset[str]], bool],
        most: int | None = None,
    ):
        self._suspects = list(suspects)
        self._is_good = is_good
        self._most = most
        self._asked = 0
        self._kept = frozenset(suspects)
        self.left = _questions(len(self._suspects)) + 1
        self.is_complete = False

    def run(self) -> list[str]:
        """The set that was found, in the order of the suspects."""
        try:
            self._keep_the_first()
            self._give_back()
            self.is_complete = True
        except _OutOfQuestions:
            pass
        self.left = 0
        return self._in_order()

    def _keep_the_first(self) -> None:
        bad, good = 0, len(self._suspects)
        count = 1
        while count < good:
            if self._ask(frozenset(self._suspects[:count])):
                good = count
            else:
                bad, count = count, 2 * count
        while good - bad > 1:
            self.left = _questions(good - bad) + 1
            middle = (bad + good) // 2
            if self._ask(frozenset(self._suspects[:middle])):
                good = middle
            else:
                bad = middle

    def _give_back(self) -> None:
        # The suspects least likely to be needed are last; pop() tries them first.
        pending = split(self._in_order())
        while pending:
            group = pending.pop()
            self.left = len(pending) + 1
            if not self._ask(self._kept.difference(group)) and len(group) > 1:
                pending += split(group)

    def _ask(self, kept: frozenset[str]) -> bool:
        if self._asked == self._most:
            raise _OutOfQuestions
        self._asked += 1
        if not self._is_good(kept):
            return False
        self._kept = kept
        return True

    def _in_order(self) -> list[str]:
        return [name for name in self._suspects if name in self._kept]


class _OutOfQuestions(Exception):
    pass


def _questions(count: int) -> int:
    return math.ceil(math.log2(count)) if count > 1 else 1


def split(names: Sequence[str]) -> list[list[str]]:
    """Splits names into two halves. Only a scope that holds all of them is divided."""
    if len(names) < 2:
        return [list(names)]
    paths = [name.split("/") for name in names]
    shared = 0
    while all(len(path) > shared + 1 and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    scopes: dict[str, list[str]] = collections.OrderedDict()
    for name, path in zip(names, paths):
        # A node in none of the scopes is a part by itself.
        scope = path[shared] + "/" if len(path) > shared + 1 else path[shared]
        scopes.setdefault(scope, []).append(name)
    parts = list(scopes.values())
    return [
        list(itertools.chain.from_iterable(half))
        for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :])
    ]

"""The mixlist that is found: the user's own, and entries for the nodes to keep."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Sequence

from npu_precision import _library
from npu_precision.options import PrecisionOptions
from npu_precision.tuning.risk import Suspect

_NODE = "node:"
# What TensorFlow inlines has the names of calls in front.
_ANYWHERE = "(.*/)?"


class Mixlist:
    """Options with a mixlist, which nodes to keep are added to.

    Args:
        options: the options; their mode has lists, and their mixlist, if any, is in a file.

    Raises:
        OSError: the mixlist cannot be read.
        ValueError: the mode has no lists, or there is a mixlist that is not in a file.
    """

    def __init__(self, options: PrecisionOptions):
        if options.mixlist_edits is not None:
            raise ValueError("mixlist_edits cannot be tuned: put them into the file modify_mixlist")
        try:
            dataclasses.replace(options, mixlist_edits="{}")
        except ValueError as error:
            raise ValueError(f"there is no mixlist to find: {error}") from error
        self._options = options
        self._entries = []
        if options.modify_mixlist is not None:
            text = pathlib.Path(options.modify_mixlist).read_bytes()
            self._entries = _library.lint_mixlist(options.custom_optimizer(), text)["entries"]

    @property
    def node_places(self) -> set[str]:
        """Where the mixlist names nodes, as ledgers say it: no other entry can be about those."""
        return {entry["place"] for entry in self._entries if entry["text"].startswith(_NODE)}

    def keeping(self, entries: Sequence[str]) -> PrecisionOptions:
        """The options with more entries on the black list."""
        return dataclasses.replace(
            self._options, modify_mixlist=None, mixlist_edits=self.text(entries)
        )

    def text(self, entries: Sequence[str]) -> str:
        """The mixlist, as JSON, with more entries on the black list."""
        lists: dict[str, dict[str, list[str]]] = {"black-list": {"to-add": []}}
        for entry in self._entries:
            edit = "to-add" if entry["add"] else "to-remove"
            lists.setdefault(entry["list"], {}).setdefault(edit, []).append(entry["text"])
        lists["black-list"].setdefault("to-add", []).extend(entries)
        return json.dumps(lists, indent=2) + "\n"


def node_entry(name: str) -> str:
    """The entry that is about one node."""
    return _NODE + re.escape(name)


def shortened(
    kept: Sequence[Suspect],
    suspects: Sequence[Suspect],
    anywhere: bool,
    is_same: Callable[[list[str]], bool],
) -> list[str]:
    """Few entries that keep these nodes and no others: op types and scopes where all are kept.

    Args:
        kept: the nodes to keep.
        suspects: all nodes that could be.
        anywhere: whether to match nodes in what is inlined too, if that makes no difference here.
        is_same: whether entries decide as one for each node would.
    """
    entries: list[str] = []
    rest = {each.node: each for each in kept}
    for whole in (_whole_op_types, _whole_scopes):
        for entry, names in whole(list(rest.values()), suspects):
            others = [node_entry(name) for name in rest if name not in names]
            if is_same([*entries, entry, *others]):
                entries.append(entry)
                for name in names:
                    rest.pop(name, None)
    entries += [node_entry(name) for name in rest]
    if anywhere:
        wider = [entry.replace(_NODE, _NODE + _ANYWHERE, 1) for entry in entries]
        if is_same(wider):
            return wider
    return entries


def _whole_op_types(
    kept: Sequence[Suspect], suspects: Sequence[Suspect]
) -> list[tuple[str, set[str]]]:
    return _wholes(kept, suspects, lambda each: [each.op])


def _whole_scopes(
    kept: Sequence[Suspect], suspects: Sequence[Suspect]
) -> list[tuple[str, set[str]]]:
    found = _wholes(kept, suspects, lambda each: _scopes(each.node))
    outermost: list[tuple[str, set[str]]] = []
    for scope, names in sorted(found, key=lambda item: item[0].count("/")):
        if not any(names <= others for _, others in outermost):
            outermost.append((scope, names))
    return [(f"{_NODE}{re.escape(scope)}/.*", names) for scope, names in outermost]


def _scopes(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _wholes(
    kept: Sequence[Suspect],
    suspects: Sequence[Suspect],
    groups: Callable[[Suspect], list[str]],
) -> list[tuple[str, set[str]]]:
    """The groups of several nodes all of which are kept."""
    members: dict[str, set[str]] = collections.OrderedDict()
    for each in suspects:
        for group in groups(each):
            members.setdefault(group, set()).add(each.node)
    names = {each.node for each in kept}
    return [
        (group, nodes) for group, nodes in members.items() if 1 < len(nodes & names) == len(nodes)
    ]

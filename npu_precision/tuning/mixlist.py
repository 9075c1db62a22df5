"""The mixlist that a search builds: the user's own entries, and entries for the nodes to keep."""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence

from npu_precision import _library
from npu_precision.explain.story import uses_lists
from npu_precision.options import PrecisionOptions, mixlist_content
from npu_precision.tuning.risk import Suspect

_NODE = "node:"
# TensorFlow prefixes the names of inlined nodes with the name of the call.
_ANYWHERE = "(.*/)?"
# The entry that keeps all nodes that the mode lowers.
EVERY_NODE = _NODE + ".*"


# TensorFlow numbers inlined nodes, with other numbers in the next run.
_NUMBER = re.compile(r"_\d+")
_SUFFIX = re.compile(r"_\d+$")
_ANY_NUMBER = "_[0-9]+"


def entry_of(node: str, numbered: Collection[str] = ()) -> str:
    """The entry that matches a node of a graph that runs, in every run of its program.

    Args:
        node: its name.
        numbered: names of scopes that TensorFlow numbers at each use, and whose nodes may be
            inlined in one graph and not in another.
    """
    prefix = _NODE + (_ANYWHERE if numbered else "")
    return prefix + "/".join(_pattern(part, numbered) for part in node.split("/"))


def _pattern(part: str, numbered: Collection[str]) -> str:
    if _NUMBER.fullmatch(part):
        return _ANY_NUMBER
    for name in (part, _SUFFIX.sub("", part)):
        if name in numbered:
            return f"{re.escape(name)}({_ANY_NUMBER})?"
    return re.escape(part)


class Mixlist:
    """Options with a mixlist, to which entries for nodes to keep are added.

    Args:
        options: the options; their mode uses lists, and their mixlist, if any, is modify_mixlist.

    Raises:
        OSError: the mixlist cannot be read.
        ValueError: the mode uses no lists, or there are mixlist_edits.
    """

    def __init__(self, options: PrecisionOptions):
        if options.mixlist_edits is not None:
            raise ValueError("mixlist_edits cannot be tuned: put them into the file modify_mixlist")
        if not uses_lists(options):
            mode = options.precision_mode or options.precision_mode_v2
            raise ValueError(
                f"got mode {mode!r}, which does not use the lists that a mixlist edits; use one of "
                "the mixed modes, such as allow_mix_precision, perhaps with all_white"
            )
        self._options = options
        self._entries = []
        text = mixlist_content(options)
        if text is not None:
            self._entries = _library.lint_mixlist(options.custom_optimizer(), text)["entries"]

    @property
    def black(self) -> set[str]:
        """The entries that the user has added to the black list."""
        return {
            entry["text"]
            for entry in self._entries
            if entry["add"] and entry["list"] == "black-list"
        }

    @property
    def node_places(self) -> set[str]:
        """The places of the user's node: entries, as in ledgers; they override new entries."""
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


def flat_entries(suspects: Iterable[Suspect]) -> list[str]:
    """Entries for the frozen model, where the names of nodes differ."""
    return [_NODE + re.escape(name) for each in suspects for name in each.flat]


def entries(
    kept: Sequence[Suspect],
    suspects: Sequence[Suspect],
    has_calls: bool,
    is_same: Callable[[list[str]], bool],
) -> list[str]:
    """A short list of entries for the model that keep these nodes: whole scopes where possible.

    No entry is an op type: the model may have more graphs than the one that was measured.

    Args:
        kept: the nodes to keep.
        suspects: all nodes that could be kept, which make scopes; none for an entry for each node.
        has_calls: whether nodes may be inlined, which prefixes their names.
        is_same: whether entries lead to the same decisions as flat_entries(kept).
    """
    forms = [_NODE + _ANYWHERE, _NODE] if has_calls else [_NODE]
    candidates = [_shortened(kept, suspects, form, is_same) for form in forms]
    # If no form gives the same decisions, the first one keeps more nodes, which is safe.
    return next((found for found in candidates if is_same(found)), candidates[0])


def _shortened(
    kept: Sequence[Suspect],
    suspects: Sequence[Suspect],
    form: str,
    is_same: Callable[[list[str]], bool],
) -> list[str]:
    short: list[str] = []
    rest = {each.node: form + re.escape(each.node) for each in kept}
    for scope, names in _scopes_kept(kept, suspects):
        entry = f"{form}{re.escape(scope)}/.*"
        others = [other for name, other in rest.items() if name not in names]
        if names <= rest.keys() and is_same([*short, entry, *others]):
            short.append(entry)
            for name in names:
                del rest[name]
    return [*short, *rest.values()]


def _scopes_kept(
    kept: Sequence[Suspect], suspects: Sequence[Suspect]
) -> list[tuple[str, set[str]]]:
    """The scopes with several suspects, all of them kept; outermost first."""
    members: dict[str, set[str]] = collections.OrderedDict()
    for each in suspects:
        parts = each.node.split("/")
        for count in range(1, len(parts)):
            members.setdefault("/".join(parts[:count]), set()).add(each.node)
    names = {each.node for each in kept}
    whole = [
        (scope, nodes) for scope, nodes in members.items() if len(nodes) > 1 and nodes <= names
    ]
    return sorted(whole, key=lambda item: item[0].count("/"))

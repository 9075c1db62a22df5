"""Finds entries of a mixlist that name other nodes in the frozen graph than in the model."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.ledger import Ledger


def other_names(model: Ledger, flat: Ledger, frozen: FrozenModel) -> list[str]:
    """Returns warnings about entries that match different nodes in the model and in its frozen
    graph.

    Functions are inlined in the frozen graph, so that their nodes have longer names there.

    Args:
        model: the ledger of the model, with its functions.
        flat: the ledger of the frozen graph.
        frozen: the frozen graph.
    """
    listed: dict[str, set[str]] = collections.defaultdict(set)
    for part in model:
        for node in part.nodes:
            listed[node.name].add(node.listed_by if node.is_of_a_file else "")
    here: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    there: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for node in flat.nodes:
        name = frozen.origins.get(node.name, node.name)
        if name not in listed or name == node.name:
            continue
        entries = listed[name]
        if node.is_of_a_file and node.listed_by not in entries:
            here[node.listed_by].append((node.name, name))
        for entry in entries - {"", node.listed_by}:
            there[entry].append((node.name, name))
    return [
        *_told(
            here,
            "matches {inlined!r} here, which explain and convert call {name!r} and where it does "
            "not match, so that they do not follow it",
        ),
        *_told(
            there,
            "matches {name!r} in the model, but not {inlined!r}, as it is called here, where it is "
            "not followed",
        ),
    ]


def _told(found: dict[str, list[tuple[str, str]]], text: str) -> Iterable[str]:
    for entry, nodes in found.items():
        inlined, name = nodes[0]
        more = f" (and {len(nodes) - 1} more)" if len(nodes) > 1 else ""
        yield (
            f"{entry}: {text.format(inlined=inlined, name=name)}{more}; "
            f"'node:(.*/)?{name}' matches in both"
        )

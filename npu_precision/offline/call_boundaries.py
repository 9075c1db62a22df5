"""Runs the pass call_boundaries over a graph and its functions."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping

from tensorflow.core.framework import graph_pb2

from npu_precision import _library
from npu_precision.ledger import Ledger
from npu_precision.options import PrecisionOptions


def moved(
    options: PrecisionOptions,
    graph_def: graph_pb2.GraphDef,
    known_functions: Collection[str],
    kept: Collection[tuple[str, str]],
) -> tuple[graph_pb2.GraphDef, dict[str, list[dict[str, str]]]] | None:
    """Moves Casts out of the functions of a rewritten graph.

    Args:
        options: the precision options, which say whether the pass is on.
        graph_def: the graph; it is not changed.
        known_functions: names of functions whose arguments and results keep their dtypes.
        kept: nodes that keep their dtype, as (function, node); the function is "" for the graph's.

    Returns:
        A new graph, and the changes as entries of a ledger's "rewrites", by function, "" for the
        graph; or None if nothing changed.
    """
    result = _library.move_casts_out_of_calls(
        options.custom_optimizer(), graph_def, known_functions, kept
    )
    if result is None:
        return None
    rewritten, entries = result
    rewrites = collections.defaultdict(list)
    for entry in entries:
        rewrites[entry.pop("body")].append(entry)
    return rewritten, rewrites


def with_rewrites(
    ledger: Ledger, earlier: Ledger, rewrites: Mapping[str, list[dict[str, str]]]
) -> Ledger:
    """Adds the rewrites of an earlier run, and of this pass, to the ledger of a later run."""
    data, before = ledger.to_dict(), earlier.to_dict()
    parts = {part["graph"]: part for part in data["functions"]}
    for part in before["functions"]:
        told = [*part["rewrites"], *rewrites.get(part["graph"], ())]
        parts[part["graph"]]["rewrites"][:0] = told
    data["rewrites"][:0] = [*before["rewrites"], *rewrites.get("", ())]
    return Ledger(data)

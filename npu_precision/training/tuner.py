"""Finds the nodes that a training must keep in float32, so that its curve stays like float32's."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from npu_precision.flight import forward
from npu_precision.flight.tensor_watch import TensorWatch, WatchedStep
from npu_precision.ledger import Ledger
from npu_precision.options import PrecisionOptions
from npu_precision.training.compared import Compared
from npu_precision.training.comparer import Comparer
from npu_precision.tuning.mixlist import Mixlist, entry_of
from npu_precision.tuning.search import Search


class TrainingTuned(NamedTuple):
    """The result of a search.

    Attributes:
        kept: the nodes to keep in float32.
        lowered: how many nodes the mode lowers without a mixlist.
        mixlist: the content of the file.
        compared: the training with the mixlist.
        runs: how many sets of nodes were tried.
        is_complete: whether none of the kept nodes can be left out.
    """

    kept: list[str]
    lowered: int
    mixlist: str
    compared: Compared
    runs: int
    is_complete: bool


def tune(
    comparer: Comparer,
    options: PrecisionOptions,
    most: int,
    progress: Callable[[int, int], None] = lambda done, left: None,
) -> TrainingTuned:
    """Searches for the nodes to keep.

    Args:
        comparer: runs the training, and compares it.
        options: the precision, with a mode that uses lists.
        most: the most sets of nodes to try.
        progress: called with the number of sets tried, and about how many are left.

    Raises:
        ValueError: the mode uses no lists, or keeping all nodes that it lowers is not enough.
    """
    mixlist = Mixlist(options)
    tried: dict[frozenset[str], Compared] = {}

    def compared_with(kept: frozenset[str]) -> Compared:
        if kept not in tried:
            tried[kept] = comparer.compare(
                mixlist.keeping([entry_of(each) for each in sorted(kept)])
            )
        return tried[kept]

    suspects = _suspects(comparer, mixlist.keeping([]))
    kept: list[str] = []
    is_complete = True
    if not compared_with(frozenset()).is_within:
        everything = compared_with(frozenset(suspects))
        if not everything.is_within:
            raise ValueError(
                f"with all {len(suspects)} nodes in float32 that the mode lowers, the loss is "
                f"{everything.ratio:.2g} times as far from float32's as that of other seeds; "
                "--steps or --other-seeds may be too small"
            )

        def is_good(names: frozenset[str]) -> bool:
            progress(len(tried), search.left)
            return compared_with(names).is_within

        search = Search(suspects, is_good, max(0, most - len(tried)))
        kept, is_complete = search.run(), search.is_complete
    entries = [entry_of(each) for each in kept]
    return TrainingTuned(
        kept,
        len(suspects),
        mixlist.text(entries),
        compared_with(frozenset(kept)),
        len(tried),
        is_complete,
    )


def _suspects(comparer: Comparer, options: PrecisionOptions) -> list[str]:
    """The nodes that a step lowers, those first whose values are nearest to leaving the range."""
    found: list[WatchedStep] = []
    with tempfile.TemporaryDirectory() as folder:
        reporting = dataclasses.replace(options, report_dir=folder)
        with TensorWatch("lowered", 1, found.append, takes_over=True, is_diagnosis=True):
            comparer.make_one_step(reporting)
        files = sorted(pathlib.Path(folder).glob("*.json"))
        ledgers = [Ledger.from_json(file.read_text(encoding="utf-8")) for file in files]
    lowered = {
        node.name: None for ledger in ledgers for node in ledger.nodes if node.decision == "lowered"
    }
    risks = _risks(found)
    return sorted(lowered, key=lambda name: -risks.get(name, 0.0))


def _risks(steps: list[WatchedStep]) -> dict[str, float]:
    """By node, how near its values, or those that it reads, are to the ends of the range."""
    risks: dict[str, float] = {}
    for step in steps:
        limits = forward.limits_of([tensor.low_type for tensor in step.graph.tensors])
        over = step.counts["over"] + step.counts["infinities"]
        reached = forward.reached(step.counts["largest"], over, limits) / limits
        under = step.counts["under"] / np.maximum(step.counts["elements"], 1)
        for tensor, risk in zip(step.graph.tensors, np.maximum(reached, under).tolist()):
            for node in (tensor.node, *tensor.readers):
                risks[node] = max(risks.get(node, 0.0), risk)
    return risks

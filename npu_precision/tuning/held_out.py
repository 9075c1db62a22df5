"""Splits the inputs of tuning: some are searched on, and the others are held out to check."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.model_inputs import Feed


@dataclasses.dataclass(frozen=True)
class Split:
    """The inputs in two parts.

    Attributes:
        searched: the batches that the search tries mixlists on.
        whole: all batches, undivided.
        held_out: the batches that only the mixlist it finds is tried on; none, if all are searched.
        words: the held-out share, as "4 of 16 rows", or why nothing is held out.
    """

    whole: list[Feed]
    searched: list[Feed]
    held_out: list[Feed]
    words: str


def split(batches: Sequence[Feed], model: FrozenModel, share: float) -> Split:
    """Holds out a share of the batches, or of the rows if there is one batch.

    The held-out inputs are spread evenly, because inputs are often in some order. At least one
    batch or row is held out if there are two, unless the share is 0.

    Args:
        batches: all batches.
        model: the model; a batch is divided only if the model takes any number of rows.
        share: the share, from 0 to less than 1.
    """
    if share == 0:
        return Split([*batches], [*batches], [], "nothing is held out: the share is 0")
    if len(batches) > 1:
        chosen = _chosen(len(batches), share)
        return Split(
            [*batches],
            [batch for number, batch in enumerate(batches) if number not in chosen],
            [batches[number] for number in chosen],
            f"{len(chosen)} of {len(batches)} batches held out",
        )
    rows = _rows(batches[0], model)
    if isinstance(rows, str):
        return Split([*batches], [*batches], [], f"nothing is held out of one batch: {rows}")
    chosen = _chosen(rows, share)
    others = [row for row in range(rows) if row not in chosen]
    return Split(
        [*batches],
        [_taken(batches[0], others)],
        [_taken(batches[0], chosen)],
        f"{len(chosen)} of {rows} rows held out",
    )


def _chosen(count: int, share: float) -> list[int]:
    """The indices to hold out, each in the middle of its part of the whole."""
    wanted = min(max(round(count * share), 1), count - 1)
    return [int((part + 0.5) * count / wanted) for part in range(wanted)]


def _taken(batch: Feed, rows: list[int]) -> Feed:
    return {tensor: array[rows] if array.ndim else array for tensor, array in batch.items()}


def _rows(batch: Feed, model: FrozenModel) -> int | str:
    """How many rows a batch has, or why it cannot be divided."""
    counts = {}
    for name, given in model.inputs.items():
        array = batch.get(given.tensor)
        if array is None or not np.ndim(array):
            continue  # A scalar input, such as a switch or a rate, is the same for all rows.
        if given.shape.rank and given.shape.as_list()[0] is not None:
            return f"input {name!r} always has {len(array)} rows"
        counts[name] = len(array)
    if not counts:
        return "no input has rows"
    if len(set(counts.values())) > 1:
        found = " and ".join(f"{name!r} {count}" for name, count in counts.items())
        return f"its inputs differ in their rows: {found}"
    rows = next(iter(counts.values()))
    return rows if rows > 1 else f"it has {rows} row{'' if rows == 1 else 's'}"

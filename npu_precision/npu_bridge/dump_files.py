"""The files of a dump: a tensor in each, or the statistics of an op's tensors."""

from __future__ import annotations

import collections
import csv
import hashlib
import os
from typing import Any

import numpy as np
import tensorflow as tf

from npu_precision import dump_layout

# The limit of file systems.
LONGEST_NAME = 255
# The columns of statistics. Max, min and average are of finite values.
COLUMNS = (
    "Input/Output",
    "Index",
    "Data Size",
    "Data Type",
    "Format",
    "Shape",
    "Max Value",
    "Min Value",
    "Avg Value",
    "Count",
    "Nan Count",
    "Negative Inf Count",
    "Positive Inf Count",
)


class DumpFiles:
    """Writes the tensors of a step.

    Args:
        folder: an empty folder.
        statistics: whether statistics are written in place of tensors.
    """

    def __init__(self, folder: str, statistics: bool) -> None:
        self._folder, self._statistics = folder, statistics
        self._rows: dict[str, list[list[Any]]] = collections.defaultdict(list)

    def add(self, op: str, way: str, index: int, tensor: Any) -> None:
        """Adds a tensor, if it has numbers.

        Args:
            op: "{op type}.{op name}.{task id}.{stream id}.{timestamp}".
            way: "input" or "output".
            index: its number among these.
            tensor: the tensor of a run.
        """
        value = tensor.value()
        if value is None:
            return
        shape = "x".join(map(str, value.shape)) or "1"
        if self._statistics:
            self._rows[op].append([way, index, *_statistics(value, shape)])
            return
        if value.dtype == tf.bfloat16.as_numpy_dtype:
            # NumPy's files know no bfloat16; float32 holds all of its values.
            value = value.astype(np.float32)
        with open(self._path(f"{op}.{way}.{index}.{shape}.npy"), "xb") as file:
            np.save(file, value)

    def close(self) -> None:
        """Writes the statistics."""
        for op, rows in self._rows.items():
            with open(self._path(f"{op}.csv"), "x", newline="") as file:
                csv.writer(file).writerows([COLUMNS, *rows])

    def _path(self, name: str) -> str:
        if len(os.fsencode(name)) > LONGEST_NAME:
            # As on an NPU: a number, and a table of the names.
            digest = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10**20
            number = f"{digest}{os.path.splitext(name)[1]}"
            with open(os.path.join(self._folder, dump_layout.LONG_NAMES), "a", newline="") as table:
                csv.writer(table).writerow([number, name])
            name = number
        return os.path.join(self._folder, name)


def _statistics(value: np.ndarray[Any, Any], shape: str) -> list[Any]:
    numbers = np.abs(value) if np.iscomplexobj(value) else value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    extremes = [finite.max(), finite.min(), finite.mean()] if finite.size else ["", "", ""]
    return [
        value.nbytes,
        value.dtype.name,
        "ND",
        shape,
        *extremes,
        value.size,
        int(np.isnan(numbers).sum()),
        int(np.isneginf(numbers).sum()),
        int(np.isposinf(numbers).sum()),
    ]

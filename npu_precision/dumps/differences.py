"""Measures how a tensor of one dump differs from that of the other."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from npu_precision.dumps.folders import Statistics

# The distance of 1 to the next number.
_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
# Channels last, and first.
_ORDERS = ((0, 2, 3, 1), (0, 3, 1, 2))


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first tensor less the second.

    Attributes:
        error: the root of its mean square, as a multiple of that of the second tensor; infinite
            where the first has a value that is not finite, and the second has not. Of statistics,
            the largest difference of one, as a multiple of the tensor's largest statistic.
        cosine: of the angle between the two; None for statistics.
        largest: the largest magnitude of it; None for statistics.
        not_finite: the share of values that are not finite in the first tensor alone.
        dtype: the type whose values the first tensor has: "float16", "bfloat16", ...; "" if it is
            not known.
        by_statistics: whether the tensors were not there themselves.
    """

    error: float
    cosine: float | None
    largest: float | None
    not_finite: float
    dtype: str
    by_statistics: bool = False


def unit(dtype: str) -> float:
    """The distance from 1 to the next number of the type."""
    return _UNITS.get(dtype, _UNITS["float32"])


def of_values(
    first: np.ndarray[Any, Any] | Statistics, second: np.ndarray[Any, Any] | Statistics
) -> Difference | str:
    """Measures two tensors, or says why they cannot be compared."""
    if isinstance(first, Statistics) or isinstance(second, Statistics):
        return _of_statistics(_summed_up(first), _summed_up(second))
    if not (_is_float(first) and _is_float(second)):
        return "it has no floats"
    second_shaped = _like(first, second)
    if second_shaped is None:
        shapes = [list(first.shape), list(second.shape)]
        return f"its shape is {shapes[0]} in the first dump and {shapes[1]} in the second"
    dtype = _type_of(first)
    with np.errstate(all="ignore"):
        return _measured(first.astype(np.float64), second_shaped.astype(np.float64), dtype)


def _measured(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: str) -> Difference:
    both = np.isfinite(a) & np.isfinite(b)
    new = ~np.isfinite(a) & np.isfinite(b)
    difference, reference = np.where(both, a - b, 0.0), np.where(both, b, 0.0)
    size = math.sqrt(float(np.square(reference).mean())) if reference.size else 0.0
    root = math.sqrt(float(np.square(difference).mean())) if difference.size else 0.0
    error = root / size if size else (0.0 if not root else math.inf)
    lengths = np.linalg.norm(np.where(both, a, 0.0)) * np.linalg.norm(reference)
    cosine = float((np.where(both, a, 0.0) * reference).sum() / lengths) if lengths else None
    return Difference(
        math.inf if new.any() else error,
        cosine,
        float(np.abs(difference).max()) if difference.size else 0.0,
        float(new.mean()) if new.size else 0.0,
        dtype,
    )


def _of_statistics(first: Statistics, second: Statistics) -> Difference | str:
    names = [name for name in first.numbers if name in second.numbers]
    if not names:
        return "the dumps have no statistic of it in common"
    apart = max(abs(first.numbers[name] - second.numbers[name]) for name in names)
    size = max(abs(second.numbers[name]) for name in names)
    error = apart / size if size else (0.0 if not apart else math.inf)
    new = max(first.not_finite - second.not_finite, 0.0)
    return Difference(math.inf if new else error, None, None, new, first.dtype, True)


def _summed_up(value: np.ndarray[Any, Any] | Statistics) -> Statistics:
    if isinstance(value, Statistics):
        return value
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return Statistics({}, float(numbers.size > 0), value.dtype.name)
    found = {
        "most": finite.max(),
        "least": finite.min(),
        "mean": finite.mean(),
        "largest": np.abs(finite).max(),
        "deviation": finite.std(),
        "norm_l1": np.abs(finite).sum(),
        "norm_l2": np.linalg.norm(finite),
    }
    return Statistics(
        {name: float(number) for name, number in found.items()},
        1.0 - finite.size / numbers.size,
        _type_of(value),
    )


def _is_float(value: np.ndarray[Any, Any]) -> bool:
    return np.issubdtype(value.dtype, np.floating)


def _type_of(value: np.ndarray[Any, Any]) -> str:
    """The type of the values: bfloat16 is written as float32."""
    if value.dtype != np.float32 or not value.size:
        return value.dtype.name
    bits = np.ascontiguousarray(value[np.isfinite(value)]).view(np.uint32)
    # Small whole numbers, as in masks, do not have the last bit that a bfloat16 has.
    return "bfloat16" if not (bits & 0xFFFF).any() and (bits & 0x10000).any() else "float32"


def _like(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """The second tensor in the shape of the first: scalars, and channels first or last."""
    if first.shape == second.shape:
        return second
    if first.size == second.size == 1:
        return second.reshape(first.shape)
    if first.ndim == second.ndim == 4:
        for order in _ORDERS:
            if second.transpose(order).shape == first.shape:
                return second.transpose(order)
    return None

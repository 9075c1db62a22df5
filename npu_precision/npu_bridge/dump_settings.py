"""Parses npu_bridge's dump options: which tensors of which steps are written, and where."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from npu_precision import _errors

# The options, as parameters of NpuOptimizer and as arguments of DumpConfig, that have an effect.
NAMES = ("enable_dump", "dump_path", "dump_step", "dump_mode", "dump_data", "dump_layer")

_MODES = ("input", "output", "all")
_DATA = ("tensor", "stats")


@dataclasses.dataclass(frozen=True)
class DumpSettings:
    """The tensors to write, and the folder.

    Attributes:
        path: the folder.
        steps: the first and last steps of ranges; None for all steps.
        inputs: whether the inputs of ops are written.
        outputs: whether their outputs are.
        layers: the names of the ops; none for all.
        statistics: whether statistics are written in place of tensors.
    """

    path: str
    steps: tuple[tuple[int, int], ...] | None
    inputs: bool
    outputs: bool
    layers: frozenset[str]
    statistics: bool = False

    def has(self, step: int) -> bool:
        """Whether to write this step, counted from 0."""
        return self.steps is None or any(first <= step <= last for first, last in self.steps)


def of_options(options: Mapping[str, Any]) -> DumpSettings | None:
    """Returns the settings, or None if enable_dump is not set.

    Args:
        options: values by npu_bridge's names; only dump options are read.

    Raises:
        ValueError: there is no dump_path, a value is not valid, or enable_dump_debug is set too.
    """
    if isinstance(options.get("enable_dump"), (str, bytes)):
        got = _errors.got(options["enable_dump"])
        raise ValueError(
            f'enable_dump: got {got}, expected a bool; write parameter_map["enable_dump"].b = True'
        )
    if not options.get("enable_dump"):
        return None
    if options.get("enable_dump_debug"):
        raise ValueError("enable_dump and enable_dump_debug are both set, expected one of them")
    path = options.get("dump_path")
    if not path or not isinstance(path, (str, bytes, os.PathLike)):
        raise ValueError(f"dump_path: got {_errors.got(path)}, expected a folder for enable_dump")
    layers = options.get("dump_layer") or ""
    if not isinstance(layers, str):
        raise ValueError(
            f"dump_layer: got {_errors.got(layers)}, expected names of ops with spaces between them"
        )
    mode = _one_of(options, "dump_mode", _MODES, "output")
    return DumpSettings(
        path=os.fsdecode(path),
        steps=_steps(options.get("dump_step")),
        inputs=mode != "output",
        outputs=mode != "input",
        layers=frozenset(layers.split()),
        statistics=_one_of(options, "dump_data", _DATA, "tensor") == "stats",
    )


def _one_of(options: Mapping[str, Any], name: str, values: tuple[str, ...], default: str) -> str:
    value = options.get(name) or default
    if value not in values:
        raise ValueError(
            f"{name}: got {value!r}, expected one of {', '.join(values)}"
            f"{_errors.did_you_mean(value, values)}"
        )
    return value


def _steps(text: str | int | None) -> tuple[tuple[int, int], ...] | None:
    if text is None or text == "":
        return None
    ranges = []
    for part in str(text).split("|"):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(
                f"dump_step: got {text!r}, expected steps and ranges of them, as '0|5|10-20'"
            )
        if int(last or first) < int(first):
            raise ValueError(
                f"dump_step: got {text!r}, expected a range that counts up, as '10-20'"
            )
        ranges.append((int(first), int(last or first)))
    return tuple(ranges)

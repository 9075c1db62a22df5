"""The text that initialize() prints: Apex's rows, and the options of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npu_precision.amp import opt_levels
from npu_precision.amp.opt_levels import Properties


def banner(properties: Properties, overrides: Mapping[str, Any]) -> str:
    """Returns the level's defaults, the caller's overrides, and the properties in force."""
    level = properties.opt_level
    given = {name: value for name, value in overrides.items() if value is not None}
    options = properties.precision_options()
    return "\n".join(
        [
            f"npu_precision.amp, level {level}: {opt_levels.SUMMARIES[level]}.",
            f"Defaults of {level}:",
            *_lines(opt_levels.LEVELS[level]),
            "Overrides:" if given else "Overrides: none",
            *(f"  {name:22}: {value}" for name, value in given.items()),
            "In force:",
            *_lines(properties),
            *(f"  {name:22}: {value}" for name, value in options.to_dict().items()),
            *(f"Without effect: {note}." for note in properties.notes),
        ]
    )


def _lines(properties: Properties) -> list[str]:
    rows = [("opt_level", properties.opt_level)]
    rows += [(name, getattr(properties, name)) for name in opt_levels.OVERRIDES]
    return [f"  {name:22}: {getattr(value, 'name', value)}" for name, value in rows]

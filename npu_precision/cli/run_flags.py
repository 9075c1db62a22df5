"""Refuses flags that are for models if a command reads the ledgers of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


def refuse_model_flags(path: str, given: Mapping[str, Any]) -> None:
    """Fails if a flag for models is given.

    Args:
        path: the ledger, or the folder of ledgers.
        given: the values of the flags, by the names of the command's parameters.

    Raises:
        click.UsageError: there is one.
    """
    for parameter in click.get_current_context().command.params:
        if given.get(parameter.name or "") not in (None, (), False) and parameter.name != "debug":
            raise click.UsageError(
                f"{parameter.opts[0]}: expected a model, got {path}, of a run whose options are "
                "those of its ledger."
            )

"""Lets a command read the ledgers of a run where it reads models, and refuses flags for models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


def refuse_model_flags(path: str, given: Mapping[str, Any]) -> None:
    """Fails if a flag is given that is about a model.

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

"""A command that hands over to another one if a flag is given."""

from __future__ import annotations

from typing import Any

import click


class OrTraining(click.Command):
    """A command that becomes another one if the flag --training is given.

    Args:
        training: the other command.
    """

    def __init__(self, *arguments: Any, training: click.Command, **given: Any) -> None:
        super().__init__(*arguments, **given)
        self._training = training

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        """The context of the command that the arguments are for."""
        if any(each.partition("=")[0] == "--training" for each in args):
            return self._training.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

"""The flags by which commands list what stays float32, for another runtime."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import click

from npu_precision import outputs
from npu_precision.cli import printing
from npu_precision.explain import float32_nodes, keras_policies
from npu_precision.ledger import LedgerNode
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions


class Float32Nodes(NamedTuple):
    """The list of the nodes that stay float32, if one is asked for."""

    file: str | None
    form: str | None
    force: bool

    def check_alone(self, others: dict[str, Any]) -> None:
        """Checks that no flag is given that the list excludes, or that needs the list."""
        if self.file is None:
            lacking = "--for" if self.form is not None else "--force" if self.force else None
            if lacking is not None:
                raise click.UsageError(f"{lacking} goes with --float32-nodes.")
            return
        for flag, value in others.items():
            if value:
                raise click.UsageError(f"--float32-nodes and {flag}: expected one of the two.")

    @contextlib.contextmanager
    def written(self, read: Iterable[str | None]) -> Iterator[Callable[[str, str], None]]:
        """Context of the file, which appears when complete; yields a function that writes a text,
        and says what it is.
        """
        assert self.file is not None
        outputs.check_apart([self.file], read)
        with outputs.new_file(self.file, self.force) as file:

            def write(text: str, what: str) -> None:
                file.write_text(text, encoding="utf-8")
                printing.say(printing.console(), f"{self.file}: {what}")

            yield write

    def of_model(self, model: Model, options: PrecisionOptions) -> tuple[str, str]:
        """The text that lists what stays float32 in a model, and what it is.

        Raises:
            click.UsageError: policies of Keras for a model that is none of Keras.
            ValueError: the model or the options do not allow it.
        """
        if self.form != float32_nodes.KERAS:
            return self.of_nodes(float32_nodes.of_model(model, options))
        if not model.exported:
            raise click.UsageError(
                f"--for keras: expected a model that Keras saved (.keras), got {model.path}."
            )
        policies = keras_policies.of_file(model.path, options)
        said = f"{policies.float32} of {policies.layers} layers stay float32"
        if policies.shared:
            said += f"; {policies.shared} more share the entry of a layer with the same path"
        return policies.text, said

    def of_nodes(self, nodes: tuple[LedgerNode, ...]) -> tuple[str, str]:
        """The text that lists those of the nodes that stay float32, and what it is."""
        return float32_nodes.text(nodes, self.form or float32_nodes.NAMES)


def float32_nodes_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --float32-nodes, --for and --force; the command gets them as `wanted`."""

    @functools.wraps(command)
    def with_list(*, force: bool, **given: Any) -> None:
        wanted: Float32Nodes = given.pop("wanted")
        command(wanted=wanted._replace(force=force), **given)

    force = click.option("--force", is_flag=True, help="With --float32-nodes: replace FILE.")
    return force(list_flags(with_list))


def list_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --float32-nodes and --for, for a command that has its own --force."""

    @functools.wraps(command)
    def with_list(*, float32_file: str | None, form: str | None, **given: Any) -> Any:
        return command(wanted=Float32Nodes(float32_file, form, False), **given)

    decorated: Callable[..., Any] = with_list
    for option in (
        click.option(
            "--for",
            "form",
            type=click.Choice(float32_nodes.FORMS),
            help="The form of that list: a name on each line, the default; the value of trtexec's "
            "--layerPrecisions; a regular expression on each line, for AutoCast; the variables of "
            "TensorFlow's auto_mixed_precision; or, for a model that Keras 3 saved, a "
            "DTypePolicyMap.",
        ),
        click.option(
            "--float32-nodes",
            "float32_file",
            metavar="FILE",
            help="Write the names of the nodes that stay float32, for another runtime.",
        ),
    ):
        decorated = option(decorated)
    return decorated

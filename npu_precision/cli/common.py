"""What the subcommands share: their flags, and how they print."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

import click
import rich.console
import rich.status
import rich.table
import rich.text
import tensorflow as tf

from npu_precision import _library, model_file
from npu_precision.options import PrecisionOptions

PROGRAM = "npu-precision"

# The fields of PrecisionOptions that are about a run, which there is none of here.
WITHOUT_FLAG = ("strict", "quiet")
# By field: its flag, and what its help says. --mode is both precision_mode and precision_mode_v2.
FLAGS = {
    "modify_mixlist": ("--mixlist", "A JSON file that edits the lists; mixed modes only."),
    "mixlist_edits": ("--mixlist-edits", "The same JSON as text, on top of that file."),
    "all_white": ("--all-white", "Ops of the gray and black lists are white too."),
    "target": ("--target", "Whose lists and abilities decide."),
    "ops_info_dir": ("--ops-info-dir", "A folder of ops-info files instead of the target's lists."),
    "report_dir": ("--report-dir", "A folder that gets the ledger (JSON) too."),
    "loop_constants": ("--loop-constants", "Loops read from outside what they only hand on."),
    "fold_batch_norms": ("--fold-batch-norms", "Batch norms are folded into convolutions."),
    "same_padding": ("--same-padding", "Lowered convolutions of 1x1 say SAME for VALID."),
    "sink_reshapes": ("--sink-reshapes", "A Reshape moves behind a lowered MatMul's BiasAdd."),
    "emulate": ("--emulate", "Compute in float32, round values to the low type."),
    "fold_constants": ("--fold-constants", "Constants are stored in the low type."),
}
_WIDTH_OF_FILES = 120


def debug_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --debug, which main() reads from the command line."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        help="A traceback with each error, and TensorFlow's log.",
    )(command)


def precision_flags(
    only: Collection[str] = (), default_mode: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a flag for each option of the optimizer; the command gets them as `options`.

    Args:
        only: the fields of PrecisionOptions, besides the mode, to add; none for all.
        default_mode: the mode if none is given; None if one must be.
    """
    fields = only or FLAGS

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_options(
            *arguments: Any, mode: str | None, options_file: str | None, **given: Any
        ) -> Any:
            if options_file is None:
                mode = mode or default_mode
            changes = {name: given.pop(name) for name in fields}
            return command(*arguments, options=_options(mode, options_file, changes), **given)

        decorated: Callable[..., Any] = with_options
        for name in reversed(list(fields)):
            flag, text = FLAGS[name]
            if _is_switch(name):
                flag = f"{flag}/--no-{flag[2:]}"
            decorated = click.option(flag, name, default=None, help=text)(decorated)
        decorated = click.option(
            "--options",
            "options_file",
            metavar="FILE",
            help="Options as JSON, by their names in PrecisionOptions; flags come on top.",
        )(decorated)
        otherwise = "" if default_mode is None else f" Default: {default_mode}."
        return click.option(
            "--mode",
            metavar="MODE",
            help=f"The precision mode, by its older or newer name.{otherwise}",
        )(decorated)

    return decorate


def _is_switch(name: str) -> bool:
    return _library.describe()["parameters"][name] == "b"


def _options(
    mode: str | None, options_file: str | None, fields: dict[str, Any]
) -> PrecisionOptions:
    if mode is None and options_file is None:
        modes = ", ".join(_library.describe()["modes"])
        raise click.UsageError(f"--mode is missing, expected one of {modes}; or --options FILE.")
    options = PrecisionOptions() if options_file is None else read_options(options_file)
    changes = {name: value for name, value in fields.items() if value is not None}
    if mode is not None:
        names = _library.describe()
        is_newer = mode in names["modes_v2"] and mode not in names["modes"]
        changes["precision_mode"] = None if is_newer else mode
        changes["precision_mode_v2"] = mode if is_newer else None
    return dataclasses.replace(options, **changes)


def read_options(file: str) -> PrecisionOptions:
    """The options in a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no options.
    """
    try:
        return PrecisionOptions.from_json(pathlib.Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def model_flags(*more: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds MODEL and what chooses a part of it; the command gets it as `model`.

    Args:
        *more: "signature", where only a part of a model may be meant.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_model(
            *arguments: Any,
            model: str,
            fetch: tuple[str, ...],
            tags: str | None,
            op_library: tuple[str, ...],
            signature: str | None = None,
            **given: Any,
        ) -> Any:
            for library in op_library:
                _load_ops(library)
            loaded = model_file.load_model(
                model,
                fetches=fetch,
                tags=None if tags is None else tags.split(","),
                signature=signature,
            )
            return command(*arguments, model=loaded, **given)

        decorated: Callable[..., Any] = with_model
        for name in ("op_library", *more, "tags", "fetch"):
            decorated = _MODEL_FLAGS[name](decorated)
        return click.argument("model")(decorated)

    return decorate


_MODEL_FLAGS = {
    "op_library": click.option(
        "--op-library",
        multiple=True,
        metavar="FILE",
        help="A library with ops of your own that the model uses; may be repeated.",
    ),
    "signature": click.option(
        "--signature",
        metavar="NAME",
        help="The signature of a SavedModel that is meant. Default: serving_default, if there.",
    ),
    "tags": click.option(
        "--tags",
        metavar="A,B",
        help="The tags of one graph of a SavedModel. Default: serve, of several.",
    ),
    "fetch": click.option(
        "--fetch",
        multiple=True,
        metavar="NAME",
        help="A node or tensor that is asked for; may be repeated. Default: what nobody reads.",
    ),
}


def _load_ops(library: str) -> None:
    try:
        tf.load_op_library(library)
    except (tf.errors.OpError, OSError) as error:
        raise click.BadParameter(f"{library!r} does not load: {error}.") from error


def console() -> rich.console.Console:
    """Prints to stdout; in a file or a pipe, tables are as wide as suits them."""
    out = rich.console.Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not sys.stdout.isatty() and "COLUMNS" not in out._environ:
        out.width = _WIDTH_OF_FILES
    return out


def busy(what: str) -> rich.status.Status:
    """On a terminal, shows that something is being done, while it is."""
    return rich.console.Console(stderr=True).status(f"{what} ...")


def say(out: rich.console.Console, line: str, style: str | None = None) -> None:
    """Prints a line as it is, however long."""
    out.print(line, style=style, soft_wrap=True)


def table(title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[Any]]) -> Any:
    """A table whose cells are shown as they are, never as markup.

    Args:
        title: what it is of.
        columns: the headings, each with whether its cells are numbers.
        rows: the cells.
    """
    result = rich.table.Table(
        title=rich.text.Text(title, style="bold"), title_justify="left", box=None, pad_edge=False
    )
    for heading, is_number in columns:
        result.add_column(
            rich.text.Text(heading),
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number,
        )
    for row in rows:
        result.add_row(*(rich.text.Text(str(cell)) for cell in row))
    return result

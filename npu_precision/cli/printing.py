"""Output of the subcommands: results go to stdout, progress to stderr."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import rich.console
import rich.progress
import rich.table
import rich.text

import npu_precision_command

PROGRAM = npu_precision_command.PROGRAM
# Lines are not wrapped in a file or a pipe, so that names can be searched for.
_NO_LIMIT = 1_000_000


def console() -> rich.console.Console:
    """A console that prints to stdout."""
    out = rich.console.Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        out.width = _NO_LIMIT
    return out


def show(out: rich.console.Console, renderable: Any) -> None:
    """Prints a table, without trailing blanks."""
    with out.capture() as captured:
        out.print(renderable)
    lines = captured.get().splitlines()
    out.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def busy(what: str) -> contextlib.AbstractContextManager[Any]:
    """Shows on a terminal that work is in progress."""
    on_stderr = rich.console.Console(stderr=True)
    if not on_stderr.is_terminal:
        return contextlib.nullcontext()
    return on_stderr.status(f"{what} ...")


def tracked(what: str, steps: Iterable[Any]) -> Iterable[Any]:
    """Shows a progress bar on a terminal while the steps are taken."""
    on_stderr = rich.console.Console(stderr=True)
    if not on_stderr.is_terminal:
        return steps
    return rich.progress.track(steps, description=what, console=on_stderr, transient=True)


@contextlib.contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on a terminal for an unknown number of steps.

    Yields a function to call with the number of steps taken and about how many are left.
    """
    on_stderr = rich.console.Console(stderr=True)
    if not on_stderr.is_terminal:
        yield lambda done, left: None
        return
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeRemainingColumn(),
    )
    with rich.progress.Progress(*columns, console=on_stderr, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def progress(done: int, left: int) -> None:
            bar.update(task, completed=done, total=done + left)

        yield progress


def say(out: rich.console.Console, line: str, style: str | None = None) -> None:
    """Prints a line unchanged, whatever its length."""
    out.print(line, style=style, soft_wrap=True)


def in_json(value: Any) -> Any:
    """A value for JSON. Infinity and NaN become text, which float() reads."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def table(title: str, columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[Any]]) -> Any:
    """A table whose cells are plain text, not markup.

    Args:
        title: the title.
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

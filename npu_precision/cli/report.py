"""npu-precision report: writes a page with a model's graph and the reason of each decision."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import click
import rich.console

from npu_precision import outputs
from npu_precision.cli import flags, heading, printing, run_flags
from npu_precision.explain import explanation, run_ledgers, tensorboard
from npu_precision.explain import report as reports
from npu_precision.explain.explanation import Explanation
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions


def _of_runs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Lets the command also read ledgers of a run, with which few flags are allowed."""

    @functools.wraps(command)
    def with_runs(*, model: str, output: str | None, force: bool, **given: Any) -> None:
        if not run_ledgers.is_run(model):
            command(model=model, output=output, force=force, **given)
            return
        run_flags.refuse_model_flags(model, given)
        if output is None:
            raise click.UsageError("expected --output.")
        outputs.check_apart([output], run_ledgers.files_of(model))
        reports.read_page()
        with outputs.new_file(output, force) as page, printing.busy("writing"):
            run, explained = run_ledgers.load_run(model)
            reports.write_report(page, run, explained)
        _show(run, explained, output)

    return with_runs


@click.command()
@_of_runs
@flags.model_flags("signature")
@flags.precision_flags(only=flags.WITHOUT_FILES)
@click.option("-o", "--output", metavar="FILE", help="The page to write, as report.html.")
@click.option(
    "--tensorboard",
    "tensorboard_folder",
    metavar="DIR",
    help="A folder for TensorBoard: its graph page shows decisions as devices.",
)
@flags.batch_size_flag
@click.option("--force", is_flag=True, help="Replace FILE and DIR if they exist.")
@flags.debug_flag
def report(
    model: Model,
    options: PrecisionOptions,
    output: str | None,
    tensorboard_folder: str | None,
    batch_size: int | None,
    force: bool,
) -> None:
    """Writes a page that shows MODEL's graph and what a precision mode makes of each node.

    The page is one HTML file. It shows the graph by scopes, before and after, with colours for
    decisions and with the Casts; the story of each node; and tables. MODEL may also be a ledger
    that a run has written into its report_dir, or that folder: then the page is of the graph in
    that run in which most was lowered.
    """
    if output is None and tensorboard_folder is None:
        raise click.UsageError("expected --output or --tensorboard.")
    outputs.check_apart((output, tensorboard_folder), flags.files_read(model, options))
    if output is not None:
        reports.read_page()  # Fails early if the page is missing.
    if batch_size is not None:
        model = model.with_batch_size(batch_size)
    with contextlib.ExitStack() as stack:
        page = stack.enter_context(outputs.optional_file(output, force))
        folder = None
        if tensorboard_folder is not None:
            made = outputs.new_folder(tensorboard_folder, force, (tensorboard.EVENTS,))
            folder = stack.enter_context(made)
        with printing.busy("deciding"):
            explained = explanation.explain(model, options)
        with printing.busy("writing"):
            if page is not None:
                reports.write_report(page, model, explained)
            if folder is not None:
                tensorboard.write_graph(folder, model, explained)
    out = _show(model, explained, output)
    if tensorboard_folder is not None:
        printing.say(out, f"{tensorboard_folder}: tensorboard --logdir {tensorboard_folder}")


def _show(model: Model, explained: Explanation, output: str | None) -> rich.console.Console:
    out = printing.console()
    heading.show(out, model, explained)
    heading.warnings(out, explained.warnings)
    if output is not None:
        printing.say(out, f"{output}: open it in a browser")
    return out

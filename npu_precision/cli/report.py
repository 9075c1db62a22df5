"""npu-precision report: a page that shows a model's graph, and why each node is as it is."""

from __future__ import annotations

import contextlib

import click

from npu_precision import outputs
from npu_precision.cli import flags, heading, printing
from npu_precision.explain import explanation, tensorboard
from npu_precision.explain import report as reports
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions


@click.command()
@flags.model_flags("signature")
@flags.precision_flags()
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
    decisions and with the Casts; the story of each node; and tables.
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
    out = printing.console()
    heading.show(out, model, explained)
    if output is not None:
        printing.say(out, f"{output}: open it in a browser")
    if tensorboard_folder is not None:
        printing.say(out, f"{tensorboard_folder}: tensorboard --logdir {tensorboard_folder}")

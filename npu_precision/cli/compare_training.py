"""npu-precision compare --training: compares a training in a precision mode with float32."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib
from typing import Any

import click
import numpy as np

from npu_precision import outputs
from npu_precision.accuracy.model_inputs import load_function
from npu_precision.cli import flags, plots, printing
from npu_precision.explain import report
from npu_precision.options import PrecisionOptions
from npu_precision.training import comparer, page
from npu_precision.training.compared import Compared
from npu_precision.training.state import RunStore

SCHEMA = "npu_precision.compare-training/1"


@click.command("compare")
@flags.training_flags
@flags.precision_flags()
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write the curves to a CSV file.")
@click.option("--plot", "plot_file", metavar="FILE", help="Draw the curves; needs matplotlib.")
@click.option("-o", "--output", metavar="FILE", help="The page to write, as page.html.")
@click.option("--force", is_flag=True, help="Replace these files if they exist.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def command(
    training: flags.Training,
    options: PrecisionOptions,
    top: int,
    csv_file: str | None,
    plot_file: str | None,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Trains in float32 and in a precision mode, with the same batches, seeds and initial weights.

    MODULE:FUNCTION takes a seed, and returns (model, batches) of a compiled Keras model, or (step,
    variables, batches), where step(*batch) returns the loss, or the loss and the gradients. The
    yardstick is how much the curves of float32 differ between seeds: a smaller difference is noise.
    """
    files = (csv_file, plot_file, output, training.state)
    outputs.check_apart(files, flags.option_files(options))
    if plot_file is not None:
        plots.check(plot_file)
    if output is not None:
        report.read_page()  # Fails early if the page is missing.
    with contextlib.ExitStack() as stack:
        csv_path, plot_path, page_path = (
            stack.enter_context(outputs.optional_file(each, force))
            for each in (csv_file, plot_file, output)
        )
        compared = comparer_of(training).compare(options)
        if csv_path is not None:
            _write_csv(csv_path, compared)
        if plot_path is not None:
            plots.training(plot_path, compared)
        if page_path is not None:
            page.write(page_path, f"{training.name}: {_named(options)}", compared)
    if as_json:
        click.echo(json.dumps(_data(training, options, compared), indent=1))
        return
    out = printing.console()
    seeds = f"{len(compared.others)} other seeds"
    printing.say(out, f"{training.name}: {len(compared.exact.losses)} steps, {seeds}")
    printing.say(out, _named(options))
    for text in page.findings(compared):
        printing.say(out, text)
    last = [each.losses[-1] for each in (compared.exact, compared.mode)]
    printing.say(out, f"last loss: {last[0]:.4g} in float32, {last[1]:.4g} in the mode")
    rows = [
        (
            row.name,
            row.op,
            "" if row.first_step is None else row.first_step,
            page.shown(row.ratio),
            page.shown(row.distance),
        )
        for row in compared.rows[:top]
    ]
    columns = [(heading, number > 1) for number, heading in enumerate(page.HEADINGS)]
    printing.show(out, printing.table("Gradients, those first that differ first", columns, rows))
    if output is not None:
        printing.say(out, f"{output}: open it in a browser")


def comparer_of(training: flags.Training) -> comparer.Comparer:
    """Makes the runs in float32, or takes them from the state.

    Raises:
        ValueError: the function does not build what it should, or float32 differs from itself.
        OSError: the state cannot be read or written.
    """
    function = load_function(training.name)
    store = None
    if training.state is not None:
        about = comparer.about(training.name, function, training.steps, training.seed)
        store = RunStore(pathlib.Path(training.state), about)
    with printing.counted("training") as progress:
        return comparer.Comparer(
            training.name,
            function,
            training.steps,
            training.seed,
            training.other_seeds,
            store,
            lambda what, step: progress(step + 1, training.steps - step - 1),
        )


def _named(options: PrecisionOptions) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.to_dict().items())


def _write_csv(path: pathlib.Path, compared: Compared) -> None:
    columns = {
        "step": np.arange(len(compared.exact.losses)),
        "loss_float32": compared.exact.losses,
        "loss_mode": compared.mode.losses,
        "difference": compared.difference,
        "yardstick": compared.yardstick,
    }
    for index, name in enumerate(compared.exact.names[: compared.exact.norms.shape[1]]):
        columns[f"norm_float32 {name}"] = compared.exact.norms[:, index]
        columns[f"norm_mode {name}"] = compared.mode.norms[:, index]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values())))


def _data(
    training: flags.Training, options: PrecisionOptions, compared: Compared
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "training": training.name,
        "options": options.to_dict(),
        "steps": len(compared.exact.losses),
        "within": compared.is_within,
        "ratio": printing.in_json(compared.ratio),
        "first_step": compared.first_step,
        "first_not_finite": compared.first_bad,
        "losses": {
            "float32": [printing.in_json(each) for each in compared.exact.losses.tolist()],
            "mode": [printing.in_json(each) for each in compared.mode.losses.tolist()],
        },
        "variables": [
            {name: printing.in_json(value) for name, value in row._asdict().items()}
            for row in compared.rows
        ],
    }

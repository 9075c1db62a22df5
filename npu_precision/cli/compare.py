"""npu-precision compare: measures the error of another precision, and where it enters."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import click
import rich.console
import rich.progress
from tensorflow.core.protobuf import meta_graph_pb2

from npu_precision import outputs
from npu_precision.accuracy import comparison, frozen, other_names
from npu_precision.accuracy.comparison import Comparison, Row
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.tensor_stats import TensorStats
from npu_precision.cli import alternatives, compare_training, flags, heading, plots, printing
from npu_precision.explain import explanation
from npu_precision.explain import report as reports
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions

SCHEMA = "npu_precision.compare/1"
# The most tensors out of loops and functions to name.
_MOST_NAMED = 5
# The values of a row, by column of the CSV file and key of the JSON.
_COLUMNS = (
    "tensor",
    "op",
    "decision",
    "output",
    "error",
    "entered",
    "max_abs",
    "max_rel",
    "cosine",
    "outside",
    "bad",
    "bad_reference",
    "new_bad",
    "misshapen",
)


@click.command(cls=alternatives.OrTraining, training=compare_training.command)
@flags.model_flags("signature")
# Its two graphs differ in dtypes alone, so that their tensors have counterparts.
@flags.precision_flags(only=[name for name in flags.OF_FROZEN if name != "rewrites"])
@flags.input_flags
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The number of tensors in the table.",
)
@click.option("--csv", "csv_file", metavar="FILE", help="Write all tensors to a CSV file.")
@click.option("--plot", "plot_file", metavar="FILE", help="Draw the errors; needs matplotlib.")
@click.option(
    "--report", "report_file", metavar="FILE", help="Write the page of `report`, with the errors."
)
@click.option("--force", is_flag=True, help="Replace these files if they exist.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--training",
    metavar="MODULE:FUNCTION",
    help="Compare a training, without MODEL: --training x --help says how.",
)
@flags.debug_flag
def compare(
    model: Model,
    options: PrecisionOptions,
    inputs: flags.Inputs,
    top: int,
    csv_file: str | None,
    plot_file: str | None,
    report_file: str | None,
    force: bool,
    as_json: bool,
    training: None,
) -> None:
    """Runs MODEL in float32 and in a precision mode, on the same inputs, and compares all tensors.

    Tensors are ranked by the error that enters at them: the difference to the value that float32
    computes from the same inputs. With --emulate, values are rounded as on a device that has
    kernels of the low type; this machine need not have them.
    """
    outputs.check_apart(
        (csv_file, plot_file, report_file), flags.files_read(model, options, inputs)
    )
    if report_file is not None:
        reports.read_page()  # Fails early if the page is missing.
    if plot_file is not None:
        plots.check(plot_file)
    with contextlib.ExitStack() as stack:
        csv_path = stack.enter_context(outputs.optional_file(csv_file, force))
        plot_path = stack.enter_context(outputs.optional_file(plot_file, force))
        page = stack.enter_context(outputs.optional_file(report_file, force))
        compared, flat = _run(model, options, inputs)
        if csv_path is not None:
            _write_csv(csv_path, compared)
        if plot_path is not None:
            plots.comparison(plot_path, compared)
        if page is not None:
            _write_page(page, model, flat, options, compared)
    if as_json:
        click.echo(json.dumps(_data(model, options, compared), indent=1))
        return
    out = printing.console()
    printing.say(
        out, f"{model.path}: {model.shown_kind}, {_count(compared.batches, 'batch', 'es')}"
    )
    printing.say(out, ", ".join(f"{name} {value}" for name, value in options.to_dict().items()))
    printing.say(out, f"{explanation.FROZEN}: {compared.ledger.counts.sentence}")
    heading.left_out(out, flat.left_out)
    _print(out, compared, top)
    heading.warnings(out, compared.ledger.all_warnings)
    if options.modify_mixlist is not None:
        _, ledger = model.rewrite(options)
        heading.warnings(out, other_names.other_names(ledger, compared.ledger, flat))


def _run(
    model: Model, options: PrecisionOptions, inputs: flags.Inputs
) -> tuple[Comparison, FrozenModel]:
    with printing.busy("freezing"):
        flat = frozen.freeze(model)
    batches = inputs.read(flat)
    with printing.busy("building the graph of both"):
        comparer = comparison.Comparer(flat, options)
    return comparer.run(printing.tracked("running", batches)), flat


def _write_page(
    page: pathlib.Path,
    model: Model,
    flat: FrozenModel,
    options: PrecisionOptions,
    compared: Comparison,
) -> None:
    """Writes the page of the compared graph: the frozen graph, with its changed dtypes."""
    shown = dataclasses.replace(
        model,
        meta_graph=meta_graph_pb2.MetaGraphDef(graph_def=flat.graph_def),
        fetches=flat.outputs,
        roots=flat.outputs,
    )
    dtypes_only = dataclasses.replace(options, **comparison.DTYPES_ONLY)
    explained = explanation.explain(shown, dtypes_only)
    entered: dict[str, float] = {}
    for row in compared.rows:
        if row.entered is not None and row.node is not None:
            error = max(row.entered.error, entered.get(row.node.name, 0.0))
            entered[row.node.name] = error
    given = dataclasses.replace(explained, options=options, counted=explanation.FROZEN)
    reports.write_report(page, shown, given, entered=entered)


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def _print(out: rich.console.Console, compared: Comparison, top: int) -> None:
    for row in compared.outputs():
        printing.say(
            out,
            f"output {row.output}: error {_number(row.stats.error)}, "
            f"max abs {_number(row.stats.max_abs)}, 1 - cosine {_far(row.stats)}",
        )
    bad = compared.first_bad()
    if bad is not None:
        op = "" if bad.node is None else f" ({bad.node.op}, {bad.node.decision})"
        printing.say(
            out,
            f"first NaN or infinity: {bad.tensor}{op}, {int(bad.stats.new_bad)} of "
            f"{int(bad.stats.elements)} elements",
        )
    if compared.saturated:
        most = sorted(compared.saturated.items(), key=lambda entry: -entry[1])
        first = [f"{tensor} {_count(count, 'value')}" for tensor, count in most[:_MOST_NAMED]]
        more = f" and {len(most) - len(first)} more" if len(most) > len(first) else ""
        printing.say(out, f"became 65504, as they did not fit: {', '.join(first)}{more}")
    hidden = sorted(
        (row for row in compared.rows if row.tensor in compared.unmeasured and row.stats.error),
        key=lambda row: -row.stats.error,
    )
    if hidden:
        first = [f"{row.tensor} {_number(row.stats.error)}" for row in hidden[:_MOST_NAMED]]
        more = f" and {len(hidden) - len(first)} more" if len(hidden) > len(first) else ""
        printing.say(
            out,
            f"from loops or functions, which are not looked into: error {', '.join(first)}{more}",
        )
    ranked = [row for row in compared.ranked() if row.entered and row.entered.error][:top]
    if not ranked:
        printing.say(out, f"no error enters at any {'other ' if hidden else ''}tensor")
        return
    out.print()
    printing.show(
        out,
        printing.table(
            "Where error enters",
            [
                ("tensor", False),
                ("op type", False),
                *(
                    (heading, True)
                    for heading in (
                        "enters",
                        "error",
                        "max abs",
                        "max rel",
                        "1 - cosine",
                        "outside",
                        "NaN/Inf",
                    )
                ),
            ],
            [_cells(row) for row in ranked],
        ),
    )


def _cells(row: Row) -> Iterable[str]:
    stats = row.stats
    return (
        row.tensor,
        "" if row.node is None else row.node.op,
        _number(row.entered.error if row.entered else 0.0),
        _number(stats.error),
        _number(stats.max_abs),
        _number(stats.max_rel),
        _far(stats),
        f"{stats.outside:.1%}",
        "shape" if stats.misshapen else str(int(stats.new_bad)),
    )


def _far(stats: TensorStats) -> str:
    return _number(max(1 - stats.cosine, 0.0))  # The order of the arguments keeps NaN.


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "0" if value == 0 else f"{value:.1e}"


def _fields(row: Row) -> dict[str, Any]:
    stats: TensorStats = row.stats
    return {
        "tensor": row.tensor,
        "op": "" if row.node is None else row.node.op,
        "decision": "" if row.node is None else row.node.decision,
        "output": row.output,
        "error": stats.error,
        "entered": None if row.entered is None else row.entered.error,
        "max_abs": stats.max_abs,
        "max_rel": stats.max_rel,
        "cosine": stats.cosine,
        "outside": stats.outside,
        "bad": int(stats.bad),
        "bad_reference": int(stats.bad_reference),
        "new_bad": int(stats.new_bad),
        "misshapen": bool(stats.misshapen),
    }


def _write_csv(path: pathlib.Path, compared: Comparison) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        for row in compared.rows:
            writer.writerow(_fields(row))


def _data(model: Model, options: PrecisionOptions, compared: Comparison) -> dict[str, Any]:
    bad = compared.first_bad()
    return {
        "schema": SCHEMA,
        "model": model.path,
        "options": options.to_dict(),
        "batches": compared.batches,
        "counted": explanation.FROZEN,
        "totals": compared.ledger.counts.totals,
        "error": printing.in_json(compared.error()),
        "first_bad": None if bad is None else bad.tensor,
        "saturated": compared.saturated,
        "tensors": [
            {name: printing.in_json(value) for name, value in _fields(row).items()}
            for row in compared.rows
        ],
        "unmeasured": [row.tensor for row in compared.rows if row.tensor in compared.unmeasured],
        "ranked": [row.tensor for row in compared.ranked()],
    }

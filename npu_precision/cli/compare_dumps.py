"""npu-precision compare-dumps: compares the tensors that two runs wrote."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from npu_precision import outputs
from npu_precision.cli import dump_graph, flags, printing
from npu_precision.dumps import comparison, folders, page
from npu_precision.dumps.comparison import Comparison, Row
from npu_precision.explain import report
from npu_precision.explain.explanation import Explanation
from npu_precision.offline.model_file import Model

SCHEMA = "npu_precision.compare_dumps/1"
_MOST_ROWS = 20


@click.command("compare-dumps")
@click.argument("first")
@click.argument("second")
@click.option("--step", type=click.IntRange(0), metavar="N", help="The step to compare.")
@click.option(
    "--model",
    metavar="MODEL",
    help="The model, or a ledger of the run, for its names and what each op reads.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0.0, min_open=True),
    metavar="ERROR",
    help="The error above which a tensor diverges; 8 units of the lowest type by default.",
)
@click.option("--mixlist", metavar="FILE", help="Write the mixlist that keeps what diverges.")
@click.option("-o", "--output", metavar="FILE", help="The page to write, as page.html.")
@click.option(
    "--graph",
    "graph_page",
    metavar="FILE",
    help="Write the graph's report, with errors at its nodes: of --model, or of the graph that "
    "DumpConfig wrote.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def compare_dumps(
    first: str,
    second: str,
    step: int | None,
    model: str | None,
    threshold: float | None,
    mixlist: str | None,
    output: str | None,
    graph_page: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Shows where two runs diverge, by the tensors that they wrote.

    FIRST is the folder of the run in question, SECOND that of the run that is right: dumps that an
    NPU wrote (converted by msaccucmp.py), that a session wrote here by DumpConfig, or the log of a
    FlightRecorder with statistics. Ops are matched by name, also where one run fused them.
    """
    if threshold is not None and not math.isfinite(threshold):
        raise click.UsageError(f"--threshold: got {threshold}, expected a number above 0.")
    outputs.check_apart((mixlist, output, graph_page), (first, second, model))
    if output is not None or graph_page is not None:
        report.read_page()  # Fails early if the page is missing.
    with outputs.optional_file(output, force) as page_file, outputs.optional_file(
        graph_page, force
    ) as graph_file:
        with outputs.optional_file(mixlist, force, required=False) as mixlist_file, printing.busy(
            "comparing"
        ):
            given, explained = (None, None) if model is None else dump_graph.load(model)
            one, other = folders.read_pair(first, second, step)
            graph = None if given is None else given.meta_graph.graph_def
            compared = comparison.compare(one, other, graph, threshold)
            text = compared.mixlist()
            if mixlist_file is not None and text:
                mixlist_file.write_text(text + "\n", encoding="utf-8")
        if page_file is not None:
            page.write(page_file, f"{first} and {second}", compared)
        if graph_file is not None:
            if given is None:
                given, explained = _that_ran(one, other)
            dump_graph.write(graph_file, given, explained, compared)
    if as_json:
        click.echo(json.dumps(_data(one, other, compared), indent=1))
        return
    out = printing.console()
    printing.say(out, f"{one} and {other}")
    for finding in page.findings(compared):
        printing.say(out, finding)
    ranked = compared.ranked()
    if ranked:
        shown = ranked[:_MOST_ROWS]
        most = "" if len(shown) == len(ranked) else f", the first {len(shown)} of {len(ranked)}"
        columns = [(heading, place > 2) for place, heading in enumerate(page.HEADINGS)]
        rows = [tuple(page.row_texts(row)) for row in shown]
        printing.show(out, printing.table(f"Where error enters{most}", columns, rows))
    printing.say(out, f"next: {page.next_step(compared)}")
    if mixlist is not None:
        printing.say(out, f"wrote {mixlist}" if text else f"{mixlist}: not written")
    elif text:
        printing.say(out, text)
    for written in (output, graph_page):
        if written is not None:
            printing.say(out, f"{written}: open it in a browser")


def _that_ran(one: folders.Dump, other: folders.Dump) -> tuple[Model, Explanation]:
    for dump in (one, other):
        graph = dump.graph()
        if graph is not None:
            return dump_graph.of_dump(str(dump), graph)
    raise click.UsageError("--graph: the dumps have no graph, expected --model.")


def _data(one: folders.Dump, other: folders.Dump, compared: Comparison) -> dict[str, Any]:
    first = compared.first_divergence()
    return {
        "schema": SCHEMA,
        "first": str(one),
        "second": str(other),
        "threshold": compared.threshold,
        "reads_known_by": compared.known,
        "first_divergence": None if first is None else _row(first),
        "ranked": [_row(row) for row in compared.ranked()],
        "tensors": [_row(row) for row in compared.rows],
        "only_first": compared.matches.only_first,
        "only_second": compared.matches.only_second,
        "not_compared": dict(compared.skipped),
        "mixlist": json.loads(compared.mixlist()) if compared.mixlist() else None,
    }


def _row(row: Row) -> dict[str, Any]:
    difference = row.difference
    numbers = {
        "error": difference.error,
        "cosine": difference.cosine,
        "largest": difference.largest,
        "not_finite": difference.not_finite,
        "read": row.given,
    }
    return {
        "tensor": row.tensor,
        "op": row.op,
        "run": row.run,
        "position": row.position,
        "dtype": difference.dtype,
        # JSON has no infinity.
        **{name: _finite(value) for name, value in numbers.items()},
        "by_statistics": difference.by_statistics,
        "diverges": row.diverges,
    }


def _finite(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)

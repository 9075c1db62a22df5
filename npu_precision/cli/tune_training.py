"""npu-precision tune --training: finds the mixlist with which a training matches float32."""

from __future__ import annotations

import json

import click

from npu_precision import outputs
from npu_precision.cli import flags, printing
from npu_precision.cli.compare_training import comparer_of
from npu_precision.options import PrecisionOptions
from npu_precision.training import page, tuner

SCHEMA = "npu_precision.tune-training/1"


@click.command("tune")
@flags.training_flags
@flags.precision_flags(
    only=[name for name in flags.FLAGS if name not in ("mixlist_edits", "report_dir")],
    default_mode="allow_mix_precision",
)
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="The number of sets of nodes that the search tries before it writes the best.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The mixlist to write.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def command(
    training: flags.Training,
    options: PrecisionOptions,
    max_runs: int,
    output: str,
    force: bool,
    as_json: bool,
) -> None:
    """Finds the nodes that a training has to keep in float32.

    With the mixlist, the loss differs from that of float32 by no more than seeds do, as compare
    --training measures it. --state keeps the runs, so that none is repeated.
    """
    outputs.check_apart((output, training.state), flags.option_files(options))
    with outputs.new_file(output, force) as file:
        comparer = comparer_of(training)
        with printing.counted("trying mixlists") as progress:
            tuned = tuner.tune(comparer, options, max_runs, progress)
        file.write_text(tuned.mixlist, encoding="utf-8")
    if as_json:
        data = {
            "schema": SCHEMA,
            "training": training.name,
            "options": options.to_dict(),
            "kept": tuned.kept,
            "lowered": tuned.lowered - len(tuned.kept),
            "runs": tuned.runs,
            "complete": tuned.is_complete,
            "ratio": printing.in_json(tuned.compared.ratio),
            "mixlist": output,
        }
        click.echo(json.dumps(data, indent=1))
        return
    out = printing.console()
    printing.say(out, f"{training.name}: mixlists tried: {tuned.runs}")
    printing.say(out, ", ".join(f"{name} {value}" for name, value in options.to_dict().items()))
    for text in page.findings(tuned.compared)[:1]:
        printing.say(out, text)
    fewer = "" if tuned.is_complete else "; --max-runs ended the search, fewer may be enough"
    printing.say(out, f"kept {len(tuned.kept)} of {tuned.lowered} nodes in float32{fewer}")
    for name in tuned.kept:
        printing.say(out, f"  {name}")
    printing.say(out, f"{output}: to be used as modify_mixlist, with the same mode")

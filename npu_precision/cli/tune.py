"""npu-precision tune: finds the mixlist that keeps a model accurate enough."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import click
import rich.console

from npu_precision import outputs
from npu_precision.accuracy import frozen
from npu_precision.cli import flags, plots, printing
from npu_precision.explain import explanation
from npu_precision.explain import report as reports
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import objective as objectives
from npu_precision.tuning.objective import MaxError, Metric
from npu_precision.tuning.state import State, fingerprint
from npu_precision.tuning.trials import Trial, Trials
from npu_precision.tuning.tuner import NothingFoundError, Tuned, Tuner

SCHEMA = "npu_precision.tune/1"
# The file beside the mixlist that holds the state of an unfinished search has this suffix.
_STATE = ".state"


@click.command(short_help="Finds the mixlist that keeps a model accurate.")
@flags.model_flags("signature")
@flags.precision_flags(
    only=[name for name in flags.FLAGS if name != "mixlist_edits"],
    default_mode="allow_mix_precision",
)
@flags.input_flags
@click.option("--max-error", type=float, help="The largest error that an output may have.")
@click.option(
    "--metric",
    metavar="MODULE:FUNCTION",
    help="A function of a list of (inputs, outputs), a pair for each batch, that returns a number.",
)
@click.option("--budget", type=float, help="How much worse than float32's the metric may be.")
@click.option("--smaller-is-better", is_flag=True, help="The metric is like a loss.")
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="How many sets of nodes the search tries; then the best that was found is written.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The mixlist to write.")
@click.option("--plot", "plot_file", metavar="FILE", help="Draw the curve; needs matplotlib.")
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    help="Write a report (see npu-precision report --help) of what was found, with the curve.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted search.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace these files if they exist; without --resume, start over.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def tune(
    model: Model,
    options: PrecisionOptions,
    inputs: flags.Inputs,
    max_error: float | None,
    metric: str | None,
    budget: float | None,
    smaller_is_better: bool,
    max_runs: int,
    output: str,
    plot_file: str | None,
    report_file: str | None,
    resume: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Finds a mixlist for MODEL: what to keep in float32 so that it stays accurate enough.

    The mixlist is written to the file given by -o. Until it is found, the trials are kept in a file
    beside it, and --resume continues from there.
    """
    objective = _objective(max_error, metric, budget, smaller_is_better)
    read = flags.files_read(model, options, inputs)
    outputs.check_apart((output, output + _STATE, plot_file, report_file), read)
    if plot_file is not None:
        plots.check(plot_file)
    if report_file is not None:
        reports.read_page()  # Fails early if the page is missing.
    with contextlib.ExitStack() as stack:
        plot_path = stack.enter_context(outputs.optional_file(plot_file, force))
        report_path = stack.enter_context(outputs.optional_file(report_file, force))
        # The result replaces the state of the unfinished search.
        with outputs.new_file(output, force or resume) as mixlist_path:
            state_path = pathlib.Path(output + _STATE)
            _check_state(state_path, resume, force)
            tuned = _run(
                model,
                options,
                inputs,
                objective,
                max_runs,
                state_path,
                resume,
                draws_curve=plot_file is not None or report_file is not None,
            )
            mixlist_path.write_text(tuned.mixlist, encoding="utf-8")
        if plot_path is not None:
            plots.curve(plot_path, tuned, objective)
        if report_path is not None:
            explained = explanation.explain(model, _used(tuned, output))
            reports.write_report(report_path, model, explained, _curve(tuned))
    if tuned.is_complete and state_path.exists():
        state_path.unlink()
    if as_json:
        click.echo(json.dumps(_data(model, options, objective, tuned), indent=1))
        return
    out = printing.console()
    printing.say(out, f"{model.path}: {model.kind}")
    printing.say(out, ", ".join(f"{name} {value}" for name, value in options.to_dict().items()))
    _print(out, objective, tuned, output)


def _used(tuned: Tuned, output: str) -> PrecisionOptions:
    """The options for using the mixlist file, without those that were only for measuring."""
    return dataclasses.replace(
        tuned.options, mixlist_edits=None, modify_mixlist=output, emulate=None
    )


def _curve(tuned: Tuned) -> list[dict[str, Any]]:
    """The trials as points of the report's curve; for each share, the one of least error."""
    best: dict[float, tuple[int, Trial]] = {}
    for kept, trial in sorted(tuned.trials, key=lambda item: -item[1].error):
        best[tuned.share(trial)] = (kept, trial)
    best[tuned.share(tuned.found)] = (len(tuned.kept), tuned.found)
    return [
        {
            "share": share,
            "error": trial.error if math.isfinite(trial.error) else None,
            "label": f"{kept} kept",
            "good": trial.is_good,
            "chosen": trial is tuned.found,
        }
        for share, (kept, trial) in best.items()
    ]


def _objective(
    max_error: float | None, metric: str | None, budget: float | None, smaller_is_better: bool
) -> MaxError | Metric:
    if (max_error is None) == (metric is None):
        got = "neither" if metric is None else "both"
        raise click.UsageError(f"got {got}, expected one of --max-error and --metric.")
    if max_error is not None:
        if budget is not None or smaller_is_better:
            raise click.UsageError("--budget and --smaller-is-better go with --metric.")
        return MaxError(objectives.check(max_error, "--max-error"))
    assert metric is not None
    if budget is None:
        raise click.UsageError("--metric needs --budget.")
    return Metric(metric, objectives.check(budget, "--budget"), smaller_is_better)


def _check_state(path: pathlib.Path, resume: bool, force: bool) -> None:
    if resume and not path.exists():
        raise ValueError(f"there is nothing to resume: {str(path)!r} does not exist")
    if path.exists() and not resume and not force:
        raise FileExistsError(
            f"{str(path)!r} is of a search that was not finished: --resume goes on with it, "
            "--force begins anew"
        )


def _run(
    model: Model,
    options: PrecisionOptions,
    inputs: flags.Inputs,
    objective: MaxError | Metric,
    max_runs: int,
    state_path: pathlib.Path,
    resume: bool,
    draws_curve: bool,
) -> Tuned:
    with printing.busy("freezing"):
        flat = frozen.freeze(model)
    batches = list(inputs.read(flat))
    state = State(state_path, fingerprint(flat, options, batches, str(objective)))
    if resume:
        state.load()
    with printing.busy("running float32"):
        trials = Trials(flat, batches, objective)
    has_functions = bool(model.meta_graph.graph_def.library.function)
    with _says_how_to_resume(state_path), printing.counted("trying mixlists") as progress:
        tuner = Tuner(flat, options, trials, state, progress)
        try:
            return tuner.run(batches, max_runs, has_functions, draws_curve)
        except NothingFoundError:  # The search cannot go on.
            if state_path.exists():
                state_path.unlink()
            raise


@contextlib.contextmanager
def _says_how_to_resume(state_path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if state_path.exists():
            click.echo(
                f"{printing.PROGRAM}: what was tried is in {str(state_path)!r}; --resume goes on",
                err=True,
            )
        raise


def _print(
    out: rich.console.Console, objective: MaxError | Metric, tuned: Tuned, output: str
) -> None:
    printing.say(out, f"wanted: {objective}")
    if tuned.reference is not None:
        printing.say(out, f"float32: metric {tuned.reference:g}")
    printing.say(out, f"as given: {_described(tuned.start)}")
    if not tuned.kept:
        printing.say(out, "nothing has to be kept for it")
    else:
        own = sum(len(each.flat) for each in tuned.kept)
        behind = max(tuned.start.lowered - tuned.found.lowered - own, 0)
        out.print()
        printing.show(
            out,
            printing.table(
                f"Kept in float32: {own} of {tuned.start.lowered} lowered nodes"
                f"{f', and {behind} that follow them' if behind else ''}",
                [("node", False), ("op type", False), ("what speaks against lowering it", False)],
                [(each.node, each.op, "; ".join(each.why)) for each in tuned.kept],
            ),
        )
        out.print()
        printing.say(
            out, f"with the mixlist: {_described(tuned.found)}, after {len(tuned.trials)} trials"
        )
    if not tuned.is_complete:
        printing.say(
            out,
            "--max-runs ended the search: some of these may not have to be kept; --resume with "
            "more goes on",
        )
    entries = "entry" if len(tuned.entries) == 1 else "entries"
    used = ", ".join(f"{name} {value}" for name, value in _used(tuned, output).to_dict().items())
    printing.say(out, f"{output}: {len(tuned.entries)} {entries} added to black-list")
    printing.say(out, f"to be used with {used}")


def _described(trial: Trial) -> str:
    measured = "" if trial.metric is None else f", metric {trial.metric:g}"
    error = "" if math.isnan(trial.error) else f", error {trial.error:.1e}"
    return f"lowered {trial.lowered} of {trial.float_nodes} float nodes{error}{measured}"


def _data(
    model: Model, options: PrecisionOptions, objective: MaxError | Metric, tuned: Tuned
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "model": model.path,
        "options": options.to_dict(),
        "objective": str(objective),
        "reference": {"metric": tuned.reference},
        "start": _trial(tuned, tuned.start),
        "found": _trial(tuned, tuned.found),
        "complete": tuned.is_complete,
        "kept": [
            {
                "node": each.node,
                "op": each.op,
                "risk": printing.in_json(each.risk),
                "why": each.why,
            }
            for each in tuned.kept
        ],
        "entries": tuned.entries,
        "trials": [{"kept": kept, **_trial(tuned, trial)} for kept, trial in tuned.trials],
    }


def _trial(tuned: Tuned, trial: Trial) -> dict[str, Any]:
    return {
        "lowered": trial.lowered,
        "float_nodes": trial.float_nodes,
        "share": tuned.share(trial),
        "error": printing.in_json(trial.error),
        "metric": printing.in_json(trial.metric),
        "good": trial.is_good,
    }

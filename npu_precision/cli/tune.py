"""npu-precision tune: finds the mixlist that keeps a model accurate enough."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import click

import npu_precision_command
from npu_precision import outputs
from npu_precision.accuracy import frozen
from npu_precision.accuracy.frozen import FrozenModel
from npu_precision.accuracy.verification import RandomOutputsError
from npu_precision.cli import (
    alternatives,
    flags,
    plots,
    printing,
    tune_result,
    tune_times,
    tune_training,
)
from npu_precision.cli.float32_nodes_flags import Float32Nodes, list_flags
from npu_precision.explain import explanation
from npu_precision.explain import report as reports
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import custom_dtypes, step_time
from npu_precision.tuning import held_out as held_out_inputs
from npu_precision.tuning import objective as objectives
from npu_precision.tuning.conversion import Conversions
from npu_precision.tuning.held_out import Split
from npu_precision.tuning.objective import MaxError, Metric, Objective
from npu_precision.tuning.state import State, fingerprint
from npu_precision.tuning.trials import Trials
from npu_precision.tuning.tuned import Tuned
from npu_precision.tuning.tuner import NothingFoundError, Tuner

# The file beside the mixlist that holds the state of an unfinished search has this suffix.
_STATE = ".state"
_ROUNDS = 20


@click.command(cls=alternatives.OrTraining, training=tune_training.command)
@flags.model_flags("signature")
@flags.precision_flags(
    only=[name for name in flags.OF_FROZEN if name != "mixlist_edits"],
    default_mode="allow_mix_precision",
)
@flags.input_flags
@click.option("--max-error", type=float, help="The largest error allowed in an output.")
@click.option(
    "--metric",
    metavar="MODULE:FUNCTION",
    help="A function of a list of (inputs, outputs), a pair for each batch, that returns a number.",
)
@click.option("--budget", type=float, help="How much worse than with float32 the metric may be.")
@click.option("--smaller-is-better", is_flag=True, help="A smaller metric is better, as of a loss.")
@click.option(
    "--objective",
    "aim",
    metavar="error|time|pareto",
    default="error",
    show_default=True,
    help="Within the limit: keep the fewest nodes; be fastest here; or also print the front.",
)
@click.option(
    "--time-rounds",
    type=click.IntRange(min=5),
    help=f"With time or pareto: the number of measurements per step.  [default: {_ROUNDS}]",
)
@click.option(
    "--margin",
    type=float,
    default=0.1,
    show_default=True,
    metavar="SHARE",
    help="The share of the limit that the search leaves free, for other inputs.",
)
@click.option(
    "--held-out",
    type=float,
    default=0.25,
    show_default=True,
    metavar="SHARE",
    help="The share of the inputs that the search does not see; they check its result.",
)
@click.option(
    "--max-runs",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="The number of sets of nodes that the search tries before it writes the best.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="The mixlist to write.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["modify_mixlist", "customize_dtypes"]),
    default="modify_mixlist",
    show_default=True,
    help="The format of FILE. customize_dtypes has a line for each node.",
)
@click.option(
    "--plot",
    "plot_file",
    metavar="FILE",
    help="Draw the curve, or the measured times; needs matplotlib.",
)
@click.option(
    "--report",
    "report_file",
    metavar="FILE",
    help="Write a report of the result with the curve, as npu-precision report does.",
)
@list_flags
@click.option("--resume", is_flag=True, help="Continue an interrupted search.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace these files if they exist; without --resume, start over.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option(
    "--training",
    metavar="MODULE:FUNCTION",
    help="Tune a training, without MODEL: --training x --help says how.",
)
@flags.debug_flag
def tune(
    model: Model,
    options: PrecisionOptions,
    inputs: flags.Inputs,
    max_error: float | None,
    metric: str | None,
    budget: float | None,
    smaller_is_better: bool,
    aim: str,
    time_rounds: int | None,
    margin: float,
    held_out: float,
    max_runs: int,
    output: str,
    kind: str,
    plot_file: str | None,
    report_file: str | None,
    wanted: Float32Nodes,
    resume: bool,
    force: bool,
    as_json: bool,
    training: None,
) -> int:
    """Finds a mixlist for MODEL: the nodes to keep in float32 so that it stays accurate enough.

    With it, no tensor gets a NaN or an infinity that it does not have in float32, and none becomes
    all zero. -o names the file to write. A file beside it keeps the trials until the search ends,
    and --resume continues from there. If the mixlist is not good enough for the held-out inputs,
    it is not written, and the exit status is 1.
    """
    objective = _objective(max_error, metric, budget, smaller_is_better, margin)
    objectives.check_aim(aim)
    if aim == "error" and time_rounds is not None:
        raise click.UsageError("--time-rounds goes with --objective time or pareto.")
    objectives.check_share(held_out, "--held-out")
    read = flags.files_read(model, options, inputs)
    outputs.check_apart((output, output + _STATE, plot_file, report_file, wanted.file), read)
    if plot_file is not None:
        plots.check(plot_file)
    if report_file is not None:
        reports.read_page()  # Fails early if the page is missing.
    wanted.check_alone({})
    if wanted.file is not None:
        with printing.busy("deciding"):
            wanted.of_model(model, options)  # Fails early too.
    used, listed = options, None
    with contextlib.suppress(_NotAcceptedError), contextlib.ExitStack() as stack:
        plot_path = stack.enter_context(outputs.optional_file(plot_file, force, required=False))
        report_path = stack.enter_context(outputs.optional_file(report_file, force))
        list_path = stack.enter_context(outputs.optional_file(wanted.file, force))
        # The result replaces the state of the unfinished search.
        with outputs.new_file(output, force or resume) as mixlist_path:
            state_path = pathlib.Path(output + _STATE)
            _check_state(state_path, resume, force)
            search = _Search(
                objective=objective,
                aim=aim,
                held_out=held_out,
                max_runs=max_runs,
                rounds=time_rounds or _ROUNDS,
                draws_curve=plot_file is not None or report_file is not None,
                kind=kind,
            )
            state_file = _StateFile(state_path, resume)
            flat, split, tuned = search.run(model, options, inputs, state_file)
            if not tuned.is_accepted:
                raise _NotAcceptedError  # No output is left behind.
            content = tuned.mixlist
            if kind == "customize_dtypes":
                content = custom_dtypes.text(flat, options, tuned.kept)
            mixlist_path.write_text(content, encoding="utf-8")
            if kind == "customize_dtypes":
                written = custom_dtypes.used(tuned.options, options, str(mixlist_path))
                custom_dtypes.check(flat, tuned.options, written)
        used = tune_result.used(tuned, options, output, kind)
        if plot_path is not None:
            _draw(plot_path, str(plot_file), tuned, objective)
        if list_path is not None:
            text, listed = wanted.of_model(model, used)
            list_path.write_text(text, encoding="utf-8")
        if report_path is not None:
            explained = explanation.explain(model, used)
            times = None if tuned.times is None else tune_times.report(tuned.times, objective)
            reports.write_report(report_path, model, explained, tune_result.curve(tuned), times)
    if tuned.is_complete and state_path.exists():
        state_path.unlink()
    status = 0 if tuned.is_accepted else 1
    if not tuned.is_accepted:
        told = tune_result.refusal(objective, split, tuned, output)
        click.echo(f"{printing.PROGRAM}: {told}", err=True)
    if as_json:
        click.echo(json.dumps(tune_result.data(model, options, objective, split, tuned), indent=1))
        return status
    out = printing.console()
    printing.say(out, f"{model.path}: {model.shown_kind}")
    printing.say(out, ", ".join(f"{name} {value}" for name, value in options.to_dict().items()))
    tune_result.show(out, objective, split, tuned, output, used, flat.left_out)
    if listed is not None:
        printing.say(out, f"{wanted.file}: {listed}")
    return status


def _draw(path: pathlib.Path, name: str, tuned: Tuned, objective: Objective) -> None:
    points = len(tuned.trials) if tuned.times is None else len(tuned.times.points)
    if points < 2:
        click.echo(f"{printing.PROGRAM}: {name}: not drawn: there is only one point", err=True)
        return
    draw = plots.curve if tuned.times is None else plots.front
    draw(path, tuned, objective)


class _NotAcceptedError(Exception):
    """The mixlist is not good enough for the inputs that were held out."""


def _objective(
    max_error: float | None,
    metric: str | None,
    budget: float | None,
    smaller_is_better: bool,
    margin: float,
) -> Objective:
    objectives.check_share(margin, "--margin")
    if (max_error is None) == (metric is None):
        got = "neither" if metric is None else "both"
        raise click.UsageError(f"got {got}, expected one of --max-error and --metric.")
    if max_error is not None:
        if budget is not None or smaller_is_better:
            raise click.UsageError("--budget and --smaller-is-better go with --metric.")
        return MaxError(objectives.check(max_error, "--max-error"), margin)
    assert metric is not None
    if budget is None:
        raise click.UsageError("--metric needs --budget.")
    return Metric(metric, objectives.check(budget, "--budget"), smaller_is_better, margin)


def _check_state(path: pathlib.Path, resume: bool, force: bool) -> None:
    if resume and not path.exists():
        raise ValueError(f"there is nothing to resume: {str(path)!r} does not exist")
    if path.exists() and not resume and not force:
        raise FileExistsError(
            f"{str(path)!r} is of a search that was not finished: --resume goes on with it, "
            "--force begins anew"
        )


class _StateFile(NamedTuple):
    """The file that keeps the trials until the search ends, and whether to continue from it."""

    path: pathlib.Path
    resume: bool


@dataclasses.dataclass(frozen=True)
class _Search:
    """How to search.

    Attributes:
        objective: the limit that the mixlist must keep.
        aim: error, time or pareto.
        held_out: the share of the inputs that the search does not see.
        max_runs: the number of sets of nodes to try.
        rounds: the number of measurements per step, if time counts.
        draws_curve: whether the trials must make a curve.
        kind: the format of the file to write.
    """

    objective: Objective
    aim: str
    held_out: float
    max_runs: int
    rounds: int
    draws_curve: bool
    kind: str

    def run(
        self,
        model: Model,
        options: PrecisionOptions,
        inputs: flags.Inputs,
        state_file: _StateFile,
    ) -> tuple[FrozenModel, Split, Tuned]:
        with printing.busy("freezing"):
            flat = frozen.freeze(model)
        batches = list(inputs.read(flat))
        split = held_out_inputs.split(batches, flat, self.held_out)
        state = State(state_file.path, fingerprint(flat, options, split.searched, self.objective))
        if state_file.resume:
            state.load()
        with printing.busy("running float32"):
            try:
                trials = Trials(flat, split.searched, self.objective)
                rest = None
                if split.held_out:
                    # The margin is for the held-out inputs.
                    rest = Trials(
                        flat, split.held_out, dataclasses.replace(self.objective, margin=0.0)
                    )
            except ValueError as error:
                if len(batches) > 1 or not split.held_out:
                    raise
                raise ValueError(
                    f"{error} ({split.words}; --held-out 0 runs the batch as it is)"
                ) from error
            try:
                conversions = Conversions(model, flat, split, self.objective, options, self.kind)
            except RandomOutputsError as error:
                conversions = None
                click.echo(f"{printing.PROGRAM}: no conversion is tried: {error}", err=True)
        has_functions = bool(model.meta_graph.graph_def.library.function)
        with _says_how_to_resume(state_file.path), printing.counted("trying mixlists") as progress:
            measure = functools.partial(step_time.measure, flat, split.searched, self.rounds)
            tuner = Tuner(
                *(flat, options, trials, rest, state, progress, self.aim, measure),
                *(conversions, has_functions),
            )
            try:
                tuned = tuner.run(split.searched, self.max_runs, self.draws_curve)
            except NothingFoundError:  # The search cannot go on.
                if state_file.path.exists():
                    state_file.path.unlink()
                raise
        return flat, split, tuned


@contextlib.contextmanager
def _says_how_to_resume(state_path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        is_ended = (
            isinstance(error, (KeyboardInterrupt, SystemExit))
            or npu_precision_command.is_terminated()
        )
        if is_ended and state_path.exists():
            click.echo(
                f"{printing.PROGRAM}: what was tried is in {str(state_path)!r}; --resume goes on",
                err=True,
            )
        raise

"""The result of npu-precision tune: as text, as JSON, and as points of a curve."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import rich.console

from npu_precision.cli import heading, printing, tune_times
from npu_precision.explain import explanation
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import custom_dtypes
from npu_precision.tuning.conversion import Checked
from npu_precision.tuning.held_out import Split
from npu_precision.tuning.objective import MaxError, Objective
from npu_precision.tuning.trials import Trial
from npu_precision.tuning.tuned import Tuned

SCHEMA = "npu_precision.tune/1"
# The most ruined tensors to name.
_MOST_FAULTS = 5


def used(tuned: Tuned, given: PrecisionOptions, output: str, kind: str) -> PrecisionOptions:
    """The options for using the file, without those that were only for measuring.

    Args:
        tuned: the result.
        given: the options that the search began with.
        output: the file.
        kind: the option that names it, "modify_mixlist" or "customize_dtypes".
    """
    if kind == "customize_dtypes":
        options = custom_dtypes.used(tuned.options, given, output)
    else:
        options = dataclasses.replace(tuned.options, mixlist_edits=None, modify_mixlist=output)
    return dataclasses.replace(options, emulate=None, overflow=None)


def curve(tuned: Tuned) -> list[dict[str, Any]]:
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


def show(
    out: rich.console.Console,
    objective: Objective,
    split: Split,
    tuned: Tuned,
    output: str,
    options: PrecisionOptions,
    left_out: Sequence[str],
) -> None:
    """Prints the result.

    Args:
        out: where to.
        objective: the limit that the search had to meet.
        split: the inputs.
        tuned: the result.
        output: the file of the mixlist, which is written only if it is accepted.
        options: the options for using the file.
        left_out: the outputs that are not measured.
    """
    less = f", searched with {objective.searched:g} (margin {objective.margin:.3g})"
    printing.say(out, f"wanted: {objective}{less if objective.margin else ''}")
    printing.say(out, f"inputs: {split.words}")
    heading.left_out(out, left_out)
    if tuned.reference is not None:
        printing.say(out, f"float32: metric {tuned.reference:g}")
    _show_trial(out, "as given", tuned.start, tuned, objective)
    if tuned.times is not None:
        tune_times.show(out, tuned, tuned.times, objective)
    if tuned.times is not None and tuned.times.is_float32:
        printing.say(out, f"float32: {tune_times.FLOAT32_WINS}")
    elif not tuned.kept:
        printing.say(out, "nothing has to be kept for it")
    else:
        _show_kept(out, tuned, objective)
        if not tuned.found.lowered:
            printing.say(out, _nothing_lowered(objective))
    _show_refused(out, tuned)
    if tuned.held_out is not None:
        printing.say(out, f"held out: {_described_held_out(tuned.held_out, tuned, objective)}")
    if tuned.converted is not None:
        printing.say(out, f"converted, on all inputs: {_converted(tuned, objective)}")
    if not tuned.is_complete:
        printing.say(
            out,
            "--max-runs ended the search: some of these may not have to be kept; --resume with "
            "more goes on",
        )
    if not tuned.is_accepted:
        is_held_out = tuned.held_out is not None and not tuned.held_out.is_good
        why = "what was held out" if is_held_out else "what convert makes of it"
        printing.say(out, f"NOT ACCEPTED, for {why}. The mixlist would be:")
        printing.say(out, tuned.mixlist.rstrip())
        return
    if options.customize_dtypes == output:
        nodes = f"{len(tuned.kept)} node{'' if len(tuned.kept) == 1 else 's'}"
        printing.say(out, f"{output}: lines for {nodes}")
    else:
        entries = "entry" if len(tuned.entries) == 1 else "entries"
        printing.say(out, f"{output}: {len(tuned.entries)} {entries} added to black-list")
    values = ", ".join(f"{name} {value}" for name, value in options.to_dict().items())
    printing.say(out, f"to be used with {values}")


def refusal(objective: Objective, split: Split, tuned: Tuned, output: str) -> str:
    """Why a mixlist that was found is not written, as a sentence for stderr."""
    assert tuned.held_out is not None
    found = f"there the mixlist has {_described_held_out(tuned.held_out, tuned, objective)}"
    if tuned.held_out.is_good:
        found = f"converted, the model has {_converted(tuned, objective)} on all inputs"
    return (
        f"{output!r} is not written: {split.words}, and {found}; expected {objective}, and no "
        "ruined tensor. Search on more inputs, or with a larger --margin; --held-out 0 searches on "
        "all"
    )


def _nothing_lowered(objective: Objective) -> str:
    limit = "--max-error" if isinstance(objective, MaxError) else "--budget"
    return (
        "NOTHING IS LOWERED: this mixlist keeps the whole model in float32, which is no faster. "
        f"Try a larger {limit}, or another low type (--mode allow_mix_precision_bf16 has float32's "
        "range, allow_mix_precision_fp16 three more bits); compare shows where the error enters"
    )


def _show_kept(out: rich.console.Console, tuned: Tuned, objective: Objective) -> None:
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
    title = f"with the mixlist, after {len(tuned.trials)} trials"
    _show_trial(out, title, tuned.found, tuned, objective)


def _show_refused(out: rich.console.Console, tuned: Tuned) -> None:
    """Prints the tensors for whose faults trials were refused although they met the objective."""
    faults = list(dict.fromkeys(str(trial.fault) for trial in tuned.refused))
    if not faults:
        return
    count = len(tuned.refused)
    trials = f"{count} trial{'' if count == 1 else 's'}"
    printing.say(out, f"refused, though good enough by the outputs: {trials}, in which")
    for fault in faults[:_MOST_FAULTS]:
        printing.say(out, f"  {fault}")
    if len(faults) > _MOST_FAULTS:
        printing.say(out, f"  and {len(faults) - _MOST_FAULTS} more")


def _show_trial(
    out: rich.console.Console, title: str, trial: Trial, tuned: Tuned, objective: Objective
) -> None:
    fault = "" if trial.fault is None else f"; {trial.fault}"
    printing.say(out, f"{title}: {_measured(trial, objective, tuned.reference)}{fault}")
    printing.say(out, f"  {explanation.FROZEN}: {trial.counts}")


def _described_held_out(trial: Trial, tuned: Tuned, objective: Objective) -> str:
    reference = tuned.held_out_reference
    beside = "" if reference is None else f" (float32's {reference:g})"
    fault = "" if trial.fault is None else f"; {trial.fault}"
    whole = dataclasses.replace(objective, margin=0.0)
    return f"{_measured(trial, whole, reference)}{beside}{fault}"


def _converted(tuned: Tuned, objective: Objective) -> str:
    assert tuned.converted is not None
    whole = dataclasses.replace(objective, margin=0.0)
    return _measured(tuned.converted, whole, tuned.converted.reference)


def _measured(made: Trial | Checked, objective: Objective, reference: float | None) -> str:
    error, metric = objective.texts(made.error, made.metric, reference)
    parts = [] if math.isnan(made.error) else [f"error {error}"]
    return ", ".join([*parts, *([] if metric is None else [f"metric {metric}"])])


def data(
    model: Model, options: PrecisionOptions, objective: Objective, split: Split, tuned: Tuned
) -> dict[str, Any]:
    """The result for JSON."""
    held_out = None
    if tuned.held_out is not None:
        held_out = {
            **_trial(tuned, tuned.held_out),
            "reference": {"metric": tuned.held_out_reference},
        }
    return {
        "schema": SCHEMA,
        "model": model.path,
        "options": options.to_dict(),
        "objective": str(objective),
        "margin": objective.margin,
        "inputs": split.words,
        "reference": {"metric": tuned.reference},
        "start": _trial(tuned, tuned.start),
        "found": _trial(tuned, tuned.found),
        "held_out": held_out,
        "converted": None
        if tuned.converted is None
        else {
            "error": printing.in_json(tuned.converted.error),
            "metric": printing.in_json(tuned.converted.metric),
            "good": tuned.converted.is_met,
        },
        "accepted": tuned.is_accepted,
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
        **({} if tuned.times is None else {"times": tune_times.data(tuned.times)}),
    }


def _trial(tuned: Tuned, trial: Trial) -> dict[str, Any]:
    return {
        "lowered": trial.lowered,
        "float_nodes": trial.float_nodes,
        "share": tuned.share(trial),
        "error": printing.in_json(trial.error),
        "metric": printing.in_json(trial.metric),
        "fault": None if trial.fault is None else dataclasses.asdict(trial.fault),
        "good": trial.is_good,
    }

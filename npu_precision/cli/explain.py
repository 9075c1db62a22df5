"""npu-precision explain: shows what a mode changes in a model, and why."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import click
import rich.console
import rich.filesize

from npu_precision.cli import flags, heading, printing, run_flags
from npu_precision.cli.float32_nodes_flags import Float32Nodes, float32_nodes_flags
from npu_precision.explain import (
    difference,
    explanation,
    float32_nodes,
    ledger_difference,
    run_ledgers,
    story,
)
from npu_precision.explain.explanation import Body, Explanation
from npu_precision.offline.model_file import Model
from npu_precision.options import PrecisionOptions

SCHEMA = "npu_precision.explain/1"
_MOST_BLOCKERS = _MOST_CASTS = 10


def _of_runs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Lets the command also read a ledger of a run, with which few flags are allowed."""

    @functools.wraps(command)
    def with_runs(
        *,
        model: str,
        pattern: str | None,
        other: str | None,
        as_json: bool,
        wanted: Float32Nodes,
        **given: Any,
    ) -> None:
        asked: dict[str, Any] = {"pattern": pattern, "other": other, "as_json": as_json}
        asked["wanted"] = wanted
        if not run_ledgers.is_run(model):
            command(model=model, **asked, **given)
            return
        run_flags.refuse_model_flags(model, given)
        _check_asked(**asked)
        if other is None and wanted.file is None:
            _show(*run_ledgers.load_run(model, pattern or ""), pattern, as_json)
            return
        if not run_ledgers.is_ledger_file(model):
            flag = "--diff" if wanted.file is None else "--float32-nodes"
            raise click.UsageError(f"{flag}: expected one ledger, got the folder {model}.")
        if other is not None:
            _print_ledgers(model, other, as_json)
            return
        if wanted.form == float32_nodes.KERAS:
            raise click.UsageError(f"--for keras: expected a model that Keras saved, got {model}.")
        with wanted.written([model]) as write:
            write(*wanted.of_nodes(float32_nodes.of_ledger(model, run_ledgers.read_ledger(model))))

    return with_runs


def _check_asked(
    pattern: str | None, other: str | None, as_json: bool, wanted: Float32Nodes
) -> None:
    wanted.check_alone({"--node": pattern, "--diff": other, "--json": as_json})
    if pattern is not None and other is not None:
        raise click.UsageError("--node and --diff: expected one of the two.")


@click.command()
@float32_nodes_flags
@_of_runs
@flags.model_flags("signature")
@flags.precision_flags()
@click.option("--node", "pattern", metavar="REGEX", help="Show the stories of matching nodes.")
@click.option(
    "--diff",
    "other",
    metavar="FILE",
    help="Show what other options (JSON) change; or how another ledger differs.",
)
@flags.batch_size_flag
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@flags.debug_flag
def explain(
    model: Model,
    options: PrecisionOptions,
    pattern: str | None,
    other: str | None,
    batch_size: int | None,
    as_json: bool,
    wanted: Float32Nodes,
) -> None:
    """Shows what a precision mode makes of MODEL, and why.

    MODEL is a GraphDef (.pb, .pbtxt), a MetaGraph (.meta), the prefix or folder of a checkpoint
    that has one, the folder of a SavedModel, or a file that Keras saved (.keras, .h5). Or a ledger
    that a run has written into its report_dir, or that folder: then it shows what was made of the
    graph in that run. --diff compares a ledger with another one, such as that of another worker.
    Nothing is written, but by --float32-nodes.
    """
    _check_asked(pattern, other, as_json, wanted)
    if wanted.file is not None:
        with wanted.written(flags.files_read(model, options)) as write, printing.busy("deciding"):
            write(*wanted.of_model(model, options))
        return
    if batch_size is not None:
        model = model.with_batch_size(batch_size)
    others = None if other is None else flags.read_options(other)
    with printing.busy("deciding"):
        explained = explanation.explain(model, options)
        now = None if others is None else explanation.explain(model, others)
    if now is None:
        _show(model, explained, pattern, as_json)
        return
    changed = difference.difference(explained, now)
    if as_json:
        _print_json(_difference_json(model, changed))
        return
    out = printing.console()
    heading.show(out, model, changed.before)
    _print_difference(out, changed)


def _show(model: Model, explained: Explanation, pattern: str | None, as_json: bool) -> None:
    out = printing.console()
    if pattern is not None:
        found = story.stories(explained, pattern)
        if as_json:
            data = [dataclasses.asdict(each) for each in found]
            _print_json({**_heading_json(model, explained), "stories": data})
        else:
            for each in found:
                _print_story(out, each)
                for body, missed in explained.missed():
                    if (body.name, missed.node) == (each.body, each.node.name):
                        reason = f"{missed.by} changes nothing, because {missed.why}"
                        printing.say(out, f"  {reason}")
            heading.warnings(out, explained.warnings)
    elif as_json:
        _print_json(_explanation_json(model, explained))
    else:
        heading.show(out, model, explained)
        _print_explanation(out, explained)


def _print_explanation(out: rich.console.Console, explained: Explanation) -> None:
    if not any(explained.nodes()):
        return
    raises = explained.counts().totals["raised"] > 0
    out.print()
    printing.show(
        out,
        printing.table(
            "Float nodes and sources by op type",
            [
                ("op type", False),
                ("nodes", True),
                ("list", False),
                ("raised" if raises else "lowered", True),
                ("kept", True),
                ("why kept", False),
            ],
            [
                (
                    row.op,
                    row.nodes,
                    _counted(row.lists),
                    row.raised if raises else row.lowered,
                    row.kept,
                    _counted(row.reasons),
                )
                for row in explained.by_op()
            ],
        ),
    )
    _print_casts(out, explained)
    _print_blockers(out, explained)
    _print_missed(out, explained)
    for place, name, ops in explained.mappings:
        meant = ", ".join(ops) or "no op type of TensorFlow"
        printing.say(out, f"{place}: {name} stands for {meant}")
    heading.warnings(out, explained.warnings)


def _counted(counts: dict[str, int]) -> str:
    """The counts as text: 'black' for one kind, 'black 2, gray 1' for several."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _print_casts(out: rich.console.Console, explained: Explanation) -> None:
    casts = sorted(explained.casts(), key=lambda item: -(item[1].bytes or 0))
    if not casts:
        return
    shown = casts[:_MOST_CASTS]
    most = "" if len(casts) == len(shown) else f", the largest {len(shown)} of {len(casts)}"
    out.print()
    printing.show(
        out,
        printing.table(
            f"Casts{most}",
            [
                ("of tensor", False),
                ("from", False),
                ("to", False),
                ("bytes", True),
                ("read by", True),
            ],
            [
                (
                    _inside(body.name, explanation.cast_tensor(cast)),
                    cast.from_dtype,
                    cast.to_dtype,
                    "?" if cast.bytes is None else cast.bytes,
                    cast.consumers,
                )
                for body, cast in shown
            ],
        ),
    )


def _print_blockers(out: rich.console.Console, explained: Explanation) -> None:
    blockers = explained.blockers()[:_MOST_BLOCKERS]
    if not blockers:
        return
    out.print()
    printing.show(
        out,
        printing.table(
            "Nodes that most gray nodes are kept for",
            [
                ("node", False),
                ("op type", False),
                ("gray nodes", True),
                ("why it is kept", False),
                ("listed by", False),
            ],
            [
                (
                    _inside(blocker.body, blocker.node.name),
                    blocker.node.op,
                    len(blocker.followers),
                    blocker.node.reason,
                    blocker.node.listed_by,
                )
                for blocker in blockers
            ],
        ),
    )


def _print_missed(out: rich.console.Console, explained: Explanation) -> None:
    rows = [
        (_inside(body.name, missed.node), missed.by, missed.why)
        for body, missed in explained.missed()
    ]
    if not rows:
        return
    out.print()
    columns = [("node", False), ("rewrite", False), ("why not", False)]
    printing.show(out, printing.table("What rewrites could not change", columns, rows))


def _inside(body: str, name: str) -> str:
    return name if body == explanation.MAIN_GRAPH else f"{name} in {body}"


def _print_story(out: rich.console.Console, shown: story.Story) -> None:
    node = shown.node
    changes = [
        f", {attribute} {before} -> {after}"
        for attribute, (before, after) in node.dtypes.items()
        if before != after
    ]
    lines = [f"its values are {shown.values}"] if shown.values else []
    lines += [shown.remark] if shown.remark else []
    lines += [
        step.why if number == 0 else _because(step) for number, step in enumerate(shown.steps)
    ]
    for each in shown.fed_by:
        why_not = f", and does not vote because {each.no_vote}" if each.no_vote else ""
        lines.append(f"fed by {each.tensor} ({each.op}), {each.decision}{why_not}")
    lines += [f"output shape {shown.shapes}"] if shown.shapes else []
    for cast in shown.casts:
        tensor = explanation.cast_tensor(cast)
        size = "" if cast.bytes is None else f", {rich.filesize.decimal(cast.bytes)}"
        lines.append(f"Cast of {tensor} from {cast.from_dtype} to {cast.to_dtype}{size}")
    if shown.followers:
        lines.append(f"gray nodes that are kept because it is: {shown.followers}")
    lines += [f"the mixlist {mixlist} {effect}" for mixlist, effect in shown.advice]
    title = f"{_inside(shown.body, node.name)} ({node.op}): {node.decision}{''.join(changes)}"
    printing.say(out, title, style="bold")
    for line in lines:
        printing.say(out, f"  {line}")


def _because(step: story.Step) -> str:
    return f"because {step.node} ({step.op}), {step.decision}: {step.why}"


def _print_difference(out: rich.console.Console, changed: difference.Difference) -> None:
    printing.say(out, f"with {heading.given(changed.after)}")
    printing.say(out, changed.after.counted_sentence())
    out.print()
    if not changed.nodes:
        printing.say(out, "no float node changes")
        return
    printing.show(
        out,
        printing.table(
            f"{len(changed.nodes)} float nodes change",
            [("node", False), ("op type", False), ("from", False), ("to", False)],
            [
                (_inside(body, before.name), before.op, _told(before), _told(after))
                for body, before, after in changed.nodes
            ],
        ),
    )


def _print_ledgers(model: str, other: str, as_json: bool) -> None:
    before, after = map(run_ledgers.read_ledger, (model, other))
    changes = ledger_difference.ledger_difference(before, after)
    if as_json:
        _print_json(
            {
                "schema": SCHEMA,
                "ledgers": [model, other],
                "totals": [before.totals, after.totals],
                "changes": [dataclasses.asdict(change) for change in changes],
            }
        )
        return
    out = printing.console()
    for path, ledger in ((model, before), (other, after)):
        printing.say(out, f"{path}: {ledger}")
    out.print()
    if not changes:
        printing.say(out, "no option, node or all-reduce differs")
        return
    columns = [("", False), ("name", False), ("first", False), ("second", False)]
    rows = [(each.what, each.name, each.before, each.after) for each in changes]
    printing.show(out, printing.table(f"{len(changes)} differences", columns, rows))


def _told(node: Any) -> str:
    return f"{node.decision}: {node.reason}{f' ({node.cause})' if node.cause else ''}"


def _print_json(data: dict[str, Any]) -> None:
    click.echo(json.dumps(data, indent=1))


def _heading_json(model: Model, explained: Explanation) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "model": model.path,
        "kind": model.shown_kind,
        "signature": model.signature,
        "options": explained.options.to_dict(),
        "counted": explained.counted,
        "totals": explained.counts().totals,
    }


def _explanation_json(model: Model, explained: Explanation) -> dict[str, Any]:
    return {
        **_heading_json(model, explained),
        "by_op": [dataclasses.asdict(row) for row in explained.by_op()],
        "casts": [
            {"function": body.name, **dataclasses.asdict(cast)} for body, cast in explained.casts()
        ],
        "blockers": [
            {
                "function": blocker.body,
                "node": blocker.node.name,
                "op": blocker.node.op,
                "reason": blocker.node.reason,
                "listed_by": blocker.node.listed_by,
                "followers": list(blocker.followers),
            }
            for blocker in explained.blockers()
        ],
        "missed": [
            {"function": body.name, **dataclasses.asdict(missed)}
            for body, missed in explained.missed()
        ],
        "nodes": [_node_json(body, node) for body, node in explained.nodes()],
        "mappings": [
            {"place": place, "entry": name, "ops": list(ops)}
            for place, name, ops in explained.mappings
        ],
        "warnings": list(explained.warnings),
    }


def _node_json(body: Body, node: Any) -> dict[str, Any]:
    return {"function": body.name, **dataclasses.asdict(node)}


def _difference_json(model: Model, changed: difference.Difference) -> dict[str, Any]:
    after = _heading_json(model, changed.after)
    return {
        **_heading_json(model, changed.before),
        "other": {"options": after["options"], "totals": after["totals"]},
        "changes": [
            {
                "function": body,
                "before": dataclasses.asdict(before),
                "after": dataclasses.asdict(now),
            }
            for body, before, now in changed.nodes
        ],
    }

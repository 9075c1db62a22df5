"""The first lines of a command's output: the model, the options and the totals."""

from __future__ import annotations

from collections.abc import Iterable

import rich.console
import rich.filesize

from npu_precision.cli import printing
from npu_precision.explain.explanation import Explanation
from npu_precision.offline.model_file import Model


def show(out: rich.console.Console, model: Model, explained: Explanation) -> None:
    """Prints the model, the options, and the totals."""
    functions = len(explained.bodies) - 1
    inside = f", {functions} functions" if functions else ""
    asked = f", signature {model.signature}" if model.signature else ""
    if model.shown_roots != model.roots:
        asked = f", its training step ({', '.join(model.shown_roots)})"
    printing.say(out, f"{model.path}: {model.kind}{asked}{inside}")
    printing.say(out, given(explained))
    printing.say(out, totals(explained))


def warnings(out: rich.console.Console, lines: Iterable[str]) -> None:
    """Prints warnings, a line each."""
    for line in lines:
        printing.say(out, f"warning: {line}")


def given(explained: Explanation) -> str:
    """The options, as they were given."""
    options = explained.options.to_dict()
    return ", ".join(f"{name} {value}" for name, value in options.items()) or "default options"


def totals(explained: Explanation) -> str:
    """The number of lowered nodes and inserted Casts, as text."""
    total = explained.totals()["float_nodes"]
    if total == 0:
        return "no node has a dtype that this mode is about"
    raised = explained.count("raised")
    casts = sum(1 for _ in explained.casts())
    return (
        f"lowered {explained.count('lowered')} of {total} float nodes"
        f"{f', raised {raised}' if raised else ''}, {casts} Casts"
        f"{_size(explained)}{_collectives(explained)}"
    )


def _collectives(explained: Explanation) -> str:
    count = sum(1 for _ in explained.collectives())
    if not count:
        return ""
    before, after = map(rich.filesize.decimal, explained.collective_bytes())
    instead = f" instead of {before}" if after != before else ""
    return f", {count} all-reduces of {after}{instead}"


def _size(explained: Explanation) -> str:
    known, unknown = explained.cast_bytes()
    if not known:
        return ", whose sizes the graph does not tell" if unknown else ""
    more = f" and {unknown} whose sizes the graph does not tell" if unknown else ""
    return f" of {rich.filesize.decimal(known)}{more}"

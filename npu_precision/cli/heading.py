"""The first lines of a command's output: the model, the options and the totals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import rich.console

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
    printing.say(out, f"{model.path}: {model.shown_kind}{asked}{inside}")
    printing.say(out, given(explained))
    printing.say(out, explained.counted_sentence())


def left_out(out: rich.console.Console, names: Sequence[str]) -> None:
    """Names the outputs that are not measured, if any."""
    if names:
        printing.say(out, f"left out, since they look something up in a table: {', '.join(names)}")


def warnings(out: rich.console.Console, lines: Iterable[str]) -> None:
    """Prints warnings, a line each."""
    for line in lines:
        printing.say(out, f"warning: {line}")


def given(explained: Explanation) -> str:
    """The options, as they were given."""
    options = explained.options.to_dict()
    return ", ".join(f"{name} {value}" for name, value in options.items()) or "default options"

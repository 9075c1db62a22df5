"""Runs the first steps of a program in float32 and in modes, one process after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from npu_precision.cli import printing
from npu_precision.flight import page, reading
from npu_precision.flight.next_steps import next_step
from npu_precision.launch.settings import Settings
from npu_precision.launch.trial import NOT_TIMED, Trial

FLOAT32 = "float32"
_LAST_LINES = 5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Attributes:
        name: "float32", or the mode.
        step: the name of what is a step; "" if there is none.
        seconds: of each step that is timed.
        losses: the loss of each step, None where there is none.
        error: why there is nothing else, or "".
    """

    name: str
    step: str = ""
    seconds: Sequence[float] = ()
    losses: Sequence[float | None] = ()
    error: str = ""

    @property
    def milliseconds(self) -> float | None:
        """The median time of a step."""
        return 1000 * statistics.median(self.seconds) if self.seconds else None

    @property
    def first_bad(self) -> int | None:
        """The first step, from 1 on, whose loss is not finite."""
        bad = (k for k, loss in enumerate(self.losses, 1) if not math.isfinite(loss or 0))
        return next(bad, None)


def compare(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    contenders: Mapping[str, Settings | None],
    steps: int,
) -> None:
    """Runs the program once for each contender, and prints a table.

    Args:
        arguments: of Python.
        environment: of the processes.
        contenders: float32, whose settings are None, and modes.
        steps: how many steps to time.
    """
    outcomes: list[Outcome] = []
    for name, settings in contenders.items():
        with printing.busy(f"running in {name}"):
            step = outcomes[0].step if outcomes else ""
            outcomes.append(_run(name, arguments, environment, settings, steps, step))
    out = printing.console()
    columns = [("", False), ("ms a step", True), ("times as fast", True), ("loss", True)]
    columns.append(("first not finite", True))
    rows = [_row(each, outcomes[0]) for each in outcomes]
    of = next((each.step for each in outcomes if each.step), "")
    title = f"{steps} steps: calls of {of}" if of else "No steps"
    printing.show(out, printing.table(title, columns, rows))
    for outcome in outcomes:
        if outcome.error:
            printing.say(out, f"{outcome.name}: {outcome.error}")
        settings = contenders[outcome.name]
        if settings is not None and outcome.first_bad and not outcomes[0].first_bad:
            with printing.busy(f"recording {outcome.name}"):
                lines = _what_to_keep(outcome, arguments, environment, settings, steps)
            for line in lines:
                printing.say(out, f"{outcome.name}: {line}")
    if any(outcome.error for outcome in outcomes):
        sys.exit(1)


def _run(
    name: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    settings: Settings | None,
    steps: int,
    step: str,
    record: str | None = None,
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        result, log = pathlib.Path(folder, "result.json"), pathlib.Path(folder, "output")
        trial = Trial(str(result), steps, step, record)
        variables = {**environment, **(settings.to_environment() if settings else {})}
        with log.open("wb") as output:
            status = subprocess.run(
                [sys.executable, *arguments],
                env={**variables, **trial.to_environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        if not result.exists():
            text = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = "\n".join(text[-_LAST_LINES:])
            ended = f"it ended with status {status}" if status else "it ended"
            what = f"before {step} was called" if step else "before a tf.function or session.run"
            return Outcome(name, error=f"{ended} {what}\n{last}".strip())
        found = json.loads(result.read_text(encoding="utf-8"))
    losses = [None if each is None else float(each) for each in found["losses"]]
    seconds = found["seconds"][NOT_TIMED:]
    error = ""
    if status or not seconds:
        error = f"it ended with status {status} after {len(losses)} steps"
        error += f"; the first {NOT_TIMED} are not timed" * (not seconds)
    return Outcome(name, found["name"], seconds, losses, error)


def _row(outcome: Outcome, first: Outcome) -> list[str]:
    mine, reference = outcome.milliseconds, first.milliseconds
    common = min(len(outcome.losses), len(first.losses))
    loss = outcome.losses[common - 1] if common else None
    return [
        outcome.name,
        f"{mine:.3g}" if mine else "",
        f"{reference / mine:.2f}" if mine and reference else "",
        "" if loss is None else f"{loss:.6g}",
        "" if outcome.first_bad is None else f"step {outcome.first_bad}",
    ]


def _what_to_keep(
    outcome: Outcome,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    settings: Settings,
    steps: int,
) -> list[str]:
    """Runs the program once more, recorded; what was found, and the mixlist that keeps it."""
    with tempfile.TemporaryDirectory() as folder:
        name, step = outcome.name, outcome.step
        _run(name, arguments, environment, settings, steps, step, record=folder)
        runs = []
        with contextlib.suppress(OSError, ValueError):
            runs = reading.read(folder)
        if not runs:
            return ["nothing was recorded that is not finite"]
        notes, mixlist = next_step(runs)
        return [*page.findings(runs), *notes[:1], *mixlist.splitlines()]

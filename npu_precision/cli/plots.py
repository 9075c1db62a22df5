"""Draws measurements with matplotlib, which is an optional dependency."""

from __future__ import annotations

import importlib.util
import math
import pathlib

from npu_precision.accuracy.comparison import Comparison
from npu_precision.training.compared import Compared as TrainingCompared
from npu_precision.tuning.objective import MaxError, Objective
from npu_precision.tuning.trials import Trial
from npu_precision.tuning.tuned import Tuned


def check(path: str) -> None:
    """Checks that a picture can be drawn.

    Raises:
        ValueError: matplotlib is not installed, or does not support the file format.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("a plot needs matplotlib, which is not installed: pip install matplotlib")
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    kind = pathlib.Path(path).suffix.lstrip(".")
    if kind not in known:
        raise ValueError(f"{path!r}: matplotlib draws no {kind!r}, expected {', '.join(known)}")


def comparison(path: pathlib.Path, compared: Comparison) -> None:
    """Draws each tensor's error, and the part that enters there, in the order of computation.

    Args:
        path: the file to write; its extension chooses the format.
        compared: the comparison to draw.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    rows = compared.rows
    axes.plot(
        [row.position for row in rows],
        [_drawn(row.stats.error) for row in rows],
        color="#1f77b4",
        label="error of the tensor",
    )
    entering = [row for row in rows if row.entered is not None]
    axes.scatter(
        [row.position for row in entering],
        [_drawn(row.entered.error) for row in entering if row.entered is not None],
        color="#d62728",
        s=12,
        label="error that enters",
    )
    bad = compared.first_bad()
    if bad is not None:
        axes.axvline(bad.position, color="black", linestyle="--", label="first NaN or infinity")
    axes.set_yscale("log")
    axes.set_xlabel("tensor, in the order of computation")
    axes.set_ylabel("root mean square error / root mean square")
    axes.legend()
    figure.savefig(str(path), dpi=100)


def curve(path: pathlib.Path, tuned: Tuned, objective: Objective) -> None:
    """Draws the trials: the error, or the metric, against the share of lowered nodes.

    Args:
        path: the file to write; its extension chooses the format.
        tuned: the result of the search, with its trials.
        objective: the limit that the search had to meet.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    trials = sorted((trial for _, trial in tuned.trials), key=tuned.share)
    of_error = isinstance(objective, MaxError)

    def value(trial: Trial) -> float:
        return trial.error if of_error or trial.metric is None else trial.metric

    for is_good, color, label in ((True, "#1f77b4", "good enough"), (False, "#d62728", "not")):
        some = [trial for trial in trials if trial.is_good == is_good]
        finite = [trial for trial in some if math.isfinite(value(trial))]
        shares = [100 * tuned.share(trial) for trial in finite]
        axes.scatter(shares, [value(trial) for trial in finite], color=color, s=16, label=label)
        for trial in some:
            if not math.isfinite(value(trial)):
                axes.axvline(100 * tuned.share(trial), color=color, linestyle=":", linewidth=1)
    if isinstance(objective, MaxError):
        axes.set_yscale("symlog", linthresh=1e-6)
        axes.axhline(objective.limit, color="black", linestyle="--", label="--max-error")
        if objective.margin:
            axes.axhline(objective.searched, color="gray", linestyle="--", label="less --margin")
        axes.set_ylabel("largest error of an output (dotted: infinite)")
    else:
        axes.set_ylabel(f"{objective.name} (dotted: NaN or infinite)")
    axes.scatter(
        [100 * tuned.share(tuned.found)],
        [value(tuned.found)],
        s=90,
        facecolors="none",
        edgecolors="black",
        label="the mixlist",
    )
    axes.set_xlabel(f"lowered, of the {tuned.start.lowered} nodes that the mode lowers, %")
    axes.legend()
    figure.savefig(str(path), dpi=100)


def front(path: pathlib.Path, tuned: Tuned, objective: Objective) -> None:
    """Draws the measured points: the error, or how much worse the metric is, against step time.

    Args:
        path: the file to write; its extension chooses the format.
        tuned: the result of the search, with its times.
        objective: the limit that the search had to meet.
    """
    from matplotlib.figure import Figure

    assert tuned.times is not None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    if isinstance(objective, MaxError):
        axes.set_yscale("symlog", linthresh=1e-6)  # Before the points, which set its ends.
        axes.set_ylabel("largest error of an output")
    else:
        axes.set_ylabel(f"{objective.name}, how much worse than float32's")
    for is_good, color, name in ((True, "#1f77b4", "good enough"), (False, "#d62728", "not")):
        some = [point for point in tuned.times.points if point.is_good == is_good]
        ratios = [point.time.ratio for point in some]
        spreads = [
            [point.time.ratio - point.time.low for point in some],
            [point.time.high - point.time.ratio for point in some],
        ]
        worse = [point.worse for point in some]
        axes.errorbar(ratios, worse, xerr=spreads, fmt="o", color=color, markersize=4, label=name)
    edge = tuned.times.front
    axes.step(
        [point.time.ratio for point in edge],
        [point.worse for point in edge],
        where="post",
        color="gray",
        linewidth=1,
        label="front",
    )
    chosen = tuned.times.chosen
    axes.scatter(
        [chosen.time.ratio],
        [chosen.worse],
        s=90,
        facecolors="none",
        edgecolors="black",
        label="chosen",
    )
    axes.axhline(objective.searched, color="black", linestyle="--", label="limit, less --margin")
    axes.axvline(1, color="gray", linestyle=":", label="float32's step time")
    if isinstance(objective, MaxError):
        axes.set_ylim(bottom=-2e-7)  # No error is negative.
    axes.set_xlabel("step time, as a multiple of float32's (bars: quartiles of the rounds)")
    axes.legend()
    figure.savefig(str(path), dpi=100)


def training(path: pathlib.Path, compared: TrainingCompared) -> None:
    """Draws the losses, and their difference beside the yardstick.

    Args:
        path: the file to write; its extension chooses the format.
        compared: the comparison to draw.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for other in compared.others:
        above.plot(other.losses, color="gray", linewidth=1, alpha=0.6)
    above.plot([], color="gray", label="float32, other seeds")
    above.plot(compared.exact.losses, color="#1f77b4", label="float32")
    above.plot(compared.mode.losses, color="#d62728", linestyle="--", label="the mode")
    above.set_ylabel("loss")
    below.plot(compared.yardstick, color="gray", label="between seeds, in float32")
    below.plot(compared.difference, color="#d62728", label="the mode's")
    below.set_ylabel("difference of the loss, smoothed")
    below.set_yscale("symlog", linthresh=1e-6)
    below.set_xlabel("step")
    first = compared.first_bad if compared.first_bad is not None else compared.first_step
    for axes in (above, below):
        if first is not None:
            axes.axvline(first, color="black", linestyle=":")
        axes.legend()
    figure.savefig(str(path), dpi=100)


def _drawn(value: float) -> float:
    """The value, or NaN if a logarithmic axis cannot show it."""
    return value if 0 < value < math.inf else math.nan

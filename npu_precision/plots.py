"""Pictures of measurements, with matplotlib, which is not installed unless asked for."""

from __future__ import annotations

import importlib.util
import math
import pathlib

from npu_precision.comparison import Comparison


def check(path: str) -> None:
    """Checks that something can be drawn.

    Raises:
        ValueError: matplotlib is not installed, or draws no such kind of file.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("a plot needs matplotlib, which is not installed: pip install matplotlib")
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    kind = pathlib.Path(path).suffix.lstrip(".")
    if kind not in known:
        raise ValueError(f"{path!r}: matplotlib draws no {kind!r}, expected {', '.join(known)}")


def comparison(path: pathlib.Path, compared: Comparison) -> None:
    """Draws the error of each tensor, and what of it enters there, in the order of computation.

    Args:
        path: the file to write, whose ending says what kind of picture it is.
        compared: what to draw.
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


def _drawn(value: float) -> float:
    """What a logarithmic axis can show."""
    return value if 0 < value < math.inf else math.nan

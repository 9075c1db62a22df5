"""Shows the figures of a benchmark as a table in the terminal and as a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Literal

import contenders
import rich.console
import rich.table

_WIDTH_OF_FILE = 120
# The headings of a table, each with the alignment of its column.
Columns = Mapping[str, Literal["left", "right"]]
_FIGURES = ("speed-up", "limit", "ms", "casts", "low", "error", "rewrite", "memory", "size")


def _figure(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def table(found: dict) -> None:
    """Prints one line per graph and contender; times of steps and rewrites are milliseconds."""
    machine = found["machine"]
    bfloat16 = " ".join(machine["bfloat16"]) or "no bfloat16"
    title = (
        f"{machine['cpu']}, {machine['cores']} cores, {bfloat16}, TF {machine['tensorflow']}, "
        f"peak {machine['peak'] / 1e9:.0f} GFLOP/s"
    )
    result = rich.table.Table(title=title)
    for heading in ("graph", "contender"):
        result.add_column(heading)
    for heading in _FIGURES:
        result.add_column(heading, justify="right")
    for name, entry in found["graphs"].items():
        processes = entry.get("alone", {})
        for contender, figures in entry["contenders"].items():
            is_main = contender == contenders.OURS
            process = processes.get(contender, {})
            rewrite, peak = process.get("rewrite_seconds"), process.get("peak_bytes")
            result.add_row(
                name if contender == contenders.BASELINE else "",
                contender,
                f"{figures['ratio']:.2f}",
                _figure("{:.2f}", entry.get("limit") if is_main else None),
                f"{figures['milliseconds']:.1f}",
                _figure("{}", figures["casts"]),
                _figure("{:.0%}", figures["low_share"]),
                f"{figures['error']:.3f}",
                _figure("{:.0f}", rewrite and 1e3 * rewrite),
                _figure("{:.2f}", peak and peak / processes[contenders.BASELINE]["peak_bytes"]),
                _figure("{:.2f}", entry.get("converted_size") if is_main else None),
            )
        result.add_section()
    show(result)


def left_out(found: dict) -> list[str]:
    """A line for each peer that is absent or failed, and for each row that could not be run."""
    lines = [f"{name} takes no part: {reason}" for name, reason in found["absent"].items()]
    for row, entry in found["graphs"].items():
        lines += [f"{row}: failed: {reason}" for reason in entry["failed"].values()]
    return lines + [f"{row} is left out: {reason}" for row, reason in found["left_out"].items()]


def slower_than_peers(graphs: Mapping[str, dict]) -> list[str]:
    """A line for each peer: the rows in which our mode is slower, and by how much.

    The frozen graph of a SavedModel is a peer, too. Differences of less than 5 % may be noise.
    """
    rows_of: dict[str, list[str]] = {peer: [] for peer in contenders.PEERS}
    for row, entry in graphs.items():
        ratios = {name: figures["ratio"] for name, figures in entry["contenders"].items()}
        for peer in rows_of.keys() & ratios.keys():
            if contenders.OURS in ratios and ratios[contenders.OURS] < ratios[peer]:
                slower = 1 - ratios[contenders.OURS] / ratios[peer]
                rows_of[peer].append(f"{row} ({slower:.0%})")
    return [f"slower than {peer}: {', '.join(rows) or 'none'}" for peer, rows in rows_of.items()]


def show(result: rich.table.Table) -> None:
    """Prints a table; in a file, with its full width."""
    console = rich.console.Console()
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILE
    console.print(result)


def grid(columns: Columns, rows: Sequence[Sequence[str]]) -> rich.table.Table:
    """A table for a terminal; a row whose first field has a text begins a section."""
    result = rich.table.Table()
    for heading, justify in columns.items():
        result.add_column(heading, justify=justify, no_wrap=True)
    for row in rows:
        if row[0]:
            result.add_section()
        result.add_row(*row)
    return result


def plot(found: dict, path: pathlib.Path) -> None:
    """Draws the speed-ups as bars, a group per graph, into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    from matplotlib import pyplot

    graphs = found["graphs"]
    every = {name: None for entry in graphs.values() for name in entry["contenders"]}
    names = [name for name in every if name != contenders.BASELINE]
    size = max(11, len(graphs)), 4.5
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    width = 0.8 / len(names)
    for i, contender in enumerate(names):
        bars = [
            entry["contenders"].get(contender, {"ratio": float("nan")})["ratio"]
            for entry in graphs.values()
        ]
        places = [place + (i - (len(names) - 1) / 2) * width for place in range(len(graphs))]
        axes.bar_label(axes.bar(places, bars, width, label=contender), fmt="%.1f", fontsize=6)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(graphs)), graphs, rotation=20, ha="right")
    axes.set_ylabel("times as fast as float32")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)

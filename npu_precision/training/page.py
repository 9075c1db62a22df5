"""Writes the page of `npu-precision compare --training`, and words the main findings."""

from __future__ import annotations

import math
import pathlib

import numpy as np

from npu_precision.explain import sections
from npu_precision.training.compared import Compared

# The most rows of the heat map, one per variable.
_MOST_ROWS = 60
_MOST_COLUMNS = 120


def findings(compared: Compared) -> list[str]:
    """The main findings, a sentence each."""
    found = []
    if compared.first_bad is not None:
        found.append(
            f"the loss is not finite from step {compared.first_bad} on; in float32 it is finite"
        )
    elif compared.is_within:
        found.append(
            f"the loss stays within what other seeds make of float32's: its largest difference is "
            f"{compared.ratio:.2g} times that"
        )
    else:
        found.append(
            f"the loss leaves what other seeds make of float32's at step {compared.first_step}, by "
            f"up to {compared.ratio:.2g} times"
        )
    if _is_the_same(compared):
        found.append(
            "nothing differs to the bit: no op of a step is lowered; is step a tf.function, which "
            "XLA does not compile?"
        )
    beyond = [row for row in compared.rows if row.first_step is not None]
    if beyond:
        row = beyond[0]
        op = f", of {row.op}" if row.op else ""
        found.append(
            f"{len(beyond)} of {len(compared.rows)} gradients leave what other seeds make of "
            f"theirs, first that of {row.name}{op}, at step {row.first_step}"
        )
    return found


def _is_the_same(compared: Compared) -> bool:
    """Whether the mode has changed nothing at all."""
    exact, mode = compared.exact, compared.mode
    return np.array_equal(exact.losses, mode.losses) and all(
        map(np.array_equal, exact.last, mode.last)
    )


def write(path: pathlib.Path, title: str, compared: Compared) -> None:
    """Writes the page.

    Args:
        path: the file, which is replaced.
        title: the title of the page.
        compared: the comparison.

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    steps = np.arange(len(compared.exact.losses))
    curves = [
        sections.series("float32", steps, compared.exact.losses),
        sections.series("the mode", steps, compared.mode.losses),
        *(
            sections.series(f"float32, another seed ({number})", steps, other.losses)
            for number, other in enumerate(compared.others, 1)
        ),
    ]
    mark = compared.first_bad if compared.first_bad is not None else compared.first_step
    text = "the loss is not finite" if compared.first_bad is not None else "leaves the yardstick"
    marks = [] if mark is None else [{"x": mark, "text": text}]
    apart = [
        sections.series("the mode's difference", steps, compared.difference),
        sections.series("that between seeds, in float32", steps, compared.yardstick),
    ]
    charts = [
        sections.lines("the loss", "step", curves, marks),
        sections.lines("the difference of the loss, smoothed", "step", apart, logarithmic=True),
    ]
    losses = sections.section("The loss", charts=charts)
    norms = sections.section("The gradients", heat=_heat(compared), table=_table(compared))
    sections.write(path, "training", title, findings(compared), [losses, norms])


def _heat(compared: Compared) -> dict | None:
    """The factors by which the norms of gradients differ from float32's, over the steps."""
    exact, mode = compared.exact.norms, compared.mode.norms
    if not exact.size:
        return None
    names = compared.exact.names
    rows = [names.index(row.name) for row in compared.rows[:_MOST_ROWS]]
    with np.errstate(all="ignore"):
        factors = np.abs(np.log2(mode[:, rows] / exact[:, rows]))
    factors = np.where(np.isnan(factors), np.where(np.isfinite(mode[:, rows]), 0, np.inf), factors)
    factors = np.minimum(factors, 99.0)
    columns = np.array_split(np.arange(len(factors)), min(len(factors), _MOST_COLUMNS))
    values = np.stack([factors[each].max(0) for each in columns], 1)
    layer = sections.layer(
        "norm of the gradient", "powers of two from float32's norm", values, (0.0, 2.0)
    )
    return sections.heat(
        "gradients over steps",
        [int(each[0]) for each in columns],
        [names[row] for row in rows],
        [layer],
    )


def _table(compared: Compared) -> dict:
    rows = [
        [
            row.name,
            row.op,
            "" if row.first_step is None else str(row.first_step),
            shown(row.ratio),
            shown(row.distance),
        ]
        for row in compared.rows
    ]
    return sections.table(HEADINGS, rows, numbers_from=2, of=len(rows))


HEADINGS = ["variable", "op", "from step", "of yardstick", "weights apart"]


def shown(value: float) -> str:
    """A number for people; "" if it is not known."""
    return "" if math.isnan(value) else f"{value:.2g}"

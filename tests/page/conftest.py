"""Fixtures that open the page of a report in a browser."""

from __future__ import annotations

import pytest
from support.browser import FIREFOX, OLDEST, PATIENCE, RECENT, browser
from support.report_files import explained, write_graph

from npu_precision.explain import report


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(RECENT, id="recent"),
        pytest.param(OLDEST, id="oldest", marks=pytest.mark.full),
        pytest.param(FIREFOX, id="firefox", marks=pytest.mark.full),
    ],
)
def any_browser(request):
    """A browser, closed early: its driver keeps an event loop running in this thread."""
    with browser(request.param) as started:
        yield started


def complaint_in(message):
    """The complaint in a message of the console; messages of level info have none."""
    return [] if message.type == "info" else [message.text]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(path of a model) -> its report, which is written once."""
    files = {}

    def report_of(model):
        if model not in files:
            files[model] = tmp_path_factory.mktemp("report") / "report.html"
            report.write_report(files[model], *explained(model))
        return files[model]

    return report_of


@pytest.fixture
def show(any_browser, written, tmp_path):
    """show(path of a model) -> its report in a page; fails at the end if the page had an error."""
    pages, complaints = [], []

    def start(model, curve=(), times=None, entered=None, **context):
        if curve or times or entered:
            file = tmp_path / f"report{len(pages)}.html"
            report.write_report(file, *explained(model), curve, times, entered)
        else:
            file = written(model)
        size = {"width": 1280, "height": 800}
        page = any_browser.new_context(**{"viewport": size, **context}).new_page()
        page.set_default_timeout(PATIENCE)
        pages.append(page)
        page.on("console", lambda message: complaints.extend(complaint_in(message)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(file.as_uri())
        complaints.remove(file.as_uri())
        page.wait_for_selector(".outline .row")
        return page

    yield start
    assert complaints == []
    for page in pages:
        page.context.close()


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """Two layers with their constants, and nodes without a decision, in one scope."""
    nodes = [("x", "Placeholder", [])]
    for layer in ("first", "second"):
        for number in range(5):
            nodes.append((f"net/{layer}/scale_{number}", "Exp", ["x"]))
        nodes.append((f"net/{layer}/product", "MatMul", [nodes[-1][0]] * 2))
        nodes.append((f"net/{layer}/end", "Relu", [nodes[-1][0]]))
    nodes += [(f"net/idle_{number}", "NoOp", []) for number in range(6)]
    return write_graph(tmp_path_factory.mktemp("layered"), nodes)

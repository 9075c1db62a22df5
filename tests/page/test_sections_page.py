"""A page of sections: its charts, heat maps and tables as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from support.browser import PATIENCE, needs_browser

from npu_precision.explain import sections

pytestmark = needs_browser
HOSTILE = "</script><b>bold</b>"


@pytest.fixture
def page(any_browser, tmp_path):
    chart = sections.lines(
        "shares",
        "step",
        [
            sections.series("over", np.arange(4), np.array([0.0, np.nan, 0.5, 1.0])),
            sections.series("under", np.arange(4), np.zeros(4)),
        ],
        marks=[{"x": 2, "text": f"nan in {HOSTILE}"}],
    )
    heat = sections.heat(
        "scopes over steps",
        [0, 10],
        ["a/b", HOSTILE],
        [
            sections.layer("largest", "bits", np.array([[-16.0, 0.0], [-8.0, -np.inf]]), (-16, 0)),
            sections.layer("over", "of a tensor", np.array([[0.0, 1.0], [0.0, 0.0]]), (0, 1)),
        ],
    )
    table = sections.table(["tensor", "largest"], [[HOSTILE, "3"]], numbers_from=1, of=7)
    part = sections.section(f"graph {HOSTILE}", [chart], heat, table)
    file = tmp_path / "page.html"
    sections.write(file, "flight", "a title", [f"found {HOSTILE}"], [part])
    opened = any_browser.new_context(viewport={"width": 1000, "height": 900}).new_page()
    opened.set_default_timeout(PATIENCE)
    complaints = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(file.as_uri())
    opened.wait_for_selector(".section")
    yield opened
    opened.context.close()
    assert complaints == []


def test_names_from_a_log_are_text(page):
    assert page.locator("h1").inner_text() == "a title"
    assert page.locator("header li").all_inner_texts() == [f"found {HOSTILE}"]
    assert page.locator("h2").inner_text() == f"graph {HOSTILE}"
    assert page.locator("td").all_inner_texts() == [HOSTILE, "3"]
    assert page.locator("b").count() == 0
    assert "the first 1 of 7" in page.locator(".scrolls").inner_text()


def test_a_value_that_is_not_finite_is_a_gap_in_its_line(page):
    drawn = page.locator("path.line").evaluate_all("all => all.map(each => each.getAttribute('d'))")
    assert [path.count("M") for path in drawn] == [2, 1]
    marks = page.locator("line.mark title").evaluate_all("all => all.map(each => each.textContent)")
    assert marks == [f"step 2: nan in {HOSTILE}"]


def opacities(page):
    return page.locator("rect.cell").evaluate_all(
        "all => all.map(each => Number(each.getAttribute('fill-opacity')))"
    )


def test_cells_are_shaded_between_the_ends_of_their_layer(page):
    assert opacities(page) == [0, 1, 0.5, 0]
    titles = page.locator("rect.cell title").evaluate_all(
        "all => all.map(each => each.textContent)"
    )
    assert titles[:2] == ["a/b, step 0: -16 bits", "a/b, step 10: 0 bits"]
    assert titles[3] == f"{HOSTILE}, step 10: nothing but zeros"
    page.locator(".layers button").nth(1).click()
    assert opacities(page) == [0, 1, 0, 0]
    assert page.locator("[aria-pressed=true]").inner_text() == "over"


def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

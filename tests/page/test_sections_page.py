"""A page of sections: its charts, heat maps and tables as they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from support.browser import PATIENCE, needs_browser

from npu_precision.explain import sections

pytestmark = needs_browser
HOSTILE = "</script><b>bold</b>"


@pytest.fixture(name="page")
def page_without_nans(show):
    return show(0.0)


@pytest.fixture
def show(any_browser, tmp_path):
    """show(nans) -> the page, with this share of NaNs in its last cell."""
    opened, complaints = [], []

    def start(nans):
        file = tmp_path / "page.html"
        sections.write(file, "flight", "a title", [f"found {HOSTILE}"], [part_with(nans)])
        shown = any_browser.new_context(viewport={"width": 1000, "height": 900}).new_page()
        opened.append(shown)
        shown.set_default_timeout(PATIENCE)
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.goto(file.as_uri())
        shown.wait_for_selector(".section")
        return shown

    yield start
    for shown in opened:
        shown.context.close()
    assert complaints == []


def part_with(nans):
    """A section with all that a section may have."""
    chart = sections.lines(
        "shares",
        "step",
        [
            sections.series("over", np.arange(4), np.array([0.0, np.nan, 0.5, 1.0])),
            sections.series("under", np.arange(4), np.zeros(4)),
        ],
        marks=[
            {"x": 2, "text": f"nan in {HOSTILE}", "good": False},
            {"x": 3, "text": "kept in float32", "good": True},
        ],
    )
    heat = sections.heat(
        "scopes over steps",
        [0, 10],
        ["a/b", HOSTILE],
        [
            sections.layer("largest", "bits", np.array([[-16.0, 0.0], [-8.0, -np.inf]]), (-16, 0)),
            sections.layer("over", "of a tensor", np.array([[0.0, 1.0], [0.0, 0.0]]), (0, 1)),
        ],
        nans=np.array([[0.0, 0.0], [0.0, nans]]),
    )
    table = sections.table(["tensor", "largest"], [[HOSTILE, "3"]], numbers_from=1, of=7)
    code = f'{{"black-list": "{HOSTILE}"}}'
    return sections.section(f"graph {HOSTILE}", [chart], heat, table, [f"do {HOSTILE}"], code)


def test_names_from_a_log_are_text(page):
    assert page.locator("h1").inner_text() == "a title"
    assert page.locator("header li").all_inner_texts() == [f"found {HOSTILE}"]
    assert page.locator("h2").inner_text() == f"graph {HOSTILE}"
    assert page.locator("td").all_inner_texts() == [HOSTILE, "3"]
    assert page.locator("b").count() == 0
    assert page.locator(".section > p").inner_text() == f"do {HOSTILE}"
    assert page.locator(".section > pre").inner_text() == f'{{"black-list": "{HOSTILE}"}}'
    assert "the first 1 of 7" in page.locator(".scrolls").inner_text()


def test_a_value_that_is_not_finite_is_a_gap_in_its_line(page):
    drawn = page.locator("path.line").evaluate_all("all => all.map(each => each.getAttribute('d'))")
    assert [path.count("M") for path in drawn] == [2, 1]
    marks = page.locator("line.mark title").evaluate_all("all => all.map(each => each.textContent)")
    assert marks == [f"step 2: nan in {HOSTILE}", "step 3: kept in float32"]
    assert page.locator("line.mark.good").count() == 1
    legend = page.locator(".section .legend").inner_text()
    assert f"not finite (first: step 2, nan in {HOSTILE})" in legend
    assert "healed (first: step 3, kept in float32)" in legend


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


def test_a_cell_with_nans_is_marked_in_every_layer(show):
    """Its largest finite magnitude is zero, which looks healthy."""
    page = show(0.25)
    for layer in range(2):
        page.locator(".layers button").nth(layer).click()
        assert opacities(page)[3] == 1
        marked = page.locator("rect.cell.nan title")
        assert marked.evaluate_all("all => all.map(each => each.textContent)") == [
            f"{HOSTILE}, step 10: 25 % NaN"
        ]
    assert page.locator(".heat p").inner_text().endswith("NaN")


def test_without_nans_no_sign_explains_them(page):
    assert "NaN" not in page.locator(".heat p").inner_text()


def test_on_a_phone_nothing_is_wider_than_the_screen(page):
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

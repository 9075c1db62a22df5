"""The page of npu-precision report in a browser: its tables, its curve, and how it looks."""

from __future__ import annotations

import math
import re

import pytest
from support.browser import needs_browser
from support.report_files import explained, needs_page
from support.report_page import cells, go_to, selected
from support.text_graph import read_graph

pytestmark = [needs_browser, needs_page]


def test_the_table_has_a_row_for_every_float_node_and_can_be_filtered(show, model_files):
    page = show(model_files.frozen)
    _, found = explained(model_files.frozen)
    filters = page.get_by_label("Filters of Nodes")
    page.keyboard.press("t")
    assert sorted(cells(page, 1)) == sorted(node.name for _, node in found.nodes())
    filters.get_by_label("Filter by op type").select_option("=MatMul")
    assert sorted(cells(page, 1)) == ["out", "product"]
    filters.get_by_label("Filter by op type").select_option("*")
    filters.get_by_label("Filter by decision").select_option("=kept")
    filters.get_by_label("Filter by list").select_option("=gray")
    assert sorted(cells(page, 1)) == ["after", "both"]
    page.get_by_label("Filter Nodes by text").fill("AFT")
    assert cells(page, 1) == ["after"]
    total = sum(1 for _ in found.nodes())
    assert page.locator(".table:visible .count").inner_text() == f"1 of {total} rows"


def test_errors_that_were_measured_are_at_nodes_and_layers(show, layered):
    page = show(layered, entered={"net/first/product": 0.00213, "net/second/product": math.inf})
    assert [text.split(", ")[-1] for text in page.locator(".strip .counts").all_inner_texts()] == [
        "error 0.0021",
        "error infinite",
    ]
    go_to(page, "net/first/product")
    assert "0.00213 of float32's values" in page.locator(".details").inner_text()
    page.get_by_role("tab", name="Layers").click()
    assert cells(page, 7) == ["0.00213", "infinite"]
    page.get_by_role("tab", name="Nodes").click()
    page.get_by_role("columnheader", name="error enters").click()
    page.get_by_role("columnheader", name="error enters").click()
    assert cells(page, 8)[:3] == ["infinite", "0.00213", ""]


def test_the_table_is_sorted_by_its_headings(show, model_files):
    page = show(model_files.frozen)
    page.keyboard.press("t")
    page.get_by_role("columnheader", name="gray it keeps").get_by_role("button").dblclick()
    assert (cells(page, 1)[0], cells(page, 7)[0]) == ("scale", "2")
    heading = page.get_by_role("columnheader", name="node")
    heading.get_by_role("button").click()
    names = cells(page, 1)
    assert names == sorted(names)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").click()
    assert cells(page, 1) == names[::-1]
    assert heading.get_attribute("aria-sort") == "descending"


def test_a_row_leads_to_the_graph(show, model_files):
    page = show(model_files.frozen)
    page.keyboard.press("t")
    page.locator(".table:visible .body").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    name = page.locator(".table:visible .active > :first-child").inner_text()
    page.keyboard.press("Enter")
    assert selected(page) == name
    assert page.locator("#canvas").is_visible()


RANGES = """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    share = Sigmoid(product)
    mask = Const(value=-1e9, shape=)
    hidden = Mul(share, mask)
    guard = Const(value=1e-12, shape=)
    positive = Relu(product)
    safe = AddV2(positive, guard)
"""


def test_ranges_have_a_table_with_the_largest_first(show, tmp_path):
    (tmp_path / "model.pb").write_bytes(read_graph(RANGES).SerializeToString())
    page = show(tmp_path / "model.pb")
    page.get_by_role("tab", name="Ranges").click()
    table = [cells(page, column) for column in (1, 3, 4, 5, 6)]
    assert [row for row in zip(*table) if row[0] != "positive"] == [
        ("mask", "-1e9", "-1e9", "K kept", "neutral_source"),
        ("hidden", "-1e9", "0", "K kept", "guard_constant"),
        ("share", "0", "1", "L lowered", "gray_follows_lowered"),
        ("guard", "1e-12", "1e-12", "K kept", "neutral_source"),
        ("safe", "1e-12", "?", "K kept", "guard_constant"),
    ]
    assert ("positive", "0", "?", "L lowered", "gray_follows_lowered") in zip(*table)


def test_ranges_can_be_filtered_and_lead_to_the_graph(show, tmp_path):
    (tmp_path / "model.pb").write_bytes(read_graph(RANGES).SerializeToString())
    page = show(tmp_path / "model.pb")
    page.keyboard.press("r")
    filters = page.get_by_label("Filters of Ranges")
    filters.get_by_label("Filter by reason").select_option("=guard_constant")
    assert cells(page, 1) == ["hidden", "safe"]
    page.locator(".table:visible .row.opens").first.click()
    assert selected(page) == "hidden"
    assert "between -1e9 and 0" in page.locator(".details dl").inner_text()


def test_casts_have_a_table_with_the_largest_first(show, model_files):
    page = show(model_files.frozen)
    page.get_by_role("tab", name="Casts").click()
    assert cells(page, 1)[0] == "product:0"
    assert cells(page, 4) == ["128 bytes", "64 bytes", "64 bytes", "64 bytes"]


def test_op_types_have_a_table(show, model_files):
    page = show(model_files.frozen)
    page.get_by_role("tab", name="Op types").click()
    assert cells(page, 1)[0] == "MatMul"
    assert "gray_follows_kept" in cells(page, 7)


def test_dark_follows_the_system_and_the_switch(show, model_files):
    background = "getComputedStyle(document.body).backgroundColor"
    page = show(model_files.frozen, color_scheme="dark")
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme: system").click()
    light = page.evaluate(background)
    ink = "document.querySelector('#canvas')._cyreg.cy.nodes()[0].style('color')"
    assert page.evaluate(ink) == "rgb(22,25,29)"
    assert (dark, light) == ("rgb(20, 23, 27)", "rgb(255, 255, 255)")
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(background) == dark
    assert page.evaluate(ink) == "rgb(232,234,237)"


def test_a_narrow_window_needs_no_scrolling_sideways(show, model_files):
    page = show(model_files.lstm, viewport={"width": 700, "height": 800})
    for tab in ("Graph", "Nodes", "Casts"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 700


def test_advice_is_copied(show, model_files):
    page = show(model_files.frozen, permissions=["clipboard-read", "clipboard-write"])
    go_to(page, "scale")
    mixlist = page.locator(".advice code").first.inner_text()
    page.get_by_role("button", name=re.compile("^Copy ")).first.click()
    page.locator(".live", has_text="Copied.").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == mixlist


def test_a_curve_is_a_picture_and_a_table(show, model_files):
    points = [
        {"share": 0.0, "error": 0.0, "label": "none", "good": True, "chosen": False},
        {"share": 0.5, "error": 1e-4, "label": "half", "good": True, "chosen": True},
        {"share": 0.75, "error": 1e-2, "label": "more", "good": False, "chosen": False},
        {"share": 1.0, "error": None, "label": "all", "good": False, "chosen": False},
    ]
    page = show(model_files.frozen, points)
    page.get_by_role("tab", name="Curve").click()
    assert page.locator(".curve tbody tr").count() == 4
    assert page.locator(".curve tr.chosen td").first.inner_text() == "half"
    dots = page.locator(".curve circle")
    kinds = [dots.nth(number).get_attribute("class") for number in range(dots.count())]
    assert kinds == ["chosen", "bad", "bad"]
    heights = [float(dots.nth(number).get_attribute("cy")) for number in range(3)]
    assert heights == sorted(heights, reverse=True)
    assert page.locator(".curve text", has_text="infinite").count() == 1
    ends = page.locator(".curve tbody td:last-child").all_inner_texts()
    assert ends == ["good enough", "chosen", "not good enough", "not good enough"]


def test_errors_that_are_all_zero_are_a_table_only(show, model_files):
    point = {"share": 0.0, "error": 0.0, "label": "none", "good": True, "chosen": True}
    page = show(model_files.frozen, [point])
    page.get_by_role("tab", name="Curve").click()
    assert page.locator(".curve tbody tr").count() == 1
    assert page.locator(".curve svg").count() == 0


def test_times_are_a_second_picture_and_table_below_the_curve(show, model_files):
    def timed(label, ratio, worse, **marks):
        marks = {"good": True, "front": False, "chosen": False, **marks}
        ends = [ratio - 0.125, ratio + 0.125]
        return {"label": label, "ratio": ratio, "quartiles": ends, "worse": worse, **marks}

    points = [
        timed("float32", 1.0, 0.0, front=True),
        timed("0 kept", 0.5, 1e-2, good=False, front=True),
        timed("1 kept", 0.75, 1e-4, front=True, chosen=True),
        timed("2 kept", 1.25, 1e-4),
    ]
    shares = [{"share": 1.0, "error": 1e-4, "label": "all", "good": True, "chosen": True}]
    page = show(model_files.frozen, shares, {"measure": "worse by", "points": points})
    page.get_by_role("tab", name="Curve").click()
    rows = [
        page.locator(".front tr").nth(row).locator("th, td").all_inner_texts() for row in range(5)
    ]
    assert rows == [
        ["", "time", "quartiles", "worse by", ""],
        ["0 kept", "0.50", "0.38 to 0.63", "1.0e-2", "not good enough, on the front"],
        ["1 kept", "0.75", "0.63 to 0.88", "1.0e-4", "chosen, on the front"],
        ["float32", "1.00", "0.88 to 1.13", "0", "good enough, on the front"],
        ["2 kept", "1.25", "1.13 to 1.38", "1.0e-4", "good enough"],
    ]
    dots = page.locator(".front circle")
    assert [dots.nth(dot).get_attribute("class") for dot in range(3)] == ["bad", "chosen", "good"]
    places = [float(dots.nth(dot).get_attribute("cx")) for dot in range(3)]
    bars = page.locator(".front line.bar")
    for place, bar in zip(places, (bars.nth(dot) for dot in range(3))):
        ends = [float(bar.get_attribute(end)) for end in ("x1", "x2")]
        assert sum(ends) / 2 == pytest.approx(place)
    assert places[1] - places[0] == pytest.approx((places[2] - places[0]) / 3)


def test_without_a_curve_there_is_no_tab_of_it(show, model_files):
    page = show(model_files.frozen)
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs == ["Graph", "Nodes", "Ranges", "Casts", "Op types"]

"""The page of npu-precision report in a browser, without a mouse."""

from __future__ import annotations

from support.browser import needs_browser
from support.report_files import needs_page
from support.report_page import at, drawn, go_to, selected

pytestmark = [needs_browser, needs_page]


def test_the_keys_of_the_graph_walk_along_its_lines(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "both")
    assert page.evaluate("document.activeElement.id") == "canvas"
    page.keyboard.press("ArrowDown")
    assert selected(page) == "after"
    page.keyboard.press("ArrowUp")
    assert selected(page) == "both"
    page.keyboard.press("Backspace")
    assert selected(page) == "graph"
    shown = len(drawn(page))
    page.keyboard.press("Enter")
    assert len(drawn(page)) == 1 < shown
    page.keyboard.press("Enter")
    assert len(drawn(page)) == shown


def test_left_and_right_go_to_the_neighbours_in_the_scope(show, model_files):
    page = show(model_files.frozen)
    left, right = sorted(["product", "scale"], key=lambda name: at(page, f"  {name}\n")[0])
    for begin, key, sign in ((left, "ArrowRight", 1), (right, "ArrowLeft", -1)):
        go_to(page, begin)
        page.keyboard.press(key)
        assert selected(page) != begin
        place = page.evaluate("""() => {
          const cy = document.querySelector('#canvas')._cyreg.cy;
          return cy.nodes('.selected').position().x;
        }""")
        before = page.evaluate(
            """begin => {
              const cy = document.querySelector('#canvas')._cyreg.cy;
              return cy.nodes().filter(e => e.data('label').includes(begin))[0].position().x;
            }""",
            f"  {begin}\n",
        )
        assert sign * (place - before) > 0


def test_what_is_looked_at_is_told_to_those_who_listen(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "scale")
    live = page.locator(".live[aria-live=polite]")
    assert live.inner_text() == "scale, Exp, kept"
    page.keyboard.press("Backspace")
    assert live.inner_text() == f"scope graph, open, {len(drawn(page)) - 1} nodes"


def test_the_outline_is_a_tree_that_keys_walk_through(show, model_files):
    page = show(model_files.checkpoint)
    page.keyboard.press("o")
    tree = page.get_by_role("tree")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "tree"
    page.keyboard.press("Home")
    row = page.locator(".outline .row[aria-selected=true]")
    assert (row.get_attribute("aria-level"), row.get_attribute("aria-expanded")) == ("1", "true")
    assert tree.get_attribute("aria-activedescendant") == row.get_attribute("id")
    page.keyboard.press("ArrowLeft")
    assert row.get_attribute("aria-expanded") == "false"
    assert page.locator(".outline .row").count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert (row.get_attribute("aria-level"), row.get_attribute("aria-posinset")) == ("2", "1")
    page.keyboard.press("End")
    assert row.get_attribute("aria-posinset") == row.get_attribute("aria-setsize")
    page.keyboard.press("ArrowLeft")
    assert row.get_attribute("aria-level") == "1"


def test_everything_can_be_reached_with_tab(show, model_files):
    page = show(model_files.frozen)
    reached = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.id || e.getAttribute('role') || e.textContent)(document.activeElement)"
            )
        )
    assert {"search", "tab-graph", "Before", "After", "tree", "canvas", "All"} <= reached


def test_help_lists_the_keys_and_closes(show, model_files):
    page = show(model_files.frozen)
    page.keyboard.press("?")
    popup = page.get_by_role("dialog")
    assert "search; Enter goes to the node" in popup.inner_text()
    popup.get_by_text("Licences of what this page is made of").click()
    assert "cytoscape" in popup.locator("pre").inner_text()
    page.keyboard.press("Escape")
    assert not popup.is_visible()


def test_slash_searches_and_escape_ends_it(show, model_files):
    page = show(model_files.frozen)
    page.keyboard.press("/")
    page.keyboard.type("matmul")
    options = page.get_by_role("option")
    first, second = options.nth(0), options.nth(1)
    assert first.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowDown")
    assert second.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    assert not page.locator(".popup").is_visible()

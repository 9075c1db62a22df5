"""The page of npu-precision report, in a browser."""

from __future__ import annotations

import re

import pytest
from browser import browser, needs_browser
from report_files import explained, needs_page, write_graph

from npu_precision import report, story

pytestmark = [needs_browser, needs_page]

LAYERS, STEPS = 100, 200


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def show(chromium, tmp_path):
    """show(path of a model) -> its report in a page; at the end, nothing may have gone wrong."""
    pages, complaints = [], []

    def start(model, curve=(), **context):
        file = tmp_path / f"report{len(pages)}.html"
        report.write_report(file, *explained(model), curve)
        page = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
        page = page.new_page()
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
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
def large(tmp_path_factory):
    """A model of 20,000 nodes: one hundred layers of two hundred steps."""
    nodes = [("x", "Placeholder", [])]
    for layer in range(LAYERS):
        for step in range(STEPS):
            op = ("MatMul", "Relu", "Exp", "Tanh")[step % 4]
            name = f"layer_{layer}/group_{step // 20}/{op.lower()}_{step}"
            nodes.append((name, op, [nodes[-1][0]] * (2 if op == "MatMul" else 1)))
    return write_graph(tmp_path_factory.mktemp("large"), nodes)


def search(page, text):
    page.locator("#search").fill(text)
    return page.locator(".found .count").inner_text()


def go_to(page, name):
    """Looks at the node of this very name."""
    search(page, f"/^{re.escape(name)}$/")
    page.locator("#search").press("Enter")
    page.wait_for_function(
        "name => document.querySelector('.details h2 .name')?.textContent === name", arg=name
    )


def drawn(page, selector="node"):
    """What is drawn: the text of each node, or the ids of lines."""
    return page.evaluate(
        """selector => document.querySelector('#canvas')._cyreg.cy.elements(selector)
        .map(each => each.isNode() ? each.data('label') : each.id())""",
        selector,
    )


def at(page, label):
    """Where a drawn node is on the screen, by a part of its text."""
    return page.evaluate(
        """label => {
          const cy = document.querySelector('#canvas')._cyreg.cy;
          const box = document.querySelector('#canvas').getBoundingClientRect();
          const node = cy.nodes().filter(each => each.data('label').includes(label))[0];
          const {x, y} = node.renderedPosition();
          return [box.x + x, box.y + y];
        }""",
        label,
    )


def selected(page):
    return page.locator(".details h2 .name").inner_text()


@pytest.mark.parametrize("model", ["cnn", "lstm", "checkpoint", "frozen"])
def test_it_opens_without_complaints_and_says_what_explain_says(show, model_files, model):
    path = getattr(model_files, model)
    page = show(path)
    _, found = explained(path)
    totals = found.totals()
    text = page.locator(".totals").inner_text()
    assert text.startswith(f"lowered {totals['lowered']} of {totals['float_nodes']} float nodes")
    assert f"{totals['casts']} Casts" in text
    assert page.title().endswith("precision report")
    assert len(drawn(page)) > 3


def test_a_search_finds_parts_of_names_op_types_and_regular_expressions(show, model_files):
    page = show(model_files.frozen)
    assert search(page, "scal") == "1 node found"
    assert search(page, "MATMUL") == "2 nodes found"
    assert search(page, "/^(x|w)$/") == "2 nodes found"
    assert "Invalid regular expression" in search(page, "/(/")
    assert search(page, "nothing") == "0 nodes found"


def test_enter_goes_to_what_was_found_and_opens_what_it_is_in(show, large):
    page = show(large)
    name = "layer_50/group_3/relu_61"
    assert not any("relu_61" in label for label in drawn(page))
    go_to(page, name)
    assert any("relu_61" in label for label in drawn(page))
    x, y = at(page, "relu_61")
    box = page.locator("#canvas").bounding_box()
    assert box["x"] < x < box["x"] + box["width"]
    assert box["y"] < y < box["y"] + box["height"]


def test_the_outline_scrolls_to_what_is_looked_at(show, large):
    page = show(large)
    go_to(page, "layer_77/group_9/tanh_199")
    row = page.locator(".outline .row[aria-selected=true]")
    assert row.locator(".name").inner_text() == "tanh_199"
    box, around = row.bounding_box(), page.locator(".outline").bounding_box()
    assert around["y"] <= box["y"] <= around["y"] + around["height"] - box["height"]


def test_a_click_on_a_node_shows_its_story(show, model_files):
    page = show(model_files.frozen)
    page.mouse.click(*at(page, "after"))
    assert selected(page) == "after"
    (told,) = story.stories(explained(model_files.frozen)[1], "^after$")
    steps = page.locator(".details ol.steps li").all_inner_texts()
    first, *others = told.steps
    assert steps == [
        first.why,
        *(f"because {each.node} ({each.op}), {each.decision}: {each.why}" for each in others),
    ]
    assert page.locator(".advice code").all_inner_texts() == [mix for mix, _ in told.advice]
    for _, effect in told.advice:
        assert f"This mixlist {effect}:" in page.locator(".advice").inner_text()


def test_every_node_s_story_is_that_of_explain(show, model_files):
    page = show(model_files.checkpoint)
    for told in story.stories(explained(model_files.checkpoint)[1], "")[::7]:
        go_to(page, told.node.name)
        shown = page.locator(".details ol.steps li").all_inner_texts()
        assert [line.rpartition(": ")[2] for line in shown] == [
            step.why.rpartition(": ")[2] for step in told.steps
        ]
        assert page.locator(".advice code").all_inner_texts() == [mix for mix, _ in told.advice]


def test_causes_and_neighbours_are_links(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "after")
    page.locator(".details ol.steps button", has_text="scale").first.click()
    assert selected(page) == "scale"
    page.locator(".details li", has_text="AddV2").locator("button").click()
    assert selected(page) == "both"


def test_after_has_casts_and_new_dtypes_that_before_has_not(show, model_files):
    page = show(model_files.frozen)
    casts = explained(model_files.frozen)[1].totals()["casts"]
    assert len(drawn(page, "node.d4")) == casts
    assert any("Relu: float16" in label for label in drawn(page))
    page.get_by_role("button", name="Before").click()
    assert drawn(page, "node.d4") == []
    assert any("Relu: float32" in label for label in drawn(page))
    assert not any("float16" in label for label in drawn(page))
    page.keyboard.press("b")
    assert len(drawn(page, "node.d4")) == casts


def test_a_click_opens_a_scope_and_what_is_in_it_is_drawn(show, large):
    page = show(large)
    closed = len(drawn(page))
    page.mouse.click(*at(page, "layer_0"))
    assert len(drawn(page)) == closed + STEPS // 20
    assert any("group_9" in label for label in drawn(page))
    page.get_by_role("button", name="Close all").click()
    assert len(drawn(page)) == closed


def test_a_double_click_closes_an_open_scope_but_not_one_that_it_opens(show, large):
    page = show(large)
    closed = len(drawn(page))
    page.mouse.dblclick(*at(page, "layer_0"))
    assert len(drawn(page)) > closed
    x, _ = at(page, "layer_0")
    top = page.evaluate("""() => {
      const cy = document.querySelector('#canvas')._cyreg.cy;
      const scope = cy.nodes('.open').filter(each => each.data('label') === '▾ layer_0')[0];
      return scope.renderedBoundingBox().y1 + document.querySelector('#canvas').offsetTop;
    }""")
    page.mouse.dblclick(x, top + 8)
    assert len(drawn(page)) == closed


def test_20_000_nodes_never_draw_more_than_a_thousand(show, large):
    page = show(large)
    assert "20,001 float nodes" in page.locator(".totals").inner_text()
    assert search(page, "matmul") == "5,000 nodes found"
    assert page.locator(".results .row").count() < 60
    page.get_by_role("button", name="Open all in the graph").click()
    assert 400 < len(drawn(page)) <= 1000
    assert len(drawn(page, "edge")) < 3000
    assert "would be too much to draw" in page.locator(".live").inner_text()
    assert page.locator(".outline .row").count() < 100
    page.keyboard.press("t")
    assert page.locator(".table:visible .body .row").count() < 100


def test_a_scope_with_very_many_nodes_shows_them_in_parts(show, tmp_path):
    count = 20000
    chain = [(f"n{i}", "Relu", [f"n{i - 1}" if i else "x"]) for i in range(count)]
    page = show(write_graph(tmp_path, [("x", "Placeholder", []), *chain]))
    assert len(drawn(page)) < 20
    go_to(page, "n12345")
    assert 100 < len(drawn(page)) < 400
    assert any("n12345\n" in label for label in drawn(page))


NAMES = [
    "<script>",
    "<script>alert(1)</script>",
    "<img/src=x/onerror=alert(1)>",
    "</script>",
    "{{x}}",
    "__proto__",
    "constructor",
]


def test_names_are_text_and_never_markup(show, tmp_path):
    nodes = [("x", "Placeholder", []), *((name, "Relu", ["x"]) for name in NAMES)]
    page = show(write_graph(tmp_path, nodes))
    scripts = page.evaluate("document.scripts.length")
    for name in NAMES:
        go_to(page, name)
        page.locator(".details", has_text="Read by" if name == "x" else "Fed by").wait_for()
    assert any("<script>" in label for label in drawn(page))
    page.keyboard.press("t")
    for name in NAMES:
        assert page.locator(".table:visible .body").get_by_text(name, exact=True).count() >= 1
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scripts.length") == scripts


def test_calls_lead_to_the_functions(show, model_files):
    page = show(model_files.lstm)
    _, found = explained(model_files.lstm)
    (call,) = [name for name, node in found.bodies[0].definitions.items() if "Call" in node.op]
    go_to(page, call)
    page.locator(".details h3", has_text="Calls").locator("xpath=..").locator("button").click()
    assert selected(page) == found.bodies[1].name
    assert page.locator(".outline .row[aria-selected=true]").inner_text().startswith("▸")
    page.get_by_role("button", name="Open", exact=True).click()
    assert (
        page.locator(".outline .row[aria-selected=true]").get_attribute("aria-expanded") == "true"
    )


def test_control_inputs_are_drawn_when_asked_for(show, model_files):
    page = show(model_files.checkpoint)
    assert drawn(page, "edge.control") == []
    page.get_by_label("control inputs").check()
    assert len(drawn(page, "edge.control")) > 0
    page.keyboard.press("c")
    assert drawn(page, "edge.control") == []


# Without a mouse.


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
    page.keyboard.type("e")
    options = page.get_by_role("option")
    first, second = options.nth(0), options.nth(1)
    assert first.get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowDown")
    assert second.get_attribute("aria-selected") == "true"
    page.keyboard.press("Escape")
    assert page.locator("#search").input_value() == ""
    assert not page.locator(".popup").is_visible()


# The tables.


def cells(page, column):
    return page.locator(f".table:visible .body .row > :nth-child({column})").all_inner_texts()


def test_the_table_has_a_row_for_every_float_node_and_can_be_filtered(show, model_files):
    page = show(model_files.frozen)
    _, found = explained(model_files.frozen)
    page.keyboard.press("t")
    assert sorted(cells(page, 1)) == sorted(node.name for _, node in found.nodes())
    page.get_by_label("Filter by op type").select_option("=MatMul")
    assert sorted(cells(page, 1)) == ["out", "product"]
    page.get_by_label("Filter by op type").select_option("*")
    page.get_by_label("Filter by decision").select_option("=kept")
    page.get_by_label("Filter by list").select_option("=gray")
    assert sorted(cells(page, 1)) == ["after", "both"]
    page.get_by_label("Filter Nodes by text").fill("AFT")
    assert cells(page, 1) == ["after"]
    total = found.totals()["float_nodes"]
    assert page.locator(".table:visible .count").inner_text() == f"1 of {total} rows"


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


# The rest.


def test_dark_follows_the_system_and_the_switch(show, model_files):
    background = "getComputedStyle(document.body).backgroundColor"
    page = show(model_files.frozen, color_scheme="dark")
    dark = page.evaluate(background)
    page.get_by_role("button", name="Theme: system").click()
    light = page.evaluate(background)
    assert (dark, light) == ("rgb(20, 23, 27)", "rgb(255, 255, 255)")
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(background) == dark
    ink = "document.querySelector('#canvas')._cyreg.cy.nodes()[0].style('color')"
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
        {"share": 0.0, "error": 0.0, "label": "none", "chosen": False},
        {"share": 0.5, "error": 1e-4, "label": "half", "chosen": True},
        {"share": 0.75, "error": 1e-2, "label": "more", "chosen": False},
        {"share": 1.0, "error": None, "label": "all", "chosen": False},
    ]
    page = show(model_files.frozen, points)
    page.get_by_role("tab", name="Curve").click()
    assert page.locator(".curve tbody tr").count() == 4
    assert page.locator(".curve tr.chosen td").first.inner_text() == "half"
    dots = page.locator(".curve circle")
    assert dots.count() == 2
    heights = [float(dots.nth(number).get_attribute("cy")) for number in range(2)]
    assert heights[0] > heights[1]


def test_without_a_curve_there_is_no_tab_of_it(show, model_files):
    page = show(model_files.frozen)
    assert page.get_by_role("tab").all_inner_texts() == ["Graph", "Nodes", "Casts", "Op types"]

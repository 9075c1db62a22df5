"""The page of npu-precision report in a browser: the graph, the search, the stories."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from support.browser import needs_browser
from support.report_files import explained, needs_page, write_graph
from support.report_page import at, cells, crossings, drawn, go_to, search, selected

from npu_precision.explain import story

tf1 = tf.compat.v1
pytestmark = [needs_browser, needs_page]

LAYERS, STEPS = 100, 200


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


@pytest.mark.parametrize("model", ["cnn", "lstm", "checkpoint", "frozen"])
def test_it_opens_without_complaints_and_says_what_explain_says(show, model_files, model):
    path = getattr(model_files, model)
    page = show(path)
    _, found = explained(path)
    assert page.locator(".totals").inner_text() == found.counted_sentence()
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
    assert around["y"] <= box["y"] <= around["y"] + around["height"] - box["height"] + 1


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
        assert (
            told.values or "no values"
        ) in f"{page.locator('.details dl').first.inner_text()}no values"
        lines = page.locator(".details li").all_inner_texts()
        for each in told.fed_by:
            why = f", and does not vote because {each.no_vote}" if each.no_vote else ""
            assert f"{each.tensor} ({each.op}), {each.decision}{why}" in lines


def test_causes_and_neighbours_are_links(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "after")
    page.locator(".details ol.steps button", has_text="scale").first.click()
    assert selected(page) == "scale"
    page.locator(".details li", has_text="AddV2").locator("button").click()
    assert selected(page) == "both"


def test_after_has_casts_and_new_dtypes_that_before_has_not(show, model_files):
    page = show(model_files.frozen)
    casts = explained(model_files.frozen)[1].counts().totals["casts"]
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


@pytest.mark.parametrize("model", ["cnn", "lstm", "checkpoint", "frozen"])
def test_lines_go_round_boxes_whatever_is_open(show, model_files, model):
    page = show(getattr(model_files, model))
    assert crossings(page) == []
    search(page, "/.*/")
    page.get_by_role("button", name="Open all in the graph").click()
    assert len(drawn(page, "edge.bent")) > 0 or model == "frozen"
    assert crossings(page) == []


def test_a_line_enters_an_open_scope_beside_the_rows_above_its_end(show, tmp_path):
    nodes = [("x", "Placeholder", []), ("a/first", "Relu", ["x"]), ("a/wide", "Exp", ["x"])]
    # Another consumer of x is three rows further down.
    nodes += [("a/second", "Relu", ["a/first"]), ("a/third", "Relu", ["a/second"])]
    nodes += [("a/last", "AddV2", ["a/third", "x"]), ("b/y", "AddV2", ["a/first", "a/last"])]
    page = show(write_graph(tmp_path, nodes))
    page.mouse.click(*at(page, "▸ a"))
    page.mouse.click(*at(page, "▸ b"))
    assert len(drawn(page)) == 9
    assert crossings(page) == []


def test_a_line_that_closes_a_loop_goes_up_round_boxes(show, tmp_path):
    with tf.Graph().as_default() as graph:
        tf1.disable_control_flow_v2()
        tf1.while_loop(lambda x: x[0] < 3.0, lambda x: tf.tanh(x) * 2.0 + x, [tf.ones([2])])
        tf1.enable_control_flow_v2()
    file = tmp_path / "loop.pb"
    file.write_bytes(graph.as_graph_def().SerializeToString())
    page = show(file)
    search(page, "/.*/")
    page.get_by_role("button", name="Open all in the graph").click()
    ends = page.evaluate(
        """() => document.querySelector('#canvas')._cyreg.cy.edges()
        .map(each => each.targetEndpoint().y - each.sourceEndpoint().y)"""
    )
    assert min(ends) < 0
    assert crossings(page) == []


def test_1_000_nodes_open_with_their_layers_and_can_all_be_drawn(show, tmp_path):
    nodes = [("x", "Placeholder", [])]
    for layer in range(25):
        first = nodes[-1][0]
        for step in range(39):
            op = ("MatMul", "Relu", "Exp", "Tanh")[step % 4]
            read = [nodes[-1][0]] * (2 if op == "MatMul" else 1)
            nodes.append((f"net/layer_{layer}/{op.lower()}_{step}", op, read))
        nodes.append((f"net/layer_{layer}/skip", "AddV2", [nodes[-1][0], first]))
    page = show(write_graph(tmp_path, nodes))
    assert "1000 float nodes" in page.locator(".totals").inner_text()
    assert page.locator(".strip button").count() == 25
    assert len(drawn(page, "node.closed")) == 25
    assert crossings(page) == []
    search(page, "/.*/")
    page.get_by_role("button", name="Open all in the graph").click()
    assert 700 < len(drawn(page)) <= 1000
    assert crossings(page) == []


def test_20_000_nodes_never_draw_more_than_a_thousand(show, large):
    page = show(large)
    assert "20000 float nodes" in page.locator(".totals").inner_text()
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


def test_the_first_screen_shows_the_layers_and_gathers_what_has_nothing_to_decide(show, layered):
    page = show(layered)
    labels = drawn(page)
    assert any(label.startswith("▸ first\n") for label in labels)
    assert any(label.startswith("▸ 6 with nothing to decide\n6 nodes") for label in labels)
    assert not any("idle_" in label for label in labels)
    go_to(page, "net/idle_3")
    assert any("idle_3" in label for label in drawn(page))


def test_a_strip_shows_each_layer_s_share_and_casts_and_leads_to_it(show, layered):
    page = show(layered)
    buttons = page.locator(".strip button")
    assert buttons.locator(".name").all_inner_texts() == ["first", "second"]
    assert buttons.locator(".counts").first.inner_text() == "2 of 7 lowered, 2 Casts"
    buttons.nth(1).click()
    assert page.locator(".details h2").inner_text().endswith("second")


def test_a_layer_of_one_op_that_is_kept_is_in_the_strip_and_in_the_table(show, tmp_path):
    nodes = [("x", "Placeholder", [])]
    nodes.append(("net/dense/product", "MatMul", ["x", "x"]))
    nodes.append(("net/dense/relu", "Relu", ["net/dense/product"]))
    nodes.append(("net/exp/Exp", "Exp", ["net/dense/relu"]))
    page = show(write_graph(tmp_path, nodes))
    assert page.locator(".strip .name").all_inner_texts() == ["dense", "exp"]
    assert page.locator(".strip .counts").last.inner_text().startswith("0 of 1 lowered")
    page.get_by_role("tab", name="Layers").click()
    assert cells(page, 1) == ["net/dense", "net/exp"]


def test_a_table_says_why_most_of_a_layer_is_kept(show, layered):
    page = show(layered)
    page.get_by_role("tab", name="Layers").click()
    assert cells(page, 1) == ["net/first", "net/second"]
    assert cells(page, 3) == ["2", "2"]
    assert cells(page, 7)[0].startswith("5 of 5: ")


def test_enter_goes_to_the_op_and_not_to_its_argument(show, tmp_path):
    nodes = [("product_x", "Placeholder", []), ("product_of_x", "MatMul", ["product_x"] * 2)]
    page = show(write_graph(tmp_path, nodes))
    search(page, "product")
    page.locator("#search").press("Enter")
    assert selected(page) == "product_of_x"


def test_graphs_that_only_call_others_are_folded_below_the_one_that_computes(show, model_files):
    page = show(model_files.cnn)
    top = page.locator(".outline .row[aria-level='1'] .name").all_inner_texts()
    assert "only call" in top[-1]
    assert not any("signature_wrapper" in name for name in top)
    page.locator(".outline .row", has_text="only call").click()
    inside = page.locator(".outline .row[aria-level='2'] .name").all_inner_texts()
    assert any("signature_wrapper" in name for name in inside)


def test_a_training_opens_with_the_model_whose_layers_are_in_its_order(show, tmp_path):
    """The order does not depend on the size or the place of the gradients and updates."""
    nodes = [(f"update/exp_{step}", "Exp", ["x"]) for step in range(20)]
    for layer in ("last", "middle"):
        read = {"last": "net/middle/relu", "middle": "net/first/relu"}[layer]
        nodes.append((f"net/{layer}/product", "MatMul", [read, read]))
        nodes.append((f"net/{layer}/relu", "Relu", [f"net/{layer}/product"]))
    nodes += [("net/first/product", "MatMul", ["x", "x"])]
    nodes += [("net/first/relu", "Relu", ["net/first/product"]), ("x", "Placeholder", [])]
    nodes += [(f"gradient_tape/net/{step}", "MatMul", ["x", "x"]) for step in range(9)]
    page = show(write_graph(tmp_path, nodes))
    assert page.locator(".strip .name").all_inner_texts() == ["first", "middle", "last"]
    assert "▾ net" in drawn(page)
    assert "▸ update\nK 20" in drawn(page)


def test_a_scope_says_what_is_kept_in_it_and_why_without_its_sources(show, layered):
    page = show(layered)
    page.locator(".strip button").first.click()
    said = page.locator(".details").inner_text()
    why = page.locator(".details li").all_inner_texts()
    assert all(re.fullmatch(r"\d+: .* \(\w+\)", line) for line in why)
    assert "neutral_source" not in said
    assert "{" not in said


def test_the_first_click_in_the_outline_counts(show, layered):
    page = show(layered)
    page.locator(".outline .row", has_text="second").click()
    assert page.locator(".outline .row[aria-selected=true]").inner_text().find("second") >= 0
    assert any("product" in label for label in drawn(page))


def test_on_a_phone_nothing_is_wider_than_the_screen(show, layered):
    page = show(layered, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".strip button").first.is_visible()


def test_names_that_differ_in_a_number_only_are_one_part(show, tmp_path):
    nodes = [("x", "Placeholder", [])]
    for number in range(150):
        nodes += [(f"exp_{number}", "Exp", ["x"]), (f"tanh_{number}", "Tanh", ["x"])]
    page = show(write_graph(tmp_path, nodes))
    labels = drawn(page)
    assert any(label.startswith("▸ exp (150)\n") for label in labels)
    assert any(label.startswith("▸ tanh (150)\n") for label in labels)


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
    search(page, "/.*/")
    page.get_by_role("button", name="Open all in the graph").click()
    assert drawn(page, "edge.control") == []
    page.get_by_label("control inputs").check()
    assert len(drawn(page, "edge.control")) > 0
    page.keyboard.press("c")
    assert drawn(page, "edge.control") == []


def test_names_in_advice_are_regular_expressions_of_themselves(show, tmp_path):
    path = write_graph(tmp_path, [("x", "Placeholder", []), ("a.b-c", "Exp", ["x"])])
    page = show(path)
    go_to(page, "a.b-c")
    (told,) = story.stories(explained(path)[1], "a.b-c")
    (shown,) = page.locator(".advice code").all_inner_texts()[:1]
    assert shown == told.advice[0][0]
    assert r"node:a\\.b" in shown

"""The page of npu-precision report: short names, the address of a node, the outline, phones."""

from __future__ import annotations

import pytest
import tensorflow as tf
from support.browser import PATIENCE, needs_browser
from support.report_files import explained, needs_page, write_graph
from support.report_page import at, drawn, go_to, search, selected
from tensorflow.core.framework import types_pb2

from npu_precision.explain import report_data

pytestmark = [needs_browser, needs_page]

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
CALL = "StatefulPartitionedCall/StatefulPartitionedCall_1/"


@pytest.fixture(scope="module")
def inlined(tmp_path_factory):
    """A graph into which TensorFlow has inlined a function, as it names the nodes."""
    nodes = [
        ("x", "Placeholder", []),
        (f"{CALL}net/first/product", "MatMul", ["x", "x"]),
        (f"{CALL}net/first/gray", "Relu", [f"{CALL}net/first/product"]),
        ("StatefulPartitionedCall/net/first/gray", "Tanh", [f"{CALL}net/first/gray"]),
        (f"{CALL}net/__inference_end_12/out", "Exp", ["StatefulPartitionedCall/net/first/gray"]),
    ]
    return write_graph(tmp_path_factory.mktemp("inlined"), nodes)


def outline(page):
    return page.locator(".outline .row .name").all_inner_texts()


def test_names_are_without_the_calls_that_nodes_came_through(show, inlined):
    page = show(inlined)
    go_to(page, "net/first/product")
    assert selected(page) == "net/first/product"
    name = page.locator(".details h2 .name")
    assert name.get_attribute("title") == f"{CALL}net/first/product"
    facts = page.locator(".details dl").first.inner_text()
    assert f"{CALL}net/first/product" in facts
    assert "StatefulPartitionedCall_1" not in outline(page)
    assert any("product" in label for label in drawn(page))
    assert search(page, f"/^{CALL}net/first/product$/") == "1 node found"
    page.locator("#search").press("Escape")
    page.get_by_role("tab", name="Nodes").click()
    cell = page.get_by_role("cell", name="net/first/product", exact=True)
    assert cell.get_attribute("title") == f"{CALL}net/first/product"


def test_what_would_have_the_same_short_name_keeps_its_full_one(show, inlined):
    page = show(inlined)
    go_to(page, f"{CALL}net/first/gray")
    go_to(page, "StatefulPartitionedCall/net/first/gray")
    go_to(page, "net/out")


def test_a_mixlist_has_the_full_name(show, inlined):
    page = show(inlined)
    go_to(page, "net/first/product")
    assert f"node:{CALL}net/first/product" in page.locator(".advice code").first.inner_text()


def test_the_title_is_the_name_of_the_model_and_functions_have_short_names(show, model_files):
    page = show(model_files.lstm)
    assert page.locator("h1").inner_text().startswith("lstm")
    assert page.title() == "lstm: precision report"
    assert page.locator("h1").get_attribute("title") == model_files.lstm
    assert not any(name.startswith("__inference_") for name in outline(page))


def test_the_address_is_that_of_the_node_that_is_looked_at(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "scale")
    assert page.evaluate("location.hash") == "#node=scale"
    go_to(page, "both")
    assert page.evaluate("location.hash") == "#node=both"
    page.go_back()
    page.locator(".details h2", has_text="scale").wait_for()
    page.keyboard.press("Backspace")  # To its scope.
    assert page.evaluate("location.hash") == ""


def test_a_link_to_a_node_opens_it(show, inlined):
    page = show(inlined)
    escaped = CALL.replace("/", "%2F")
    for address in ("#node=net/first/product", f"#node={escaped}net/first/product"):
        other = page.context.new_page()
        other.goto(page.url + address)
        other.set_default_timeout(PATIENCE)
        other.wait_for_selector(".details h2 .name")
        assert selected(other) == "net/first/product"
        assert any("product" in label for label in drawn(other, "node.selected"))
        other.close()


def test_a_link_to_a_node_in_a_function_names_the_function(show, model_files):
    page = show(model_files.lstm)
    page.get_by_role("tab", name="Nodes").click()
    page.locator(".table:visible .body .row", has_text="MatMul").first.click()
    page.wait_for_selector(".details h2 .name")
    address, name = page.evaluate("location.hash"), selected(page)
    page.keyboard.press("Escape")
    page.evaluate("address => { location.hash = address; }", address)
    page.wait_for_selector(".details h2 .name")
    assert selected(page) == name
    assert "&in=" in address


def test_a_link_to_a_node_that_is_not_there_searches_for_it(show, model_files):
    page = show(model_files.frozen)
    page.evaluate("location.hash = '#node=scal'")
    page.locator(".found .count", has_text="1 node found").wait_for()
    assert page.locator("#search").input_value() == "scal"


def test_the_outline_can_be_in_the_order_of_execution(show, tmp_path):
    """In the file, the last layer comes first."""
    nodes = [
        ("net/c/end", "Exp", ["net/b/end"]),
        ("net/b/end", "Exp", ["net/a/end"]),
        ("net/a/end", "Exp", ["x"]),
        ("x", "Placeholder", []),
    ]
    page = show(write_graph(tmp_path, nodes))

    def layers():
        return [name for name in outline(page) if name in "abc"]

    assert layers() == ["c", "b", "a"]
    page.get_by_label("outline in order of execution").check()
    assert layers() == ["a", "b", "c"]
    assert outline(page)[1] == "x"
    page.keyboard.press("Escape")
    page.locator("#canvas").focus()
    page.keyboard.press("e")
    assert layers() == ["c", "b", "a"]


def test_a_story_has_the_attributes_of_the_node(show, tmp_path):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        tf.nn.conv2d(x, tf.zeros([3, 3, 3, 4]), 2, "SAME", name="conv")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    page = show(path)
    go_to(page, "conv")
    attributes = page.locator(".details div", has_text="Attributes").locator("dl")
    texts = attributes.locator("dt, dd").all_inner_texts()
    facts = dict(zip(texts[::2], texts[1::2]))
    assert facts["strides"] == "1, 2, 2, 1"
    assert facts["padding"] == "SAME"
    assert facts["data_format"] == "NHWC"
    assert "T" not in facts
    for node, shape in (("conv", "[?, 4, 4, 4]"), ("x", "[?, 8, 8, 3]")):
        go_to(page, node)
        texts = page.locator(".details dl").first.locator("dt, dd").all_inner_texts()
        assert dict(zip(texts[::2], texts[1::2]))["output shape"] == shape


def test_marks_and_long_values_are_no_attributes(tmp_path):
    path = write_graph(tmp_path, [("x", "Placeholder", []), ("y", "Exp", ["x"])])
    model, found = explained(path)
    (body,) = found.bodies
    y = body.definitions["y"]
    y.attr["_mark"].i = 1
    y.attr["many"].list.i.extend(range(100))
    y.attr["text"].s = b"a" * 1000
    y.attr["dtype"].type = types_pb2.DT_FLOAT
    data = report_data.report_data(model, found)
    row = data["nodes"]["name"].index("y")
    about = dict(data["attributes"][data["some"]["attributes"][row]])
    assert set(about) == {"many", "text"}
    assert about["many"].endswith("10, 11, ...")
    assert len(about["text"]) == 80


def test_of_a_node_that_is_not_float_the_shapes_are_those_that_tensorflow_recorded(tmp_path):
    path = write_graph(tmp_path, [("x", "Placeholder", []), ("y", "NoOp", [])])
    model, found = explained(path)
    (body,) = found.bodies
    body.definitions["y"].attr["_output_shapes"].list.shape.add().dim.add().size = 3
    body.definitions["y"].attr["_output_shapes"].list.shape.add().unknown_rank = True
    data = report_data.report_data(model, found)
    row = data["nodes"]["name"].index("y")
    assert data["strings"][data["some"]["shapes"][row]] == "[3], unknown"


def test_on_a_phone_the_graph_begins_in_the_upper_third(show, layered):
    page = show(layered, **PHONE)
    assert page.locator(".strip button").first.is_visible()
    assert page.locator("#canvas").bounding_box()["y"] <= 844 / 3
    # The rest of the sentence is shown at a tap.
    totals = page.locator(".totals")
    height = totals.bounding_box()["height"]
    assert totals.evaluate("each => each.scrollHeight > each.clientHeight")
    totals.tap()
    assert totals.bounding_box()["height"] > height
    assert not totals.evaluate("each => each.scrollHeight > each.clientHeight")


def test_on_a_phone_a_tap_brings_the_story_into_view(show, model_files):
    page = show(model_files.frozen, **PHONE)
    assert page.locator("header").bounding_box()["height"] <= 844 / 3
    page.touchscreen.tap(*at(page, "  scale\n"))
    page.wait_for_selector(".details h2 .name")
    assert selected(page) == "scale"

    def story():
        return page.locator(".details h2").bounding_box()

    assert 0 <= story()["y"] <= 300
    page.get_by_role("button", name="Back to the graph").tap()
    assert page.locator("#canvas").bounding_box()["y"] < 300
    page.locator(".outline .row", has_text="after").tap()
    assert selected(page) == "after"
    assert 0 <= story()["y"] <= 300


def test_on_a_desktop_the_page_does_not_scroll(show, model_files):
    page = show(model_files.frozen)
    go_to(page, "scale")
    assert page.evaluate("scrollY") == 0
    assert not page.get_by_role("button", name="Back to the graph").is_visible()

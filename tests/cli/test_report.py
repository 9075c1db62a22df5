"""npu-precision report: the content of the page and of TensorBoard's file, without a browser."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil

import pytest
import tensorflow as tf
from support.report_files import MIXED, data_in, explained, needs_page, write_graph
from support.strict_zip import strict_zip
from tensorflow.core.framework import graph_pb2

from npu_precision.explain import explanation, report, report_data, story, tensorboard
from npu_precision.explain.report_data import AFTER, BEFORE, DECISIONS
from npu_precision.offline.run_optimizer import RENAMED

MODE = ("--mode", "allow_mix_precision")
MODELS = ["cnn", "lstm", "checkpoint", "frozen"]


@pytest.fixture
def rows(model_files):
    """rows("cnn") -> the explanation, the page's data, and rows by (graph's name, node's name)."""

    def read(name):
        model, found = explained(getattr(model_files, name))
        data = json.loads(json.dumps(report_data.report_data(model, found)))
        names = {}
        for row, (graph, node) in enumerate(zip(data["nodes"]["graph"], data["nodes"]["name"])):
            names.setdefault((data["graphs"][graph], node), row)
        return found, data, names

    return read


@pytest.mark.parametrize("model", MODELS)
def test_every_node_is_in_the_page_with_its_decision(rows, model):
    found, data, names = rows(model)
    nodes, strings = data["nodes"], data["strings"]
    for body, node in found.nodes():
        row = names[body.name, node.name]
        assert DECISIONS[nodes["decision"][row]] == node.decision
        told = [strings[nodes[name][row]] for name in ("op", "list", "listed_by", "reason")]
        assert told == [node.op, node.list, node.listed_by, node.reason]
        dtypes = {name: pair for name, *pair in data["dtypes"][nodes["dtypes"][row]]}
        assert dtypes == {name: list(pair) for name, pair in node.dtypes.items()}
    for body in found.bodies:
        for name in body.definitions:
            row = names[body.name, name]
            if name not in body.nodes:
                assert DECISIONS[nodes["decision"][row]] == "not float"
    assert data["totals"] == found.counts().totals
    assert {len(column) for column in nodes.values()} == {len(nodes["name"])}


@pytest.mark.parametrize("model", MODELS)
def test_a_story_s_chain_and_advice_are_those_of_explain(rows, model):
    found, data, names = rows(model)
    nodes, some, strings = data["nodes"], data["some"], data["strings"]
    for told in story.stories(found, ""):
        row = first = names[told.body, told.node.name]
        chain = []
        while row != -1 and row not in chain:
            chain.append(row)
            row = nodes["follows"][row]
        steps = [(nodes["name"][at], _why(data, at)) for at in chain]
        assert steps == [(step.node, step.why) for step in told.steps]
        advice = []
        for key, about, effect in some["advice"].get(str(first), []):
            name = nodes["name"][about]
            entry = some["escaped"].get(str(about), name)
            mixlist = json.dumps({strings[key]: {"to-add": [f"node:{entry}"]}})
            advice.append((mixlist, strings[effect].format(node=name)))
        assert tuple(advice) == told.advice
        assert some["followers"].get(str(first), 0) == told.followers


@pytest.mark.parametrize("model", MODELS)
def test_values_and_missing_votes_are_those_of_explain(rows, model):
    found, data, names = rows(model)
    some, strings = data["some"], data["strings"]
    for told in story.stories(found, ""):
        row = str(names[told.body, told.node.name])
        for column, words in (("values", told.values), ("remark", told.remark)):
            number = some[column].get(row)
            assert ("" if number is None else strings[number]) == words
        assert some["range"].get(row, [None, None])[:2] == list(told.node.range or (None, None))
        silent = {
            (names[told.body, each.tensor.rpartition(":")[0]], each.no_vote)
            for each in told.fed_by
            if each.no_vote
        }
        assert {(at, strings[why]) for at, why in some["no_vote"].get(row, [])} == silent


def _why(data, row):
    cause = data["nodes"]["cause"][row]
    name = data["some"]["cause_elsewhere"].get(str(row), "")
    sentence = data["sentences"][data["strings"][data["nodes"]["reason"][row]]].format(
        cause=data["nodes"]["name"][cause] if cause != -1 else name,
        by=data["strings"][data["nodes"]["listed_by"][row]],
    )
    listed = data["some"]["why_listed"].get(str(row))
    return sentence if listed is None else f"{sentence}: {data['strings'][listed]}"


@pytest.mark.parametrize("model", MODELS)
def test_casts_are_between_what_they_cast_and_what_reads_them_but_only_after(rows, model):
    found, data, _ = rows(model)
    nodes, after = data["nodes"], data["some"]["inputs_after"]
    assert len(data["casts"]) == found.counts().totals["casts"] > 0
    for cast in data["casts"]:
        assert nodes["views"][cast["node"]] == AFTER
        assert nodes["views"][cast["of"]] & AFTER
        assert nodes["inputs"][cast["node"]][:2] == [cast["of"], cast["port"]]
        reading = sum(inputs[::2].count(cast["node"]) for inputs in after.values())
        reading += sum(
            inputs[::2].count(cast["node"])
            for row, inputs in enumerate(nodes["inputs"])
            if nodes["views"][row] == AFTER
        )
        assert reading >= cast["read_by"]
    before = [row for row, views in enumerate(nodes["views"]) if views & BEFORE]
    for row in before:
        assert all(nodes["views"][source] & BEFORE for source in nodes["inputs"][row][::2])


def test_a_fetched_node_and_the_cast_that_took_its_name_are_two_rows(rows):
    _, data, _ = rows("frozen")
    called_out = [row for row, name in enumerate(data["nodes"]["name"]) if name == "out"]
    assert len(called_out) == 2
    node, cast = called_out
    assert data["strings"][data["nodes"]["op"][node]] == "MatMul"
    assert data["nodes"]["views"][node] == BEFORE | AFTER
    assert DECISIONS[data["nodes"]["decision"][cast]] == "cast"
    assert data["nodes"]["inputs"][cast] == [node, 0]


def test_calls_lead_to_the_functions_in_the_page(rows):
    found, data, names = rows("lstm")
    called = {data["graphs"][graph] for each in data["some"]["calls"].values() for graph in each}
    assert called == {body.name for body in found.bodies} - {explanation.MAIN_GRAPH}
    for body in found.bodies:
        for name, definition in body.definitions.items():
            if "PartitionedCall" in definition.op:
                (graph,) = data["some"]["calls"][str(names[body.name, name])]
                assert data["graphs"][graph] == definition.attr["f"].func.name


def test_what_was_done_besides_dtypes_is_told_at_the_node(tmp_path, model_files):
    model, found = explained(model_files.cnn, dataclasses.replace(MIXED, fold_constants=True))
    data = report_data.report_data(model, found)
    told = {
        (body.name, entry.node, f"{entry.by}: {entry.before} -> {entry.after}")
        for body in found.bodies
        for entry in body.rewrites
    }
    assert told == {
        (data["graphs"][data["nodes"]["graph"][row]], data["nodes"]["name"][row], line)
        for row, lines in data["some"]["rewrites"].items()
        for line in lines
    }


def test_20_000_nodes_that_follow_one_another_are_a_few_megabytes(tmp_path):
    count = 20000
    chain = [(f"layer/n{i}", "Relu", [f"layer/n{i - 1}" if i else "scale"]) for i in range(count)]
    nodes = [("x", "Placeholder", []), ("scale", "Exp", ["x"]), *chain]
    model, found = explained(write_graph(tmp_path, nodes))
    text = json.dumps(report_data.report_data(model, found), separators=(",", ":"))
    assert len(text) < 5e6
    (blocker,) = found.blockers()
    assert (blocker.node.name, len(blocker.followers)) == ("scale", count)


def test_deciders_are_the_ends_of_the_chains(rows):
    for name in MODELS:
        found, _, _ = rows(name)
        for body in found.bodies:
            assert body.deciders() == {node: body.chain(node)[-1] for node in body.nodes}


def test_deciders_where_causes_go_round_in_a_circle():
    def node(name, cause):
        return explanation.LedgerNode(
            name, "Relu", "", "gray", "built-in", "kept", "shares_dtype", cause, {}
        )

    nodes = {each.name: each for each in (node("a", "b"), node("b", "c"), node("c", "b"))}
    body = explanation.Body("", {}, nodes, (), {})
    assert body.deciders() == {name: body.chain(name)[-1] for name in nodes}


# The file.


@needs_page
@pytest.mark.parametrize("model", MODELS)
def test_the_command_writes_a_page_of_one_file(command, model_files, model, tmp_path):
    file = tmp_path / "report.html"
    text = command("report", getattr(model_files, model), *MODE, "-o", file)
    assert "lowered " in text
    assert text.endswith(f"{file}: open it in a browser\n")
    page = file.read_text(encoding="utf-8")
    _, found = explained(getattr(model_files, model))
    assert data_in(page)["totals"] == found.counts().totals
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@needs_page
def test_text_of_the_model_cannot_end_the_element_that_it_is_in(tmp_path, model_files):
    model, found = explained(model_files.frozen)
    bad = "</script><!--<script>alert(1)</script> & \u2028 \U0001f600"
    report.write_report(tmp_path / "r.html", dataclasses.replace(model, path=bad), found)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert data_in(page)["model"] == bad
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("</script>") == report.read_page().count("</script>")
    assert "\u2028" not in page


@needs_page
def test_the_page_names_no_place_to_load_from_and_a_policy_that_forbids_it():
    page = report.read_page()
    assert "default-src 'none'" in page
    assert "script-src 'sha256-" in page
    assert "<link" not in page
    assert " src=" not in page.partition("<script")[0]


@needs_page
def test_the_page_holds_the_licences_of_what_is_bundled():
    licences = report.read_page().partition('id="licences">')[2].partition("</script>")[0]
    for package in ("cytoscape 3.", "@dagrejs/dagre ", "@dagrejs/graphlib "):
        assert f"{package}" in licences
    assert licences.count("Permission is hereby granted") >= 3


@needs_page
def test_the_curve_reaches_the_page_without_infinities(tmp_path, model_files):
    model, found = explained(model_files.frozen)
    points = [
        {"share": 0.0, "error": 0.0, "label": "none", "good": True, "chosen": False},
        {"share": 1.0, "error": float("inf"), "label": "all", "good": False, "chosen": True},
    ]
    report.write_report(tmp_path / "r.html", model, found, points)
    curve = data_in((tmp_path / "r.html").read_text(encoding="utf-8"))["curve"]
    assert curve == [points[0], {**points[1], "error": None}]


@needs_page
def test_a_page_that_exists_is_replaced_only_by_force(command, model_files, tmp_path):
    file = tmp_path / "report.html"
    file.write_text("mine")
    arguments = ("report", model_files.frozen, *MODE, "-o", file)
    assert "exists; --force replaces it" in command(*arguments, status=2)
    assert file.read_text() == "mine"
    command(*arguments, "--force")
    assert "<!doctype html>" in file.read_text(encoding="utf-8")


@needs_page
def test_a_failure_leaves_nothing_behind(command, model_files, tmp_path, monkeypatch):
    def fails(*arguments):
        raise ValueError("too bad")

    monkeypatch.setattr("npu_precision.explain.tensorboard.write_graph", fails)
    outputs = ("-o", tmp_path / "r.html", "--tensorboard", tmp_path / "logs")
    assert command("report", model_files.frozen, *MODE, *outputs, status=2).endswith("too bad\n")
    assert list(tmp_path.iterdir()) == []


def test_events_on_a_full_disk_are_an_error_with_their_file(model_files, tmp_path):
    model, found = explained(model_files.frozen)
    events = tmp_path / tensorboard.EVENTS
    events.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        tensorboard.write_graph(tmp_path, model, found)
    assert caught.value.filename == str(events)


@needs_page
@needs_page
def test_a_page_beside_a_checkpoint_is_replaced_by_force(command, model_files, tmp_path):
    """Its name begins as the checkpoint's does."""
    for file in pathlib.Path(model_files.checkpoint).parent.iterdir():
        shutil.copy(str(file), str(tmp_path))
    prefix = tmp_path / pathlib.Path(model_files.checkpoint).name
    page = f"{prefix}.html"
    for force in ([], ["--force"]):
        assert "open it" in command("report", prefix, *MODE, "-o", page, *force)
    for file in tmp_path.glob(f"{prefix.name}.[di]*"):
        error = command("report", prefix, *MODE, "-o", file, "--force", status=2)
        assert "is, is in, or holds what is read" in error


def test_the_model_itself_is_not_written_over(command, model_files):
    before = pathlib.Path(model_files.frozen).read_bytes()
    arguments = ("report", model_files.frozen, *MODE, "--force")
    assert "is, is in, or holds what is read" in command(
        *arguments, "-o", model_files.frozen, status=2
    )
    folder = ("report", model_files.cnn, *MODE, "--force", "--tensorboard", model_files.cnn)
    assert "is, is in, or holds what is read" in command(*folder, status=2)
    assert pathlib.Path(model_files.frozen).read_bytes() == before


def test_a_package_without_the_page_says_how_to_get_it(command, model_files, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PAGE", tmp_path / "none.html")
    text = command("report", model_files.frozen, *MODE, "-o", tmp_path / "r.html", status=2)
    assert "was not built with the package: install Node.js" in text
    assert text.count("\n") == 1
    command("report", model_files.frozen, *MODE, "--tensorboard", tmp_path / "logs")


def test_an_output_must_be_asked_for(command, model_files):
    text = command("report", model_files.frozen, *MODE, status=2)
    assert "expected --output or --tensorboard. See npu-precision report --help." in text


# TensorBoard's graph page.


@pytest.mark.parametrize("model", MODELS)
def test_tensorboard_reads_the_rewritten_graph_with_decisions_as_devices(
    command, model_files, model, tmp_path
):
    path = getattr(model_files, model)
    command("report", path, *MODE, "--tensorboard", tmp_path / "logs")
    (file,) = (tmp_path / "logs").iterdir()
    assert "tfevents" in file.name
    events = list(tf.compat.v1.train.summary_iterator(str(file)))
    (graph,) = [graph_pb2.GraphDef.FromString(e.graph_def) for e in events if e.graph_def]
    _, found = explained(path)
    bodies = {explanation.MAIN_GRAPH: graph.node}
    bodies.update((each.signature.name, each.node_def) for each in graph.library.function)
    for body in found.bodies:
        devices = {node.name: node.device for node in bodies[body.name]}
        assert devices.keys() == body.rewritten.keys()
        kinds = dict.fromkeys(("LOWERED", "KEPT", "CAST", "ADDED", "NOT_FLOAT"), 0)
        for device in devices.values():
            kinds[device[len("/device:") : -len(":0")]] += 1
        left = [
            node.decision
            for name, node in body.nodes.items()
            if {name, name + RENAMED} & devices.keys()
        ]
        assert (kinds["LOWERED"], kinds["KEPT"]) == (left.count("lowered"), left.count("kept"))
        assert kinds["CAST"] == len(body.casts)


def test_what_tensorboard_reads_is_a_graph_of_tensorflow_s(model_files):
    model, found = explained(model_files.lstm)
    graph_def = tensorboard.decided_graph(model, found)
    for body in (graph_def.node, *(each.node_def for each in graph_def.library.function)):
        for node in body:
            node.device = ""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    for node, name in strict_zip(graph.get_operations(), found.bodies[0].rewritten):
        assert node.name == name


def test_logs_of_others_stay(command, model_files, tmp_path):
    arguments = ("report", model_files.frozen, *MODE, "--tensorboard", tmp_path)
    (tmp_path / "events.out.tfevents.1.mine").write_text("")
    assert "exists; --force replaces it" in command(*arguments, status=2)
    assert "--force would delete something else" in command(*arguments, "--force", status=2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["events.out.tfevents.1.mine"]

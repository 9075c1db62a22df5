"""explain and report read the ledgers that a run has written into its report_dir."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import tensorflow as tf
from support.report_files import data_in, needs_page
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import function

import npu_precision

tf1 = tf.compat.v1
MODE = "allow_mix_precision"


@pytest.fixture
def run(tmp_path):
    """run(build) -> the folder with the ledgers of a session that runs each of build(x)."""

    def start(build, **options):
        folder = tmp_path / "ledgers"
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [2, 8], name="x")
            fetches = build(x)
            config = npu_precision.npu_config_proto(
                precision_mode=MODE, report_dir=str(folder), **options
            )
            with tf1.Session(config=config) as session:
                session.run(tf1.global_variables_initializer())
                for fetch in fetches if isinstance(fetches, list) else [fetches]:
                    session.run(fetch, {x: np.ones([2, 8])})
        return folder

    return start


def dense(x):
    # Random values, because TensorFlow would fold a constant.
    weights = tf.random.uniform([8, 8], seed=1, name="weights")
    return tf.exp(tf.nn.relu(tf.matmul(x, weights, name="product"), name="relu"), name="end")


def ledger_of(folder, node):
    """The file of the graph that has this float node."""
    (found,) = [
        file
        for file in folder.glob("*.json")
        if any(each["name"] == node for each in json.loads(file.read_text())["nodes"])
    ]
    return found


def test_a_folder_stands_for_the_graph_of_the_run_in_which_most_was_lowered(command, run):
    folder = run(dense)
    printed = command("explain", folder)
    file = ledger_of(folder, "product")
    count = len(list(folder.glob("*.json")))
    kind = f"ledger of a run, 1 of {count} graphs of the latest run in the folder"
    assert printed.startswith(f"{file}: {kind}\n")
    assert command("explain", file).startswith(f"{file}: ledger of a run\n")
    assert f"precision_mode {MODE}, report_dir {folder}" in printed
    assert "lowered 2 of 3 float nodes" in printed


def test_a_story_is_that_of_the_run_with_what_feeds_the_node(command, run):
    printed = command("explain", run(dense), "--node", "^(relu|end)$")
    assert "relu (Relu): lowered, T float32 -> float16" in printed
    assert "because product (MatMul), lowered: on the white list (built-in)" in printed
    assert "fed by product:0 (MatMul), lowered" in printed
    assert "end (Exp): kept" in printed
    assert "fed by relu:0 (Relu), lowered" in printed


def test_json_has_the_nodes_of_the_ledger(command, run):
    folder = run(dense)
    shown = json.loads(command("explain", folder, "--json"))
    written = json.loads(ledger_of(folder, "product").read_text())
    assert [node["name"] for node in shown["nodes"]] == [node["name"] for node in written["nodes"]]
    assert shown["totals"]["lowered"] == written["totals"]["lowered"]


def test_weights_are_not_written_beside_the_ledger(run):
    weights = np.random.RandomState(0).rand(8, 4000)
    folder = run(lambda x: tf.matmul(x, tf.constant(weights, tf.float32, name="w")))
    file = ledger_of(folder, "MatMul").with_suffix(".before.pb")
    assert file.stat().st_size < 4000
    graph = graph_pb2.GraphDef.FromString(file.read_bytes())
    (weights,) = [node for node in graph.node if node.name == "w"]
    assert list(weights.attr) == ["dtype"]


@needs_page
def test_the_page_shows_the_run_s_graph_before_and_after(command, run, tmp_path):
    folder = run(dense)
    page = tmp_path / "report.html"
    assert f"{page}: open it in a browser" in command("report", folder, "-o", page)
    data = data_in(page.read_text(encoding="utf-8"))
    names = data["nodes"]["name"]
    relu = names.index("relu")
    assert data["kind"].startswith("ledger of a run, 1 of")
    assert names.index("product") in data["nodes"]["inputs"][relu][::2]
    assert "x:0" in [cast["tensor"] for cast in data["casts"]]


@needs_page
def test_functions_that_the_graph_calls_are_in_the_page_too(command, run, tmp_path):
    @function.Defun(tf.float32, noinline=True, func_name="inner")
    def inner(x):
        return dense(x)

    def calls(x):
        y = inner(x)
        y.set_shape([2, 8])
        return tf.matmul(dense(y), tf.ones([8, 8]), name="last")

    folder = run(calls)
    page = tmp_path / "report.html"
    command("report", ledger_of(folder, "last"), "-o", page)
    data = data_in(page.read_text(encoding="utf-8"))
    assert data["graphs"] == ["", "inner"]
    assert data["title"] == "graph of a session"
    assert data["counts"].startswith("the graph that ran: ")
    assert data["nodes"]["name"].count("product") == 2
    assert list(data["some"]["calls"].values()) == [[1]]


def test_of_several_runs_in_a_folder_the_latest_counts_however_little_it_lowers(command, run):
    for file in run(dense).glob("*.json"):  # As another process has written them before.
        file.write_text(json.dumps({**json.loads(file.read_text()), "process": "1-1"}))
        os.utime(str(file), (1, 1))
    folder = run(dense, mixlist_edits='{"black-list": {"to-add": ["MatMul"]}}')
    assert "lowered 0 of 3 float nodes" in command("explain", folder)
    assert "product (MatMul): kept" in command("explain", folder, "--node", "^product$")


def test_a_node_is_looked_for_in_the_other_graphs_of_the_run_too(command, run):
    def two(x):
        return [dense(x), tf.matmul(x, x, transpose_b=True, name="small")]

    folder = run(two)
    assert "product (MatMul): lowered" in command("explain", folder, "--node", "^product$")
    assert "small (MatMul): lowered" in command("explain", folder, "--node", "^small$")
    error = command("explain", folder, "--node", "^nowhere$", status=2)
    assert "is found in the name of no float node" in error


@pytest.mark.parametrize("damage", [{"reason": "because"}, {"name": 3}, {"extra": 1}])
def test_a_damaged_ledger_is_an_error_with_its_name(command, run, damage):
    file = ledger_of(run(dense), "product")
    data = json.loads(file.read_text())
    if "extra" in damage:
        del data["nodes"][0]["decision"]
    data["nodes"][0].update(damage)
    file.write_text(json.dumps(data))
    error = command("explain", file, "--node", ".", status=2)
    assert f"'{file}': is damaged" in error
    assert "internal error" not in error


def test_a_flag_for_models_is_refused(command, run):
    folder = run(dense)
    for flags in (["--mode", "force_fp16"], ["--fetch", "end"], ["--batch-size", "2"]):
        error = command("explain", folder, *flags, status=2)
        assert f"{flags[0]}: expected a model, got {folder}" in error
        error = command("report", folder, "-o", "report.html", *flags, status=2)
        assert f"{flags[0]}: expected a model, got {folder}" in error


def test_a_ledger_of_a_conversion_has_no_graphs_beside_it(command, model_files, tmp_path):
    graph = graph_pb2.GraphDef()
    with open(model_files.frozen, "rb") as file:
        graph.ParseFromString(file.read())
    npu_precision.rewrite_graph_def(graph, ["out"], precision_mode=MODE, report_dir=str(tmp_path))
    (ledger,) = tmp_path.glob("*.json")
    error = command("explain", ledger, status=2)
    assert "is not beside it, which a run writes with the ledger" in error
    assert "of a conversion, give the model instead" in error


def test_a_damaged_graph_beside_a_ledger_is_an_error_with_its_name(command, run):
    folder = run(dense)
    file = ledger_of(folder, "product").with_suffix(".after.pb")
    file.write_bytes(file.read_bytes()[:-3])
    assert f"'{file}': is damaged" in command("explain", folder, status=2)


def test_no_ledger_among_the_files_of_a_folder(command, run):
    folder = run(dense)
    for file in folder.glob("*.json"):
        file.unlink()
    assert f"'{folder}': has graphs of a run, but none of its ledgers" in command(
        "explain", folder, status=2
    )


def test_two_ledgers_are_compared_and_folders_are_not(command, run):
    folder = run(dense)
    ledger = ledger_of(folder, "product")
    assert "no option, node or all-reduce differs" in command("explain", ledger, "--diff", ledger)
    assert "--diff: expected one ledger, got the folder" in command(
        "explain", folder, "--diff", ledger, status=2
    )


def test_the_page_cannot_replace_what_it_is_made_of(command, run):
    ledger = ledger_of(run(dense), "product")
    error = command("report", ledger, "-o", ledger, "--force", status=2)
    assert "is, is in, or holds what is read" in error

"""npu-precision compare-dumps: from the dumps of two runs to the mixlist that heals the first."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support.report_files import data_in, needs_page

import npu_precision
from npu_precision.cli.main import main
from npu_precision.npu_bridge import npu_init

assert npu_init  # reads the dump options
tf1 = tf.compat.v1
LAYERS, UNITS = 4, 16
X = np.random.default_rng(1).normal(size=[8, UNITS]).astype(np.float32)


def run(mode, mixlist=None, dump=None, report_dir=None):
    """A session's result: the values in the last layer are beyond float16."""
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        y = tf1.placeholder(tf.float32, X.shape, name="x")
        for layer in range(LAYERS):
            with tf.name_scope(f"layer_{layer}"):
                w = random.normal(size=[UNITS, UNITS]).astype(np.float32) / 4
                y = tf.nn.relu(tf.matmul(y, tf.constant(w), name="product"), name="relu")
                if layer == LAYERS - 2:
                    y = tf.multiply(y, 1e7, name="large")
        tf.reduce_mean(y, name="end")
    config = tf1.ConfigProto()
    entry = config.graph_options.rewrite_options.custom_optimizers.add(name="NpuOptimizer")
    entry.parameter_map["precision_mode"].s = mode.encode()
    if mixlist is not None:
        entry.parameter_map["modify_mixlist"].s = str(mixlist).encode()
    if report_dir is not None:
        entry.parameter_map["report_dir"].s = str(report_dir).encode()
    if dump is not None:
        entry.parameter_map["enable_dump"].b = True
        entry.parameter_map["dump_path"].s = str(dump).encode()
    with tf1.Session(graph=graph, config=config) as session:
        return session.run("end:0", {"x:0": X})


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """The folders of a run in float16, and of one in float32."""
    folder = tmp_path_factory.mktemp("dumps")
    run("allow_mix_precision", dump=folder / "float16")
    run("force_fp32", dump=folder / "float32")
    return [str(folder / "float16"), str(folder / "float32")]


def errors_at_nodes(page):
    """By name, the errors that the page of a graph has."""
    data = data_in(page.read_text())
    names = data["nodes"]["name"]
    return {names[int(row)]: error for row, error in data["some"]["entered"].items()}


def compare(*arguments):
    return main(["compare-dumps", *map(str, arguments)])


def test_it_ends_with_the_mixlist_that_heals_the_run(dumps, tmp_path, capsys):
    assert not np.isfinite(run("allow_mix_precision"))
    assert compare(*dumps, "--mixlist", tmp_path / "kept.json") == 0
    printed = capsys.readouterr().out
    assert "first divergence: layer_3/product (MatMul)" in printed
    assert "is infinite or NaN in the first dump alone" in printed
    assert "next: this mixlist keeps the ops in float32 at which error enters:" in printed
    mixlist = tmp_path / "kept.json"
    assert json.loads(mixlist.read_text()) == {"black-list": {"to-add": ["node:layer_3/product"]}}
    healed = tmp_path / "healed"
    assert run("allow_mix_precision", mixlist, healed) == pytest.approx(run("force_fp32"), rel=0.01)
    assert compare(healed, dumps[1]) == 0
    printed = capsys.readouterr().out
    assert "no tensor diverges" in printed
    assert "next: nothing is to be kept in float32." in printed
    assert compare(healed, dumps[1], "--mixlist", tmp_path / "nothing.json") == 0
    assert "nothing.json: not written" in capsys.readouterr().out
    assert not (tmp_path / "nothing.json").exists()


@needs_page
def test_the_graph_has_the_errors_at_its_nodes(dumps, tmp_path, capsys):
    assert compare(*dumps, "--graph", tmp_path / "graph.html") == 0
    assert "graph.html: open it in a browser" in capsys.readouterr().out
    entered = errors_at_nodes(tmp_path / "graph.html")
    assert entered == {"layer_3/product": None}  # It is infinite.
    data = data_in((tmp_path / "graph.html").read_text())
    assert data["counts"].startswith("the graph that ran: lowered 0 ")  # It was lowered before.
    assert any("npu_cast" in name for name in data["nodes"]["name"])


@needs_page
def test_with_a_ledger_the_graph_has_the_decisions_of_the_run(tmp_path):
    run("allow_mix_precision", dump=tmp_path / "low", report_dir=tmp_path / "ledgers")
    run("force_fp32", dump=tmp_path / "float32")
    folders = (tmp_path / "low", tmp_path / "float32")
    flags = ("--model", tmp_path / "ledgers", "--graph", tmp_path / "graph.html")
    assert compare(*folders, *flags) == 0
    assert list(errors_at_nodes(tmp_path / "graph.html")) == ["layer_3/product"]
    data = data_in((tmp_path / "graph.html").read_text())
    assert data["totals"]["lowered"] > LAYERS


def test_a_graph_needs_one(dumps, tmp_path, capsys):
    alone = []
    for folder in dumps:
        copy = tmp_path / pathlib.Path(folder).name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".graphs"))
        alone.append(copy)
    assert compare(*alone, "--graph", tmp_path / "graph.html") == 2
    assert "--graph: the dumps have no graph, expected --model" in capsys.readouterr().err
    assert not (tmp_path / "graph.html").exists()


def test_json_has_every_tensor(dumps, capsys):
    assert compare(*dumps, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "npu_precision.compare_dumps/1"
    assert data["reads_known_by"] == "graph"
    assert data["first_divergence"]["tensor"] == "layer_3/product"
    assert data["first_divergence"]["error"] == "inf"
    tensors = {row["tensor"]: row for row in data["tensors"]}
    assert 0 < tensors["layer_0/product"]["error"] < 2.0**-10
    assert not tensors["layer_2/large"]["diverges"]
    positions = [row["position"] for row in data["tensors"]]
    assert positions == list(range(len(positions)))
    assert data["mixlist"] == {"black-list": {"to-add": ["node:layer_3/product"]}}


def test_the_page_has_the_tensors_and_what_comes_next(dumps, tmp_path):
    page = tmp_path / "page.html"
    assert compare(*dumps, "-o", page) == 0
    text = page.read_text(encoding="utf-8")
    for part in ("Where error enters", "In the order of execution", "node:layer_3/product"):
        assert part in text


def test_a_threshold_decides_what_diverges(dumps, capsys):
    assert compare(*dumps, "--threshold", "1e-5", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["threshold"] == 1e-5
    assert data["first_divergence"]["tensor"] == "layer_0/product"


def test_a_model_tells_names_and_inputs(dumps, capsys):
    (graph,) = pathlib.Path(dumps[1]).rglob(".graphs/*/*.pb")
    assert compare(*dumps, "--model", graph, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reads_known_by"] == "graph"


def test_logs_of_recorders_are_compared_by_statistics(tmp_path, capsys):
    @tf.function
    def step(x, factor):
        with tf.name_scope("first"):
            y = tf.matmul(x, x, name="product")
        with tf.name_scope("second"):
            return tf.matmul(y * factor, x, name="product")

    ones = tf.ones([4, 4])
    for folder, factor in (("a", 2.0), ("b", 1.0)):
        with npu_precision.FlightRecorder(
            tmp_path / folder, 1, statistics=True
        ), npu_precision.autocast(dtype="float16"):
            step(ones, tf.constant(factor))
    assert compare(tmp_path / "a", tmp_path / "b", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    tensors = {row["tensor"]: row for row in data["tensors"]}
    assert tensors["x"]["error"] == 0
    assert tensors["second/product"]["error"] == 1
    assert tensors["second/product"]["by_statistics"]
    assert tensors["second/product"]["dtype"] == "float16"
    assert data["first"].endswith("a, step 0")
    assert data["threshold"] == 2.0**-7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "FIRST"], "'nowhere': no such folder, expected that of a dump"),
        (["FIRST", "SECOND", "--step", "7"], "has no dump of step 7"),
        (["FIRST", "SECOND", "--threshold", "0"], "--threshold"),
        (["FIRST", "SECOND", "--threshold", "nan"], "--threshold: got nan"),
        (["FIRST", "SECOND", "--model", "nowhere.pb"], "nowhere.pb"),
        (["FIRST", "SECOND", "--mixlist", "FIRST/kept.json"], "expected another name"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments, message, dumps, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    named = dict(zip(("FIRST", "SECOND"), dumps))
    given = [named.get(part) or part.replace("FIRST", dumps[0]) for part in arguments]
    assert compare(*given) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "kept.json").exists()

"""npu-precision explain: the decisions about a model and their reasons, on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from support.strict_zip import strict_zip
from support.text_graph import read_graph
from support.tf_versions import needs_kernels, needs_shapes_of_arguments
from tensorflow.core.framework import graph_pb2

from npu_precision import PrecisionOptions, rewrite_graph_def
from npu_precision.cli.explain import SCHEMA

MIXED = ("--mode", "allow_mix_precision")


@pytest.fixture
def explain_json(command):
    def explain(*arguments):
        data = json.loads(command("explain", *arguments, "--json"))
        assert data["schema"] == SCHEMA
        return data

    return explain


def test_a_table_by_op_type_then_casts_then_who_is_in_the_way(command, model_files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = command("explain", model_files.frozen, *MIXED)
    assert [line.rstrip() for line in text.splitlines()] == [
        f"{model_files.frozen}: GraphDef",
        "precision_mode allow_mix_precision",
        "the model as it is: 2 of 2 matrix and convolution ops in float16; lowered 3 of 6 float "
        "nodes, 4 Casts of 320 bytes; kept 3: 2 gray_follows_kept, 1 black_list",
        "",
        "Float nodes and sources by op type",
        "op type      nodes  list      lowered  kept  why kept",
        "MatMul           2  white           2     0",
        "AddV2            1  gray            0     1  gray_follows_kept",
        "Const            1  unlisted        0     1  neutral_source",
        "Exp              1  black           0     1  black_list",
        "Placeholder      1  unlisted        0     1  neutral_source",
        "Relu             1  gray            1     0",
        "Tanh             1  gray            0     1  gray_follows_kept",
        "",
        "Casts",
        "of tensor  from     to       bytes  read by",
        "product:0  float16  float32    128        1",
        "out:0      float16  float32     64        0",
        "x:0        float32  float16     64        1",
        "after:0    float32  float16     64        1",
        "",
        "Nodes that most gray nodes are kept for",
        "node   op type  gray nodes  why it is kept  listed by",
        "scale  Exp               2  black_list      built-in",
    ]


@pytest.mark.parametrize("model", ["cnn", "lstm", "checkpoint", "frozen", "frozen_text"])
@pytest.mark.parametrize("mode", ["allow_mix_precision", "force_fp16", "force_fp32"])
def test_every_kind_of_model_in_every_kind_of_mode(model, mode, explain_json, model_files):
    totals = explain_json(getattr(model_files, model), "--mode", mode)["totals"]
    assert totals["lowered"] + totals["raised"] + totals["kept"] == totals["float_nodes"]
    assert (totals["lowered"] > 0) == (totals["float_nodes"] > 0) == (mode != "force_fp32")


def test_it_is_what_the_optimizer_decides(explain_json, model_files):
    with open(model_files.frozen, "rb") as file:
        graph_def = graph_pb2.GraphDef.FromString(file.read())
    options = PrecisionOptions(precision_mode="allow_mix_precision")
    _, ledger = rewrite_graph_def(graph_def, "out", options)
    data = explain_json(model_files.frozen, *MIXED)
    for node, entry in strict_zip(data["nodes"], ledger.to_dict()["nodes"]):
        assert {**entry, "function": ""} == node
    assert [cast["name"] for cast in data["casts"]] == [cast.name for cast in ledger.casts]
    assert data["totals"]["cast_bytes"] == ledger.totals["cast_bytes"]


def test_of_a_saved_model_only_what_the_signature_calls_is_counted(explain_json, model_files):
    data = explain_json(model_files.cnn, *MIXED)
    assert data["signature"] == "serving_default"
    counts = {row["op"]: row["nodes"] for row in data["by_op"]}
    assert counts["Conv2D"] == counts["MatMul"] == counts["Softmax"] == 1
    assert not {"SaveV2", "RestoreV2"} & counts.keys()


def test_a_fetch_narrows_it_to_what_the_fetch_needs(explain_json, model_files):
    everything = explain_json(model_files.checkpoint, *MIXED)
    logits = explain_json(model_files.checkpoint, *MIXED, "--fetch", "logits:0")
    names = {node["name"] for node in logits["nodes"]}
    assert {"x", "product", "hidden", "scale", "logits"} <= names
    assert not {"loss", "Momentum"} & names
    assert names < {node["name"] for node in everything["nodes"]}


def test_the_nodes_that_block_most_come_first_with_all_that_they_block(explain_json, model_files):
    (blocker,) = explain_json(model_files.frozen, *MIXED)["blockers"]
    assert blocker == {
        "function": "",
        "node": "scale",
        "op": "Exp",
        "reason": "black_list",
        "listed_by": "built-in",
        "followers": ["both", "after"],
    }


@needs_shapes_of_arguments
def test_casts_in_functions_have_sizes_where_a_batch_size_says_the_rest(explain_json, tmp_path):
    class Model(tf.Module):
        def __init__(self):
            self.weights = tf.Variable(tf.ones([8, 3]))

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32)])
        def serve(self, x):
            return tf.exp(tf.matmul(x, self.weights))

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)

    def sizes(*arguments):
        casts = explain_json(tmp_path / "model", *MIXED, *arguments)["casts"]
        return {cast["input"].rpartition("/")[2]: cast["bytes"] for cast in casts}

    weights = 2 * 8 * 3
    assert sizes() == {"ReadVariableOp:0": weights, "x:0": None, "MatMul:0": None}
    assert sizes("--batch-size", "5") == {
        "ReadVariableOp:0": weights,
        "x:0": 2 * 5 * 8,
        "MatMul:0": 4 * 5 * 3,
    }


def test_a_mixlist_is_told_of_with_its_warnings_and_names(command, model_files, mixlist):
    file = mixlist(black=["ReduceSumD", "SoftmaxV3"], white=["Exp"])
    text = command("explain", model_files.frozen, *MIXED, "--mixlist", file)
    assert "ReduceSumD stands for Sum" in text
    assert "'SoftmaxV3' is not an op type of TensorFlow or Ascend" in text
    assert "lowered 6 of 6" in text


def test_a_node_that_a_line_of_customize_dtypes_decides_about_is_shown_with_no_list(
    command, model_files, tmp_path
):
    """The line stands for its list, which would be white or black by the dtype that it gives."""
    file = tmp_path / "dtypes.cfg"
    file.write_text(
        "product::InputDtype:float32,float32,OutputDtype:float32\n"
        "OpType::Tanh:InputDtype:float16,OutputDtype:float16\n"
    )
    text = command("explain", model_files.frozen, *MIXED, "--customize-dtypes", str(file))
    assert "MatMul           2  customized 1, white 1" in text
    assert "Tanh             1  customized " in text
    assert "Relu             1  gray " in text


def test_a_difference_lists_the_nodes_that_change(command, explain_json, model_files, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(
        PrecisionOptions(
            precision_mode="allow_mix_precision",
            mixlist_edits='{"black-list": {"to-add": ["node:lowered"]}}',
        ).to_json()
    )
    arguments = (model_files.frozen, *MIXED, "--diff", str(other))
    data = explain_json(*arguments)
    (change,) = data["changes"]
    assert change["before"]["name"] == "lowered"
    assert (change["before"]["decision"], change["after"]["decision"]) == ("lowered", "kept")
    assert data["totals"]["lowered"] == data["other"]["totals"]["lowered"] + 1
    text = command("explain", *arguments)
    assert "1 float nodes change" in text
    assert "lowered: gray_follows_lowered (product)" in text
    assert "kept: black_list" in text


def test_no_difference_is_said_to_be_none(command, model_files, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"precision_mode_v2": "mixed_float16"}')
    text = command("explain", model_files.frozen, *MIXED, "--diff", other)
    assert "no float node changes" in text


def test_node_names_are_text_and_no_markup(command, tmp_path):
    graph = read_graph("x = Placeholder(shape=4)\na.b_\\>c = Relu(x)")
    (tmp_path / "model.pb").write_bytes(graph.SerializeToString())
    text = command("explain", tmp_path / "model.pb", *MIXED, "--node", "b_")
    assert text.startswith("a.b_\\>c (Relu): kept\n")


def test_in_a_pipe_names_are_whole(command, tmp_path, monkeypatch):
    name = "scope/" * 40 + "product"
    graph = read_graph(f"x = Placeholder(shape=4x4)\n{name} = MatMul(x, x)\nout = Exp({name})")
    (tmp_path / "model.pb").write_bytes(graph.SerializeToString())
    monkeypatch.delenv("COLUMNS", raising=False)
    printed = command("explain", tmp_path / "model.pb", "--mode", "allow_mix_precision")
    assert f"\n{name}:0 " in printed
    assert not any(line.endswith(" ") for line in printed.splitlines())


def test_what_rewrites_could_not_change_is_told_with_the_reason(
    command, explain_json, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [3, 4, 4, 4], name="x")
        y = tf.nn.conv2d(x, tf.ones([1, 1, 4, 4]), 1, "SAME")
        mean = tf.reduce_mean(y, [0, 1, 2])
        variance = tf.reduce_mean(tf.abs(y - mean), [0, 1, 2], name="variance")
        tf.multiply(y - mean, tf.math.rsqrt(variance + 1e-3, name="root"), name="out")
    file = str(tmp_path / "model.pb")
    tf.io.write_graph(graph, str(tmp_path), "model.pb", as_text=False)
    mode = ("--mode", "allow_mix_precision_bf16", "--fetch", "out")
    (missed,) = explain_json(file, *mode)["missed"]
    assert (missed["function"], missed["node"], missed["by"]) == ("", "root", "trained_norms")
    assert missed["why"].startswith("its root is not that of the variance of x")
    shown = command("explain", file, *mode)
    assert "What rewrites could not change" in shown
    story = command("explain", file, *mode, "--node", "root")
    assert f"  trained_norms changes nothing, because {missed['why']}" in story
    assert missed["why"] in shown


REDUCED = """
    x = Placeholder(shape=64x8)
    y = Placeholder(shape=8x32)
    gradients/a_grad/MatMul = MatMul(x, y)
    key = Const[int32](value=1)
    sum = CollectiveReduceV2(gradients/a_grad/MatMul, key, key, key, merge_op=Add, final_op=Id,
        Nordering_token=0)
    end = Neg(sum)
    """


@needs_kernels("bfloat16", "CollectiveReduceV2")
def test_all_reduces_are_summed_up(command, explain_json, tmp_path):
    file = tmp_path / "graph.pb"
    file.write_bytes(read_graph(REDUCED).SerializeToString())
    arguments = (file, "--mode", "allow_mix_precision_bf16", "--lower-collectives")
    assert ", all-reduces of 4.1 kB instead of 8.2 kB; kept " in command("explain", *arguments)
    totals = explain_json(*arguments)["totals"]
    assert (totals["collective_bytes_before"], totals["collective_bytes_after"]) == (8192, 4096)


# Two ledgers, as two workers write them.


@pytest.fixture
def ledgers(tmp_path):
    """Paths of the ledgers of one graph, in two modes."""
    paths = []
    for mode in ("allow_mix_precision", "force_fp16"):
        graph = read_graph("x = Placeholder(shape=2x2)\ny = MatMul(x, x)")
        options = PrecisionOptions(precision_mode=mode)
        path = tmp_path / f"step-worker{len(paths)}-0001.json"
        path.write_text(rewrite_graph_def(graph, "y", options)[1].to_json())
        paths.append(str(path))
    return paths


def test_two_ledgers_differ_in_options_and_nodes(command, ledgers):
    text = command("explain", ledgers[0], "--diff", ledgers[1])
    assert f"{ledgers[0]}: " in text
    assert f"{ledgers[1]}: " in text
    changes = json.loads(command("explain", ledgers[0], "--diff", ledgers[1], "--json"))["changes"]
    assert changes == [
        {
            "what": "option",
            "name": "precision_mode",
            "before": "allow_mix_precision",
            "after": "force_fp16",
        },
        {
            "what": "node",
            "name": "y",
            "before": "lowered: white_list, T float32 -> float16",
            "after": "lowered: forced, T float32 -> float16",
        },
    ]


def test_a_ledger_does_not_differ_from_itself(command, ledgers):
    text = command("explain", ledgers[0], "--diff", ledgers[0])
    assert "no option, node or all-reduce differs" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "step-worker0-0001.before.pb' is not beside it"),
        (["--mode", "fp16", "--diff", "OTHER"], "--mode: "),
        (["--node", "y", "--diff", "OTHER"], "--node and --diff: expected one of the two"),
        (["--diff", "NO_LEDGER"], "got schema None"),
        (["--diff", "none.json"], "none.json: No such file"),
    ],
)
def test_what_a_ledger_does_not_take_is_told(arguments, message, command, ledgers, tmp_path):
    (tmp_path / "no_ledger.json").write_text("{}")
    places = {"OTHER": ledgers[1], "NO_LEDGER": str(tmp_path / "no_ledger.json")}
    arguments = [places.get(each, each) for each in arguments]
    assert message in command("explain", ledgers[0], *arguments, status=2)


def test_an_entry_without_the_scopes_of_a_node_has_a_hint_in_every_command(
    command, arrays, graph_file, tmp_path
):
    model = graph_file(
        "x = Placeholder(shape=2x2)\na/b/product = MatMul(x, x)\nend = Exp(a/b/product)"
    )
    mixlist = tmp_path / "m.json"
    mixlist.write_text('{"black-list": {"to-add": ["node:b/product", "node:c"]}}')
    flags = [model, *MIXED, "--mixlist", mixlist]
    inputs = ["--inputs", arrays(x=np.ones([2, 2], np.float32))]
    line = f"warning: {mixlist}:1:28: 'node:b/product' matches no node of the graph"
    meant = "; did you mean 'node:a/b/product'?"
    for asked in (
        ["explain", *flags],
        ["explain", *flags, "--node", "end"],
        ["compare", *flags, *inputs],
        ["convert", *flags, "-o", tmp_path / "out.pb"],
        ["report", *flags, "-o", tmp_path / "page.html"],
    ):
        printed = command(*asked)
        assert f"{line}{meant}\n" in printed, asked[0]
        assert "'node:c' matches no node of the graph\n" in printed
    linted = command("lint", mixlist, "--model", model, *MIXED)
    assert f"matches no node of the graph{meant} [no-match]" in linted


def test_of_a_training_graph_the_step_is_shown_without_initializers_and_what_saves(
    command, model_files
):
    shown = command("explain", model_files.checkpoint, *MIXED)
    assert ".meta: MetaGraph, its training step (" in shown
    names = [node["name"] for node in explanation_of(command, model_files.checkpoint)["nodes"]]
    assert any(name.startswith("gradients/") for name in names)
    assert not any(name.startswith("save/") or "Initializer" in name for name in names)
    asked = explanation_of(command, model_files.checkpoint, "--fetch", "save/control_dependency")
    assert any(node["name"].startswith("save/") for node in asked["nodes"])


def explanation_of(command, model, *flags):
    return json.loads(command("explain", model, *MIXED, "--json", *flags))

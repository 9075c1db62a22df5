"""npu-precision convert: a model in a file, lowered, for TensorFlow without this package."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from support.model_files import input_name
from support.strict_zip import strict_zip
from support.text_graph import read_graph
from tensorflow.core.framework import graph_pb2

from npu_precision import outputs
from npu_precision.offline import model_file

tf1 = tf.compat.v1
MIXED = ("--mode", "allow_mix_precision")
# The error of values around one after a handful of float16 ops, some of which sum in float16.
ROUNDED = 16 * 2**-11


@pytest.fixture
def convert(command, tmp_path):
    """convert(model, ..., to=name) -> (the path of the result, the output)."""

    def run(model, *arguments, to="converted"):
        output = tmp_path / to
        return output, command("convert", model, *MIXED, "-o", output, *arguments)

    return run


def served(folder, x):
    with tf.Graph().as_default(), tf1.Session() as session:
        meta_graph = tf1.saved_model.load(session, ["serve"], str(folder))
        signature = meta_graph.signature_def["serving_default"]
        (given,), (result,) = signature.inputs.values(), signature.outputs.values()
        return session.run(result.name, {given.name: x})


@pytest.mark.parametrize(("model", "shape"), [("cnn", (2, 12, 12, 3)), ("lstm", (2, 5, 4))])
def test_a_saved_model_keeps_its_signature_and_yields_the_same_but_rounded(
    model, shape, convert, model_files
):
    source = getattr(model_files, model)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    folder, text = convert(source)
    now, before = served(folder, x), served(source, x)
    assert now.dtype == np.float32
    assert not np.array_equal(now, before)
    np.testing.assert_allclose(now, before, rtol=ROUNDED, atol=ROUNDED)
    assert re.search(
        r"\nall that is saved: ([1-9]\d*) of \1 matrix and convolution ops in float16; "
        r"lowered [1-9]\d* of \d+ float nodes, [1-9]\d* Casts",
        text,
    )


@pytest.mark.parametrize("to", ["out.pb", "out.pbtxt"])
@pytest.mark.parametrize("model", ["frozen", "frozen_text"])
def test_a_graph_def_is_written_as_its_name_says_and_yields_the_same_but_rounded(
    model, to, convert, model_files, run_graph
):
    path, _ = convert(getattr(model_files, model), to=to)
    if to == "out.pbtxt":
        graph = text_format.Parse(path.read_text(), graph_pb2.GraphDef())
    else:
        graph = graph_pb2.GraphDef.FromString(path.read_bytes())
    before = graph_pb2.GraphDef.FromString(pathlib.Path(model_files.frozen).read_bytes())
    x = np.random.default_rng(0).normal(size=[4, 8]).astype(np.float32) / 4
    now, float32 = (run_graph(each, "out:0", {"x:0": x}) for each in (graph, before))
    assert now.dtype == np.float32
    assert not np.array_equal(now, float32)
    np.testing.assert_allclose(now, float32, rtol=ROUNDED, atol=ROUNDED)


def test_a_meta_graph_can_be_trained_on_from_its_checkpoint(convert, model_files):
    path, _ = convert(model_files.checkpoint, to="out.meta")
    losses = []
    for meta_graph in (path, model_files.checkpoint + ".meta"):
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.train.import_meta_graph(str(meta_graph)).restore(session, model_files.checkpoint)
            x = np.ones([3, 8], np.float32)
            (train_op,) = tf1.get_collection("train_op")
            feed = {"x:0": x, "labels:0": [0, 1, 2]}
            losses.append([session.run(["loss:0", train_op], feed)[0] for _ in range(5)])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=ROUNDED)


@pytest.fixture
def inputs(tmp_path):
    """inputs(name=shape, ...) -> an .npz file of random arrays."""

    def write(**shapes):
        generator = np.random.default_rng(0)
        arrays = {name: generator.normal(size=shape) / 4 for name, shape in shapes.items()}
        np.savez(str(tmp_path / "inputs.npz"), **arrays)
        return tmp_path / "inputs.npz"

    return write


@pytest.mark.parametrize(
    ("model", "to", "shape"),
    [
        ("cnn", "folder", (2, 12, 12, 3)),
        ("frozen", "out.pb", (4, 8)),
        ("checkpoint", "out.meta", (4, 8)),
    ],
)
def test_what_is_verified_is_written_with_its_error_or_not_at_all(
    model, to, shape, convert, command, inputs, model_files, tmp_path
):
    source = getattr(model_files, model)
    asked = ["--fetch", "logits"] if model == "checkpoint" else []
    name = input_name(source) if model == "cnn" else "x"
    flags = (*asked, "--verify", inputs(**{name: shape}), "--max-error")
    path, text = convert(source, *flags, "0.01", to=to)
    error = float(re.search(r"output \S+: error (\S+) \(at most 0.01\), max abs \d", text)[1])
    assert 1e-5 < error < 0.01
    assert path.exists()
    text = command("convert", source, *MIXED, "-o", tmp_path / "no", *flags, error / 9, status=1)
    assert re.match(
        rf"nothing was written: output \S+ has error {error:.1e}, more than --max-error", text
    )
    assert not (tmp_path / "no").exists()
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(("no", "."))]


def test_without_a_limit_the_errors_are_shown(convert, inputs, model_files):
    path, text = convert(model_files.frozen, "--verify", inputs(x=(4, 8)), to="out.pb")
    assert re.search(r"output \S+: error \S+, max abs \d", text)
    assert path.exists()


def test_a_model_that_computes_in_float16_is_slow_on_a_cpu(convert, model_files):
    slow = "nodes compute in float16, as an accelerator does it"
    _, text = convert(model_files.frozen, to="out.pb")
    assert f"warning: 3 {slow}" in text
    for number, flags in enumerate(
        [
            ["--float16-compute", "native"],
            ["--float16-compute", "float32"],
            ["--target", "ascend910"],
        ]
    ):
        _, text = convert(model_files.frozen, *flags, to=f"out{number}.pb")
        assert slow not in text
    _, text = convert(model_files.frozen, "--mode", "allow_mix_precision_bf16", to="low.pb")
    assert slow not in text


def test_a_verification_that_cannot_be_made_is_an_error(command, inputs, model_files, tmp_path):
    def error(*flags, model=model_files.frozen):
        return command("convert", model, *MIXED, "-o", tmp_path / "no", *flags, status=2)

    file = inputs(x=(4, 8))
    assert "--max-error goes with --verify" in error("--max-error", "1")
    assert "got nan, expected a number" in error("--verify", file, "--max-error", "nan")
    assert "--signature goes with --verify" in error(
        "--signature", "serving_default", model=model_files.cnn
    )
    assert "No such file" in error("--verify", tmp_path / "none.npz", "--max-error", "1")
    wrong = inputs(y=(4, 8))
    assert "got an array 'y', but the model's input is 'x'" in error(
        "--verify", wrong, "--max-error", "1"
    )
    assert not (tmp_path / "no").exists()


def test_sizes_are_of_the_files(convert, tmp_path):
    graph = read_graph(
        """
        x = Placeholder(shape=4x256)
        w = Const(shape=256x256)
        out = MatMul(x, w)
        """
    )
    (tmp_path / "large.pb").write_bytes(graph.SerializeToString())
    path, text = convert(tmp_path / "large.pb", to="small.pb")
    before, after = ((tmp_path / name).stat().st_size for name in ("large.pb", "small.pb"))
    assert after < 0.52 * before
    shown = f"{before / 1000:.1f} kB -> {after / 1000:.1f} kB ({after / before:.2f})"
    assert text.splitlines()[0] == f"{path}: {shown}"


def test_only_the_fetches_that_are_named_keep_their_dtype(convert, model_files):
    path, _ = convert(model_files.frozen, "--fetch", "both")
    graph = graph_pb2.GraphDef.FromString(path.read_bytes())
    dtypes = {node.name: node.attr["T"].type for node in graph.node}
    assert dtypes["both"] == tf.float32.as_datatype_enum
    assert dtypes["out"] == tf.float16.as_datatype_enum


def test_what_exists_is_replaced_only_when_asked(convert, command, model_files, tmp_path):
    for model, to in ((model_files.frozen, "out.pb"), (model_files.cnn, "folder")):
        path, _ = convert(model, to=to)
        listing = sorted(os.listdir(str(tmp_path)))
        text = command("convert", model, *MIXED, "-o", path, status=2)
        assert text == f"npu-precision: output {str(path)!r} exists; --force replaces it\n"
        convert(model, "--force", to=to)
        assert sorted(os.listdir(str(tmp_path))) == listing


def test_force_replaces_no_folder_but_a_saved_model(command, model_files, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years")
    for model in (model_files.cnn, model_files.frozen):
        arguments = ("convert", model, *MIXED, "-o", tmp_path / "home", "--force")
        command(*arguments, status=2)
        assert os.listdir(str(tmp_path)) == ["home"]
        assert (tmp_path / "home" / "thesis.txt").read_text() == "years"


def test_a_model_is_not_converted_into_itself(command, model_files):
    for model, output, message in (
        (model_files.frozen, model_files.frozen, "is the model itself"),
        (model_files.cnn, model_files.cnn, "is the model itself"),
        (model_files.cnn, model_files.cnn + "/variables/new", "is inside the model"),
    ):
        text = command("convert", model, *MIXED, "-o", output, "--force", status=2)
        assert message in text


def test_an_error_leaves_nothing_behind(command, model_files, tmp_path):
    broken = read_graph("x = Placeholder(shape=4x8)\nout = MatMul(x, x)")
    del broken.node[1].attr["T"]
    (tmp_path / "broken.pb").write_bytes(broken.SerializeToString())
    command("convert", tmp_path / "broken.pb", *MIXED, "-o", tmp_path / "out.pb", status=2)
    assert os.listdir(str(tmp_path)) == ["broken.pb"]


def test_where_nothing_can_be_written_is_told_before_anything_is_done(command, model_files):
    text = command("convert", model_files.frozen, *MIXED, "-o", "/proc/out.pb", status=2)
    assert text.startswith("npu-precision: output '/proc/out.pb' cannot be written: ")


def test_fetches_are_not_for_saved_models(command, model_files, tmp_path):
    arguments = ("convert", model_files.cnn, *MIXED, "-o", tmp_path / "out", "--fetch")
    name = "StatefulPartitionedCall"
    assert "--fetch is for GraphDefs" in command(*arguments, name, status=2)


def test_outputs_of_a_signature_are_for_verifying_it(command, model_files, tmp_path):
    (name,) = (
        model_file.load_model(model_files.cnn).meta_graph.signature_def["serving_default"].outputs
    )
    arguments = ("convert", model_files.cnn, *MIXED, "-o", tmp_path / "out", "--fetch", name)
    assert "--fetch, for a SavedModel, goes with --verify" in command(*arguments, status=2)
    text = command(
        "convert", model_files.frozen, *MIXED, "-o", tmp_path / "o", "--batch-size", 2, status=2
    )
    assert "--batch-size goes with --verify" in text


def dtypes(graph):
    attribute = {"Placeholder": "dtype", "Cast": "DstT"}
    return {
        node.name: tf.as_dtype(node.attr[attribute.get(node.op, "T")].type).name
        for node in graph.node
        if node.op not in ("Const", "NoOp")
    }


def test_inputs_and_outputs_that_are_only_cast_may_become_low(command, tmp_path, run_graph):
    source = read_graph(
        """
        x = Placeholder(shape=4x4)
        y = Placeholder(shape=4x4)
        product = MatMul(x, y)
        kept = Exp(y)
        out = Relu(product)
        also_read = Neg(product)
        end = Exp(also_read)
        """
    )
    (tmp_path / "in.pb").write_bytes(source.SerializeToString())
    arguments = ("convert", tmp_path / "in.pb", *MIXED, "-o", tmp_path / "out.pb")
    fetches = [f"--fetch={name}" for name in ("kept", "out", "also_read", "end")]
    text = command(*arguments, *fetches, "--no-keep-io-types")
    assert text.splitlines()[2:5] == [
        "x: float32 -> float16",
        "out: float32 -> float16",
        "also_read: float32 -> float16",
    ]
    result = graph_pb2.GraphDef.FromString((tmp_path / "out.pb").read_bytes())
    assert dtypes(result) == {
        "x": "float16",
        "y": "float32",
        "y/npu_cast_0_float16": "float16",
        "product": "float16",
        "kept": "float32",
        "out": "float16",
        "also_read": "float16",
        "also_read/npu_changed": "float32",
        "end": "float32",
    }
    x, y = (np.random.default_rng(n).normal(size=[4, 4]).astype(np.float32) / 4 for n in (0, 1))
    names = ["kept:0", "out:0", "also_read:0", "end:0"]
    low = run_graph(result, names, {"x:0": x.astype(np.float16), "y:0": y})
    float32 = run_graph(source, names, {"x:0": x, "y:0": y})
    assert [value.dtype.name for value in low] == ["float32", "float16", "float16", "float32"]
    for one, other in strict_zip(low, float32):
        np.testing.assert_allclose(one, other, rtol=ROUNDED, atol=ROUNDED)


def test_signatures_say_what_dtype_inputs_and_outputs_became(command, tmp_path):
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        out = tf.matmul(x, tf.ones([4, 2]), name="out")
        tf1.saved_model.simple_save(session, folder, {"x": x}, {"out": out})
    output = tmp_path / "low"
    command("convert", folder, *MIXED, "-o", output, "--no-keep-io-types")
    with tf.Graph().as_default(), tf1.Session() as session:
        meta_graph = tf1.saved_model.load(session, ["serve"], str(output))
        signature = meta_graph.signature_def["serving_default"]
        infos = [signature.inputs["x"], signature.outputs["out"]]
        assert [tf.as_dtype(info.dtype) for info in infos] == [tf.float16, tf.float16]
        got = session.run(infos[1].name, {infos[0].name: np.ones([1, 4], np.float16)})
    assert got.dtype == np.float16
    assert got.tolist() == [[4, 4]]


def test_inputs_of_functions_keep_their_dtype_and_that_is_said(convert, model_files):
    _, text = convert(model_files.cnn, "--no-keep-io-types")
    assert "no input or output changed: they are of functions" in text


def test_a_saved_model_is_not_given_the_name_of_a_keras_file(command, model_files, tmp_path):
    output = str(tmp_path / "low.keras")
    text = command("convert", model_files.cnn, *MIXED, "-o", output, status=2)
    assert "has the name of a Keras file, expected another name" in text
    assert not (tmp_path / "low.keras").exists()


def test_a_model_inside_the_output_is_not_deleted(command, model_files, tmp_path):
    outer = tmp_path / "outer"
    shutil.copytree(model_files.cnn, str(outer))
    shutil.copytree(model_files.cnn, str(outer / "backup"))
    text = command("convert", outer / "backup", *MIXED, "-o", outer, "--force", status=2)
    assert "is inside of output" in text
    assert (outer / "backup" / "saved_model.pb").exists()


def test_what_was_there_comes_back_if_replacing_it_is_interrupted(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "saved_model.pb").write_text("old")
    rename = os.rename

    def interrupted(source, destination):
        if pathlib.Path(destination) == target and "replaced" not in str(source):
            raise KeyboardInterrupt
        rename(source, destination)

    def replace():
        with outputs.new_folder(target, force=True, mark=("saved_model.pb",)) as made:
            made.mkdir()

    monkeypatch.setattr(os, "rename", interrupted)
    pytest.raises(KeyboardInterrupt, replace)
    assert os.listdir(str(tmp_path)) == ["model"]
    assert (target / "saved_model.pb").read_text() == "old"


def test_only_files_are_replaced(command, model_files, tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    arguments = ("convert", model_files.frozen, *MIXED, "-o", tmp_path / "pipe", "--force")
    assert "is no file, expected the name of one" in command(*arguments, status=2)
    assert not (tmp_path / "pipe").is_file()

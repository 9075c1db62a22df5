"""Models that the command reads: all formats of TensorFlow, and errors for other files."""

from __future__ import annotations

import gzip
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from support.loop_text import loop
from support.text_graph import read_graph
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from npu_precision.accuracy import frozen
from npu_precision.offline import model_file, reachable

pytestmark = pytest.mark.slow  # They read whole models.
GRAPH = read_graph(
    """
    x = Placeholder(shape=4x4)
    product = MatMul(x, x)
    end = Exp(product)
    aside = Neg(x)
    """
)


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def meta_graph(**fields):
    return meta_graph_pb2.MetaGraphDef(graph_def=GRAPH, **fields)


@pytest.mark.parametrize("name", ["model.pb", "model.pbtxt", "model", "model.meta"])
@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (GRAPH, "GraphDef"),
        (meta_graph(), "MetaGraph"),
        (
            saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph()]),
            "SavedModel",
        ),
    ],
    ids=["GraphDef", "MetaGraph", "SavedModel"],
)
def test_the_kind_is_told_by_what_is_in_the_file(message, kind, as_text, name, tmp_path):
    path = written(tmp_path, name, str(message) if as_text else message.SerializeToString())
    model = model_file.load_model(path)
    assert model.kind == kind
    assert model.meta_graph.graph_def == GRAPH


def test_a_checkpoint_is_its_graph_by_prefix_folder_or_file(model_files):
    prefix = pathlib.Path(model_files.checkpoint)
    graphs = [
        model_file.load_model(path).meta_graph
        for path in (prefix, prefix.parent, str(prefix) + ".meta")
    ]
    assert graphs[0] == graphs[1] == graphs[2]
    assert "logits" in [node.name for node in graphs[0].graph_def.node]


def test_nodes_that_nobody_reads_keep_their_dtype_unless_fetches_are_named(tmp_path):
    path = written(tmp_path, "model.pb", GRAPH.SerializeToString())
    assert model_file.load_model(path).fetches == ("end", "aside")
    assert model_file.load_model(path, fetches=["end:0"]).fetches == ("end",)


def test_of_a_saved_model_the_signature_for_serving_is_meant_or_the_one_that_is_named(model_files):
    model = model_file.load_model(model_files.cnn)
    assert model.signature == "serving_default"
    assert model_file.load_model(model_files.cnn, signature="serving_default").roots == model.roots
    with pytest.raises(ValueError, match=r"got 'serve_default', expected one of .*did you mean"):
        model_file.load_model(model_files.cnn, signature="serve_default")


def test_of_several_graphs_the_tags_say_which(tmp_path):
    stored = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    for tags in (["serve"], ["serve", "gpu"]):
        graph = stored.meta_graphs.add(graph_def=GRAPH)
        graph.meta_info_def.tags.extend(tags)
        graph.meta_info_def.meta_graph_version = "+".join(tags)
    path = written(tmp_path, "saved_model.pb", stored.SerializeToString())

    def version(**arguments):
        return model_file.load_model(path, **arguments).meta_graph.meta_info_def.meta_graph_version

    assert version() == "serve"
    assert version(tags=["gpu", "serve"]) == "serve+gpu"
    with pytest.raises(ValueError, match="got 'tpu', expected those of .*: 'serve' or 'gpu,serve'"):
        version(tags=["tpu"])


BINARY = GRAPH.SerializeToString()
DANGLING = read_graph("x = Placeholder(shape=4)\ny = Exp(x)")
del DANGLING.node[0]

# The content of the file, and the error message.
NO_MODELS = {
    "empty": (b"", "is empty; expected a GraphDef"),
    "cut off": (BINARY[: len(BINARY) * 3 // 4 + 3], "is damaged, cut off, or no model"),
    "between nodes": (DANGLING.SerializeToString(), "node 'y' .* reads 'x', .* cut off"),
    "noise": (bytes(range(256)) * 4, "is damaged, cut off, or no model"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "Keras.*export"),
    "keras": (b"PK\x03\x04" + bytes(64), "Keras.*export"),
    "gzip": (gzip.compress(BINARY), "compressed by gzip"),
    "lite": (b"\x1c\x00\x00\x00TFL3" + bytes(64), "TensorFlow Lite"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "prose": (b"Hello, world.\n", "is text, but no model's"),
    "script": (b"import tensorflow as tf\n", "is text, but no model's"),
    "bad text": (b'node {\n  nome: "x"\n}\n', r":2:3 : .*nome.*text form of a GraphDef"),
    "no nodes": (graph_pb2.GraphDef(versions={"producer": 1}).SerializeToString(), "no model"),
    "no nodes in text": (b"versions { producer: 1 }", "has no nodes"),
}


@pytest.mark.parametrize("content", NO_MODELS)
def test_what_is_no_model_is_named_for_what_it_is(content, tmp_path):
    data, message = NO_MODELS[content]
    path = written(tmp_path, "model.pb", data)
    with pytest.raises(ValueError, match=message):
        model_file.load_model(path)


@pytest.mark.parametrize("length", range(1, len(BINARY), 7))
def test_a_file_cut_off_anywhere_is_an_error_or_a_smaller_graph(length, tmp_path):
    path = written(tmp_path, "model.pb", BINARY[:length])
    try:
        model = model_file.load_model(path)
    except ValueError:
        return
    assert list(model.meta_graph.graph_def.node) == list(
        GRAPH.node[: len(model.meta_graph.graph_def.node)]
    )


def test_ops_that_tensorflow_does_not_know_are_all_named(tmp_path):
    graph = read_graph("x = Placeholder(shape=4)\ny = Exp(x)\nz = Exp(y)\nend = Neg(z)")
    for node in graph.node[1:3]:
        node.op = "ExpOfTheFuture"
    graph.node[3].op = "NegOfTheFuture"
    path = written(tmp_path, "model.pb", graph.SerializeToString())
    with pytest.raises(ValueError, match=r"ExpOfTheFuture \(2 nodes\), NegOfTheFuture \(1 node\)"):
        model_file.load_model(path)


def test_a_path_to_nothing_names_what_is_nearly_it(tmp_path):
    written(tmp_path, "frozen.pb", BINARY)
    with pytest.raises(FileNotFoundError, match=r"did you mean 'frozen.pb'"):
        model_file.load_model(tmp_path / "frozen.bp")
    with pytest.raises(FileNotFoundError, match="expected a GraphDef"):
        model_file.load_model(tmp_path / "no" / "folder" / "model.pb")


def test_a_folder_without_a_saved_model_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no model; expected a GraphDef"):
        model_file.load_model(tmp_path)


def test_a_checkpoint_without_its_graph_says_which_file_is_missing(model_files, tmp_path):
    folder = tmp_path / "training"
    shutil.copytree(str(pathlib.Path(model_files.checkpoint).parent), str(folder))
    (folder / "model.ckpt-1.meta").unlink()
    with pytest.raises(ValueError, match=r"has no graph: expected 'model.ckpt-1.meta' beside it"):
        model_file.load_model(folder)


def test_tags_are_of_saved_models_only(tmp_path):
    path = written(tmp_path, "model.pb", BINARY)
    with pytest.raises(ValueError, match="is a GraphDef; tags tell"):
        model_file.load_model(path, tags=[tf.saved_model.SERVING])


def test_text_with_a_banner_is_read_in_a_moment(tmp_path):
    path = written(tmp_path, "model.pbtxt", "#" * 4000 + "\nHello, world\n")
    with pytest.raises(ValueError, match="is text, but no model's"):
        model_file.load_model(path)
    path = written(tmp_path, "model.pbtxt", "#" * 4000 + f"\n# A comment.\n{GRAPH}")
    assert model_file.load_model(path).meta_graph.graph_def == GRAPH


def test_two_nodes_of_one_name_are_an_error(tmp_path):
    graph = read_graph("x = Placeholder(shape=4)\ny = Exp(x)")
    graph.node.add().CopyFrom(graph.node[1])
    path = written(tmp_path, "model.pb", graph.SerializeToString())
    with pytest.raises(ValueError, match="has several nodes 'y', expected one"):
        model_file.load_model(path)


@pytest.mark.parametrize("size", [None, 10])
def test_a_checkpoint_without_its_values_is_an_error(size, model_files, tmp_path):
    folder = tmp_path / "training"
    shutil.copytree(str(pathlib.Path(model_files.checkpoint).parent), str(folder))
    data = next(folder.glob("*.data-*"))
    content = data.read_bytes()
    data.unlink()
    if size is not None:
        data.write_bytes(content[:size])
    model = model_file.load_model(folder / "model.ckpt-1", fetches=["logits"])
    with pytest.raises(ValueError, match="TensorFlow cannot read the variables of|without values"):
        frozen.freeze(model)


def test_what_is_asked_for_by_default_yields_floats_also_where_that_is_the_default(tmp_path):
    graph = read_graph("x = Placeholder(shape=1x4x4x1)\nout = LRN(x)")
    for name in ("T", "depth_radius", "bias", "alpha", "beta"):
        graph.node[1].attr.pop(name, None)
    path = written(tmp_path, "model.pb", graph.SerializeToString())
    model = model_file.load_model(path)
    assert frozen.freeze(model).outputs == ("out",)
    assert model.meta_graph.graph_def == graph


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_outside_of_loops_and_branches_does_not_depend_on_the_order_of_nodes(turned):
    graph = read_graph(loop("start = MatMul(x, x)", "turn = Tanh(switch:1)") + "after = Neg(end)")
    expected = reachable.fetchable_nodes(graph)
    assert {"start", "exit", "end", "after"} <= expected
    assert not {"turn", "switch", "merge", "next", "cond"} & expected
    if turned:
        nodes = list(reversed(graph.node))
        del graph.node[:]
        graph.node.extend(nodes)
    assert reachable.fetchable_nodes(graph) == expected


def test_what_cannot_be_parsed_is_told_in_short(tmp_path):
    path = written(tmp_path, "model.pbtxt", b'node { name: "' + b"a" * 100_000)
    with pytest.raises(ValueError, match="expected the text form of a GraphDef") as error:
        model_file.load_model(path)
    assert len(str(error.value)) < len(str(path)) + 300


def saved(tmp_path, *signatures):
    class Module(tf.Module):
        @tf.function
        def double(self, x):
            return {"twice": tf.matmul(x + x, x)}

    module = Module()
    double = module.double.get_concrete_function(tf.TensorSpec([2, 2], tf.float32, name="x"))
    names = dict.fromkeys(signatures, double)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=names or None)
    return str(tmp_path / "model")


def test_the_only_signature_is_meant_whatever_its_name(tmp_path):
    assert model_file.load_model(saved(tmp_path, "mine")).signature == "mine"


def test_of_several_signatures_all_are_meant_and_one_has_to_be_named_to_run_it(
    tmp_path, command, arrays
):
    path = saved(tmp_path, "one", "other")
    model = model_file.load_model(path)
    assert model.signature == ""
    assert len(model.roots) == 2
    inputs = ("--inputs", arrays(x=np.ones([2, 2], np.float32)), "--mode", "fp16")
    text = command("compare", path, *inputs, status=2)
    assert "none is 'serving_default': name one with --signature: one, other" in text
    command("compare", path, *inputs, "--signature", "one")
    text = command("compare", path, *inputs, "--signature", "on", status=2)
    assert "got 'on', expected one of 'one', 'other', which" in text


def test_a_saved_model_without_signatures_is_explained_and_cannot_be_run(tmp_path, command, arrays):
    path = saved(tmp_path)
    explained = json.loads(command("explain", path, "--mode", "fp16", "--json"))
    assert any(node["op"] == "MatMul" for node in explained["nodes"])
    text = command("compare", path, "--mode", "fp16", "--inputs", arrays(x=0), status=2)
    assert "has no signature, so nobody knows what to run" in text
    text = command("explain", path, "--mode", "fp16", "--signature", "a", status=2)
    assert "got 'a', but " in text
    assert "has no signatures" in text


def test_what_a_folder_has_is_named(tmp_path, model_files):
    with pytest.raises(FileNotFoundError, match="is no model; expected a GraphDef"):
        model_file.load_model(tmp_path)
    written(tmp_path, "model.meta", b"")
    with pytest.raises(FileNotFoundError, match="which it has: 'model.meta'"):
        model_file.load_model(tmp_path)
    with pytest.raises(ValueError, match="the model's name is empty"):
        model_file.load_model("")

"""Outputs of a signature: those that are asked for, and those that need a table without content."""

from __future__ import annotations

import json
import re

import pytest
import tensorflow as tf
from support.overflowing import EMULATED, normal

from npu_precision.accuracy import frozen
from npu_precision.offline import model_file


class Labels(tf.Module):
    """A classifier that also looks up the numbers of its classes."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(normal(8, 4), name="w")
        keys = tf.constant([0, 1, 2, 3], tf.int64)
        values = tf.constant([7, 8, 9, 10], tf.int64)
        # TensorFlow does not export the content of such a table.
        self.names = tf.lookup.experimental.DenseHashTable(
            tf.int64, tf.int64, 0, empty_key=-1, deleted_key=-2
        )
        self.names.insert(keys, values)

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def serve(self, x):
        logits = tf.matmul(x, self.w, name="logits")
        label = self.names.lookup(tf.argmax(logits, 1))
        return {"label": label, "logits": logits, "probabilities": tf.nn.softmax(logits)}

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def name(self, x):
        return {"label": self.names.lookup(tf.argmax(tf.matmul(x, self.w), 1))}


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """The folder of the classifier, a SavedModel."""
    folder = str(tmp_path_factory.mktemp("labels"))
    model = Labels()
    signatures = {"serving_default": model.serve, "name": model.name}
    tf.saved_model.save(model, folder, signatures=signatures)
    return folder


@pytest.fixture
def inputs(arrays):
    return arrays(x=normal(8, 8))


def test_an_output_that_needs_a_table_is_left_out_and_named(labels, inputs, command, tmp_path):
    text = command("compare", labels, *EMULATED, "--inputs", inputs)
    assert "\nleft out, since they look something up in a table: label\n" in text
    assert re.findall("^output (.*): error", text, re.MULTILINE) == ["logits", "probabilities"]
    flags = ("--inputs", inputs, "--max-error", "1", "-o", tmp_path / "m.json")
    text = command("tune", labels, *EMULATED, *flags)
    assert "\nleft out, since they look something up in a table: label\n" in text
    verify = ("--verify", inputs, "--max-error", "1", "-o", tmp_path / "out")
    text = command("convert", labels, *EMULATED, *verify)
    assert re.findall("^output (.*): error", text, re.MULTILINE) == ["logits", "probabilities"]


@pytest.mark.parametrize("signature", [("--signature", "serving_default"), ()])
def test_an_output_is_asked_for_by_its_name_in_the_signature(
    signature, labels, inputs, command, tmp_path
):
    asked = (labels, *EMULATED, *signature, "--fetch", "probabilities")
    text = command("compare", *asked, "--inputs", inputs)
    assert "left out" not in text
    assert re.findall("^output (.*): error", text, re.MULTILINE) == ["probabilities"]
    flags = ("--inputs", inputs, "--max-error", "1e-3", "-o", tmp_path / "m.json", "--json")
    assert json.loads(command("tune", *asked, *flags))["accepted"]
    verify = ("--verify", inputs, "--mixlist", tmp_path / "m.json", "--max-error", "1e-3")
    text = command("convert", *asked, *verify, "-o", tmp_path / "out")
    assert re.findall("^output (.*): error", text, re.MULTILINE) == ["probabilities"]
    assert "signature serving_default" in command("explain", *asked)


def test_an_output_is_asked_for_by_its_tensor_too(labels):
    definition = model_file.load_model(labels).meta_graph.signature_def["serving_default"]
    tensor = definition.outputs["logits"].name
    model = model_file.load_model(labels, signature="serving_default", fetches=[tensor])
    assert model.outputs == ("logits",)


def test_the_frozen_graph_has_only_what_was_asked_for(labels):
    whole = frozen.freeze(model_file.load_model(labels))
    assert whole.left_out == ("label",)
    logits = frozen.freeze(model_file.load_model(labels, fetches=["logits"]))
    assert [*logits.output_names] == ["logits"]
    ops = {node.op for node in logits.graph_def.node}
    assert "MatMul" in ops
    assert ops.isdisjoint({"Softmax", "ArgMax", "MutableDenseHashTableV2", "LookupTableFindV2"})


def test_an_output_that_does_not_exist_is_told_with_those_that_do(labels, command):
    asked = ("explain", labels, *EMULATED, "--signature", "serving_default", "--fetch")
    assert (
        "fetch: got 'logit', expected an output of signature 'serving_default': 'label', "
        "'logits', 'probabilities' (did you mean 'logits'?)"
    ) in command(*asked, "logit", status=2)


def test_what_needs_a_table_and_nothing_else_is_refused(labels, inputs, command):
    for asked in (("--fetch", "label"), ("--signature", "name")):
        text = command("compare", labels, *EMULATED, *asked, "--inputs", inputs, status=2)
        assert "looks something up in a table" in text

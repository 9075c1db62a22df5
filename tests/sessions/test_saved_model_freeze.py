"""convert_saved_model(freeze=True): signatures hold the values of variables as constants."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default, needs_saved_custom_gradients

from npu_precision import convert_saved_model
from npu_precision.offline import saved_model

BF16 = "allow_mix_precision_bf16"
# bfloat16 rounds to 8 bits; the models round a handful of times.
TOLERANCE = 5e-2
pytestmark = [needs_functions_by_default, needs_saved_custom_gradients]


class Model(tf.Module):
    """A table, a convolution with a batch norm and a custom gradient behind it, and a loop."""

    def __init__(self, vocabulary):
        random = np.random.default_rng(0)
        initializer = tf.lookup.TextFileInitializer(
            vocabulary,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self.table = tf.lookup.StaticHashTable(initializer, 3)
        self.images = tf.Variable(random.normal(size=[4, 8, 8, 4]), dtype=tf.float32)
        self.filter = tf.Variable(random.normal(size=[3, 3, 4, 4]) / 6, dtype=tf.float32)
        self.norm = [
            tf.Variable(random.uniform(0.5, 2, size=[4]), dtype=tf.float32) for _ in range(4)
        ]
        self.weights = tf.Variable(random.normal(size=[4, 4]) / 2, dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def serve(self, words):
        image = tf.gather(self.images, self.table.lookup(words))
        image = tf.nn.conv2d(image, self.filter, 1, "SAME")
        image, *_ = tf.compat.v1.nn.fused_batch_norm(image, *self.norm, is_training=False)
        hidden = tf.reduce_mean(tf.nn.swish(image), [1, 2])
        for _ in tf.range(3):
            hidden = tf.nn.tanh(tf.matmul(hidden, self.weights))
        return {"hidden": hidden, "doubled": 2 * hidden}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("freeze")
    (folder / "vocabulary.txt").write_text("a\nb\nc\n")
    model = Model(str(folder / "vocabulary.txt"))
    tf.saved_model.save(model, str(folder / "model"), signatures=model.serve)
    (folder / "model" / "assets.extra").mkdir()
    (folder / "model" / "assets.extra" / "note.txt").write_text("of the user")
    return folder / "model"


@pytest.fixture(scope="module")
def frozen(saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen") / "model"
    return folder, convert_saved_model(saved, folder, precision_mode=BF16, freeze=True)


@pytest.fixture(scope="module")
def before(saved):
    return tf.saved_model.load(str(saved))


@pytest.fixture
def after(frozen):
    return tf.saved_model.load(str(frozen[0]))


def signature(model):
    return model.signatures["serving_default"]


def gradient_of_filter(model, words):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.serve(words)["hidden"])
    return tape.gradient(loss, model.filter)


def ops_of_signature(folder):
    """The op types of the functions that the signature calls, and of their nodes' dtypes."""
    model, _ = saved_model.read(pathlib.Path(folder))
    graph_def = model.meta_graphs[0].graph_def
    library = {function.signature.name: function for function in graph_def.library.function}
    (call,) = (node for node in graph_def.node if node.name == "StatefulPartitionedCall")
    names, nodes = [call.attr["f"].func.name], []
    for name in names:
        nodes += library[name].node_def
        for node in library[name].node_def:
            names += [each.func.name for each in node.attr.values() if each.HasField("func")]
    return nodes


def test_values_are_those_of_the_model(before, after):
    words = tf.constant(["b", "a", "unknown"])
    results = signature(after)(words=words)
    for name, expected in signature(before)(words=words).items():
        assert np.max(np.abs(results[name] - expected)) < TOLERANCE * np.max(np.abs(expected))


def test_a_signature_keeps_the_names_of_inputs_and_outputs_and_reads_no_variable(before, after):
    now, was = signature(after), signature(before)
    assert now.structured_input_signature == was.structured_input_signature
    assert set(now.structured_outputs) == {"hidden", "doubled"}
    assert len(was.variables) > 0
    assert len(now.variables) == 0


def test_batch_norms_are_folded_as_in_a_frozen_graph(frozen):
    ops = {node.op for node in ops_of_signature(frozen[0])}
    assert "FusedBatchNormV3" not in ops
    assert not any("ReadVariable" in op for op in ops)
    folded = [entry.by for part in frozen[1][0] for entry in part.rewrites]
    assert "fold_batch_norms" in folded


def test_no_iteration_casts_the_weights(frozen):
    model, _ = saved_model.read(frozen[0])
    library = model.meta_graphs[0].graph_def.library.function
    bodies = [each for each in library if "while_body" in each.signature.name]
    bodies = [each for each in bodies if each.signature.name.endswith("_frozen")]
    assert len(bodies) == 1
    assert [node.name for node in bodies[0].node_def if node.op == "Cast"] == []


def test_the_other_functions_still_see_their_variables(after):
    words = tf.constant(["a"])
    frozen = signature(after)(words=words)["hidden"]
    read = after.serve(words)["hidden"]
    after.weights.assign(-after.weights)
    assert np.array_equal(signature(after)(words=words)["hidden"], frozen)
    assert not np.allclose(after.serve(words)["hidden"], read, atol=0.1)


def test_assets_and_files_of_the_user_are_there(frozen):
    folder, _ = frozen
    assert (folder / "assets" / "vocabulary.txt").read_text() == "a\nb\nc\n"
    assert (folder / "assets.extra" / "note.txt").read_text() == "of the user"


def test_a_model_without_signatures_is_an_error(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "model"))
    with pytest.raises(ValueError, match="has no signature, and only those are frozen"):
        convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16, freeze=True)
    assert not (tmp_path / "out").exists()


def test_a_signature_that_writes_to_a_variable_is_an_error(tmp_path):
    class Counts(tf.Module):
        def __init__(self):
            self.calls = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([2], name="x")])
        def serve(self, x):
            if tf.reduce_sum(x) > 0:
                self.calls.assign_add(1.0)
            return {"y": x * self.calls}

    model = Counts()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    with pytest.raises(ValueError, match="'serving_default' writes to variables, by AssignAddVar"):
        convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16, freeze=True)
    assert not (tmp_path / "out").exists()


def test_a_batch_norm_whose_output_a_custom_gradient_captured_is_lowered(before, saved, tmp_path):
    """Without freeze. The gradient captures a float32 copy, and no longer fits its ops: loudly."""
    convert_saved_model(saved, tmp_path / "out", precision_mode=BF16)
    norms = [node for node in ops_of_signature(tmp_path / "out") if "FusedBatchNorm" in node.op]
    assert [tf.as_dtype(node.attr["T"].type) for node in norms] == [tf.bfloat16]
    model = tf.saved_model.load(str(tmp_path / "out"))
    words = tf.constant(["a", "b"])
    expected = before.serve(words)["hidden"]
    assert np.max(np.abs(model.serve(words)["hidden"] - expected)) < TOLERANCE
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError), match="float"):
        gradient_of_filter(model, words)

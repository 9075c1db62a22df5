"""convert_saved_model: signatures hold the values of variables as constants, if possible."""

from __future__ import annotations

import functools
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import (
    needs_functions_by_default,
    needs_onednn_in_bfloat16,
    needs_saved_custom_gradients,
)

from npu_precision import convert_saved_model
from npu_precision.offline import frozen_signatures, saved_model

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


def test_a_signature_keeps_the_names_of_inputs_and_outputs(before, after):
    now, was = signature(after), signature(before)
    assert now.structured_input_signature == was.structured_input_signature
    assert set(now.structured_outputs) == {"hidden", "doubled"}


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
    bodies = [each for each in bodies if "_frozen_" in each.signature.name]
    assert len(bodies) == 1
    assert [node.name for node in bodies[0].node_def if node.op == "Cast"] == []


def test_the_other_functions_still_see_their_variables(after):
    words = tf.constant(["a"])
    frozen = signature(after)(words=words)["hidden"]
    read = after.serve(words)["hidden"]
    after.weights.assign(-after.weights)
    assert np.array_equal(signature(after)(words=words)["hidden"], frozen)
    assert not np.allclose(after.serve(words)["hidden"], read, atol=0.1)


def test_a_signature_captures_only_what_it_reads(before, after):
    """The table, but no variable."""
    assert len(signature(before).variables) == 7
    (captured,) = signature(after).captured_inputs
    assert captured.dtype == tf.resource
    assert signature(after).variables == ()


def test_what_was_converted_can_be_saved_again(after, tmp_path):
    tf.saved_model.save(after, str(tmp_path / "again"), signatures=signature(after))
    words = tf.constant(["b", "c"])
    again = signature(tf.saved_model.load(str(tmp_path / "again")))(words=words)["hidden"]
    assert np.array_equal(again, signature(after)(words=words)["hidden"])


def test_assets_and_files_of_the_user_are_there(frozen):
    folder, _ = frozen
    assert (folder / "assets" / "vocabulary.txt").read_text() == "a\nb\nc\n"
    assert (folder / "assets.extra" / "note.txt").read_text() == "of the user"


class Swish(tf.Module):
    def __init__(self):
        self.filter = tf.Variable(tf.fill([3, 3, 4, 4], 0.1))
        self.bias = tf.Variable([0.1, 0.2, 0.3, 0.4])

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 4], name="x")])
    def serve(self, x):
        y = tf.nn.bias_add(tf.nn.conv2d(x, self.filter, 1, "SAME"), self.bias)
        return {"y": tf.nn.swish(y)}


@needs_onednn_in_bfloat16
@pytest.mark.cpu("_MklSwish is fused for oneDNN")
def test_a_session_fuses_a_swish_behind_a_bias(tmp_path):
    """A session fuses only if constants have no control inputs, as in calls without effects."""
    model = Swish()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    tf1 = tf.compat.v1
    metadata = tf1.RunMetadata()
    with tf.Graph().as_default(), tf1.Session() as session:
        loaded = tf1.saved_model.load(session, ["serve"], str(tmp_path / "out"))
        signature_def = loaded.signature_def["serving_default"]
        session.run(
            signature_def.outputs["y"].name,
            {signature_def.inputs["x"].name: np.ones([2, 8, 8, 4], np.float32)},
            tf1.RunOptions(output_partition_graphs=True),
            metadata,
        )
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    fused = [list(node.attr["fused_ops"].list.s) for node in nodes if "Conv2D" in node.op]
    assert fused == [[b"BiasAdd", b"_MklSwish"]]


def test_a_model_without_signatures_is_an_error(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "model"))
    with pytest.raises(ValueError, match="has no signature that is a tf.function of TensorFlow 2"):
        convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16, freeze=True)
    assert not (tmp_path / "out").exists()


class Counts(tf.Module):
    """Counts its calls in a variable."""

    def __init__(self):
        self.calls = tf.Variable(0.0)
        self.weights = tf.Variable(tf.ones([4, 4]))

    @tf.function(input_signature=[tf.TensorSpec([2, 4], name="x")])
    def serve(self, x):
        if tf.reduce_sum(x) > 0:
            self.calls.assign_add(1.0)
        return {"y": tf.matmul(x, self.weights) * self.calls}


WRITES = "signature 'serving_default' writes to variables, by AssignAddVar"


@pytest.fixture
def counting(tmp_path):
    model = Counts()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    return model


def test_what_constants_cannot_replace_is_an_error(counting, tmp_path):
    with pytest.raises(ValueError, match=WRITES):
        convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16, freeze=True)
    assert not (tmp_path / "out").exists()


def test_without_an_option_what_cannot_be_frozen_stays_with_a_warning(counting, tmp_path):
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    (warning,) = (
        line for line in ledger.warnings if "variables in each step, and are slower" in line
    )
    assert WRITES in warning
    assert "leave freeze out" not in warning
    converted = tf.saved_model.load(str(tmp_path / "out"))
    x = tf.ones([2, 4])
    for _ in range(2):
        result = signature(converted)(x=x)["y"]
        assert np.array_equal(result, counting.serve(x)["y"])


def test_effects_of_a_signature_stay(tmp_path):
    class Checks(tf.Module):
        def __init__(self):
            self.weights = tf.Variable(tf.ones([4, 4]))

        @tf.function(input_signature=[tf.TensorSpec([2, 4], name="x")])
        def serve(self, x):
            tf.debugging.assert_positive(x)
            tf.print("seen", output_stream=f"file://{tmp_path}/seen")
            return {"y": tf.matmul(x, self.weights)}

    model = Checks()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16, freeze=True)
    converted = tf.saved_model.load(str(tmp_path / "out"))
    assert np.array_equal(signature(converted)(x=tf.ones([2, 4]))["y"], np.full([2, 4], 4))
    assert (tmp_path / "seen").read_text() == "seen\n"
    with pytest.raises(tf.errors.InvalidArgumentError):
        signature(converted)(x=-tf.ones([2, 4]))


@pytest.mark.parametrize("freeze", [None, True, False])
def test_without_an_option_signatures_are_frozen_if_they_can(freeze, saved, tmp_path):
    (ledger,) = convert_saved_model(saved, tmp_path / "out", precision_mode=BF16, freeze=freeze)
    ops = {node.op for node in ops_of_signature(tmp_path / "out")}
    assert ("ReadVariableOp" in ops) == (freeze is False)
    assert not any("in each step" in line for line in ledger.warnings)


@pytest.mark.parametrize(
    "options",
    [
        {"precision_mode": "must_keep_origin_dtype"},
        {"precision_mode": "allow_fp32_to_bf16"},
        {"precision_mode": BF16, "emulate": True},
        {"precision_mode": BF16, "target": "ascend910b"},
    ],
)
def test_without_an_option_only_what_is_for_speed_is_frozen(options, saved, tmp_path):
    convert_saved_model(saved, tmp_path / "out", **options)
    assert "ReadVariableOp" in {node.op for node in ops_of_signature(tmp_path / "out")}


def test_a_model_without_variables_gets_no_warning(tmp_path):
    model = tf.Module()
    model.serve = tf.function(
        lambda x: {"y": tf.matmul(x, x)}, input_signature=[tf.TensorSpec([2, 2], name="x")]
    )
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    assert not ledger.warnings


def test_freezing_works_where_a_session_is_open(saved, tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session():
        convert_saved_model(saved, tmp_path / "out", precision_mode=BF16, freeze=True)
    assert "ReadVariableOp" not in {node.op for node in ops_of_signature(tmp_path / "out")}


def test_two_signatures_are_frozen_side_by_side(tmp_path):
    class Both(tf.Module):
        def __init__(self):
            self.weights = tf.Variable(tf.random.normal([4, 4]))

        @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
        def once(self, x):
            return {"y": tf.matmul(x, self.weights)}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
        def twice(self, x):
            for _ in tf.range(2):
                x = tf.matmul(x, self.weights)
            return {"y": x}

    model = Both()
    signatures = {"once": model.once, "twice": model.twice}
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=signatures)
    convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    converted = tf.saved_model.load(str(tmp_path / "out"))
    x = tf.random.normal([3, 4])
    for name, function in signatures.items():
        expected = function(x)["y"]
        error = np.abs(converted.signatures[name](x=x)["y"] - expected)
        assert np.max(error) < TOLERANCE * np.max(np.abs(expected))


def test_a_batch_norm_whose_output_a_custom_gradient_captured_is_lowered(before, saved, tmp_path):
    """Without freeze, the gradient captures a float32 copy, and its ops fail with an error."""
    convert_saved_model(saved, tmp_path / "out", precision_mode=BF16, freeze=False)
    norms = [node for node in ops_of_signature(tmp_path / "out") if "FusedBatchNorm" in node.op]
    assert [tf.as_dtype(node.attr["T"].type) for node in norms] == [tf.bfloat16]
    model = tf.saved_model.load(str(tmp_path / "out"))
    words = tf.constant(["a", "b"])
    expected = before.serve(words)["hidden"]
    assert np.max(np.abs(model.serve(words)["hidden"] - expected)) < TOLERANCE
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError), match="float"):
        gradient_of_filter(model, words)


def save_of_tensorflow_1(folder):
    """A graph that ends in a call of a function, behind ops of its own."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], "x")
        weights = tf.compat.v1.get_variable("weights", initializer=tf.eye(4), use_resource=True)
        y = tf.function(lambda t: tf.matmul(t, weights))(2 * x + 1)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def test_a_signature_of_tensorflow_1_stays(tmp_path):
    save_of_tensorflow_1(tmp_path / "model")
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    assert not ledger.warnings
    result = signature(tf.saved_model.load(str(tmp_path / "out")))(x=tf.ones([2, 4]))
    assert np.array_equal(result["y"], np.full([2, 4], 3))
    with pytest.raises(ValueError, match="no signature that is a tf.function of TensorFlow 2"):
        convert_saved_model(tmp_path / "model", tmp_path / "no", precision_mode=BF16, freeze=True)


def save(function, spec, folder, **attributes):
    model = tf.Module()
    for name, value in attributes.items():
        setattr(model, name, value)
    model.serve = tf.function(function, input_signature=[spec])
    tf.saved_model.save(model, str(folder), signatures=model.serve)
    return model


def test_an_argument_may_have_any_name(tmp_path):
    weights = tf.Variable(tf.eye(4))
    model = save(
        lambda frozen: {"y": tf.matmul(frozen, weights)},
        tf.TensorSpec([None, 4], name="frozen"),
        tmp_path / "model",
        weights=weights,
    )
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    assert not ledger.warnings
    x = tf.ones([2, 4])
    result = signature(tf.saved_model.load(str(tmp_path / "out")))(frozen=x)
    assert np.array_equal(result["y"], model.serve(x)["y"])


def test_a_variable_may_have_an_unknown_size(tmp_path):
    weights = tf.Variable(tf.eye(4), shape=[None, 4])
    spec = tf.TensorSpec([None, 4], name="x")
    save(lambda x: {"y": tf.matmul(x, weights)}, spec, tmp_path / "model", weights=weights)
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    assert not ledger.warnings
    assert "ReadVariableOp" not in {node.op for node in ops_of_signature(tmp_path / "out")}


def test_random_numbers_of_a_generator_stay_random(tmp_path):
    generator = tf.random.Generator.from_seed(1)
    weights = tf.Variable(tf.eye(4))
    spec = tf.TensorSpec([2, 4], name="x")
    save(
        lambda x: {"y": tf.matmul(x, weights) + generator.normal([2, 4])},
        spec,
        tmp_path / "model",
        weights=weights,
        generator=generator,
    )
    with pytest.raises(ValueError, match="writes to variables, by RngReadAndSkip"):
        convert_saved_model(tmp_path / "model", tmp_path / "no", precision_mode=BF16, freeze=True)


@pytest.mark.parametrize("freeze", [None, True])
def test_what_is_frozen_is_not_frozen_again(freeze, frozen, tmp_path):
    convert_saved_model(frozen[0], tmp_path / "again", precision_mode=BF16, freeze=freeze)
    (one,), (other,) = (
        saved_model.read(folder)[0].meta_graphs for folder in (frozen[0], tmp_path / "again")
    )
    assert one.graph_def == other.graph_def


def test_a_conversion_has_the_same_bytes_each_time(saved, frozen, tmp_path):
    convert_saved_model(saved, tmp_path / "out", precision_mode=BF16)
    one, other = (folder / "saved_model.pb" for folder in (frozen[0], tmp_path / "out"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("freeze", [None, True])
def test_large_variables_are_frozen_when_that_is_asked_for(freeze, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(frozen_signatures, "LARGEST_UNASKED", 1000)
    convert = functools.partial(convert_saved_model, saved, tmp_path / "out", precision_mode=BF16)
    (ledger,) = convert(freeze=freeze)
    ops = {node.op for node in ops_of_signature(tmp_path / "out")}
    assert ("ReadVariableOp" in ops) == (freeze is None)
    warned = [
        line for line in ledger.warnings if "more than the 1000 that are frozen unless" in line
    ]
    assert len(warned) == (freeze is None)


def test_a_mixlist_that_names_nodes_is_about_the_nodes_of_the_functions(saved, tmp_path):
    """Freezing inlines the functions, so their nodes get longer names."""
    edits = '{"black-list": {"to-add": ["node:(.+/)?Conv2D"]}}'
    (ledger,) = convert_saved_model(
        saved, tmp_path / "out", precision_mode=BF16, mixlist_edits=edits
    )
    assert any("the options may name nodes" in line for line in ledger.warnings)
    ops = ops_of_signature(tmp_path / "out")
    convolutions = [node for node in ops if node.op == "Conv2D"]
    assert {node.attr["T"].type for node in convolutions} == {tf.float32.as_datatype_enum}
    assert "ReadVariableOp" in {node.op for node in ops}


@pytest.mark.parametrize("entry", ["node:.*Conv2D", "node:(.*/)?Conv2D"])
def test_entries_for_nodes_in_whatever_scopes_hold_in_frozen_signatures(entry, saved, tmp_path):
    edits = f'{{"black-list": {{"to-add": ["{entry}"]}}}}'
    (ledger,) = convert_saved_model(
        saved, tmp_path / "out", precision_mode=BF16, mixlist_edits=edits
    )
    assert list(ledger.warnings) == []
    ops = ops_of_signature(tmp_path / "out")
    convolutions = [node for node in ops if node.op == "Conv2D"]
    assert {node.attr["T"].type for node in convolutions} == {tf.float32.as_datatype_enum}
    assert "ReadVariableOp" not in {node.op for node in ops}


def test_an_alternative_beside_such_an_entry_may_name_nodes(saved, tmp_path):
    edits = '{"black-list": {"to-add": ["node:.*Conv2D|model/other"]}}'
    (ledger,) = convert_saved_model(
        saved, tmp_path / "out", precision_mode=BF16, mixlist_edits=edits
    )
    assert any("the options may name nodes" in line for line in ledger.warnings)


def test_an_identity_of_the_result_stands_for_a_custom_gradient(saved, tmp_path):
    convert_saved_model(saved, tmp_path / "out", precision_mode=BF16)
    assert "IdentityN" not in {node.op for node in ops_of_signature(tmp_path / "out")}
    convert_saved_model(saved, tmp_path / "kept", precision_mode=BF16, freeze=False)
    assert "IdentityN" in {node.op for node in ops_of_signature(tmp_path / "kept")}


def test_a_custom_gradient_of_two_results_yields_both(tmp_path):
    @tf.custom_gradient
    def both(x, y):
        return (x + y, x - y), lambda dx, dy: (dx, dy)

    weights = tf.Variable(tf.eye(4))

    def serve(x):
        total, difference = both(tf.matmul(x, weights), x)
        return {"total": total, "difference": difference}

    spec = tf.TensorSpec([2, 4], name="x")
    save(serve, spec, tmp_path / "model", weights=weights)
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "out", precision_mode=BF16)
    assert not ledger.warnings
    results = signature(tf.saved_model.load(str(tmp_path / "out")))(x=tf.ones([2, 4]))
    assert np.array_equal(results["total"], np.full([2, 4], 2))
    assert np.array_equal(results["difference"], np.zeros([2, 4]))

"""convert_saved_model: a SavedModel in another precision that runs without this package."""

import filecmp
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from support.strict_zip import strict_zip
from support.tf_versions import needs_saved_custom_gradients
from tensorflow.core.protobuf import saved_model_pb2

from npu_precision import PrecisionOptions, convert_saved_model

tf1 = tf.compat.v1
MIXED = PrecisionOptions(precision_mode="allow_mix_precision_bf16")


class Model(tf.Module):
    """A vocabulary file, variables, a loop, a large constant, two functions, one signature."""

    def __init__(self, vocabulary):
        random = np.random.default_rng(0)
        self.embedding = tf.Variable(random.normal(size=[8, 32]), dtype=tf.float32)
        self.weights = tf.Variable(random.normal(size=[32, 32]) / 6, dtype=tf.float32)
        self.constant = random.normal(size=[256, 256]).astype(np.float32)
        initializer = tf.lookup.TextFileInitializer(
            vocabulary,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        self.table = tf.lookup.StaticHashTable(initializer, 7)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def serve(self, words):
        hidden = tf.gather(self.embedding, self.table.lookup(words))
        for _ in tf.range(3):
            hidden = tf.nn.relu(tf.matmul(hidden, self.weights))
        return {"hidden": hidden, "probabilities": tf.nn.softmax(hidden)}

    @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32)])
    def not_a_signature(self, x):
        return tf.matmul(x, self.constant)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A TF2 SavedModel."""
    folder = tmp_path_factory.mktemp("tf2")
    (folder / "vocabulary.txt").write_text("a\nb\nc\n")
    model = Model(str(folder / "vocabulary.txt"))
    tf.saved_model.save(model, str(folder / "model"), signatures=model.serve)
    (folder / "model" / "assets.extra").mkdir()
    (folder / "model" / "assets.extra" / "note.txt").write_text("of the user")
    return folder / "model"


@pytest.fixture(scope="module")
def converted(saved, tmp_path_factory):
    """The converted SavedModel, with its ledgers."""
    folder = tmp_path_factory.mktemp("converted") / "new" / "model"
    return folder, convert_saved_model(saved, folder, MIXED)


def read(folder):
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def files(folder):
    return {str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if p.is_file()}


LOAD = """\
import sys
import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
before, after = (tf.compat.v2.saved_model.load(path) for path in sys.argv[1:3])
words = tf.constant(["a", "c", "b", "not in the vocabulary"])
x = tf.constant(np.random.default_rng(1).normal(size=[2, 256]).astype(np.float32))
calls = {
    "signature": lambda model: model.signatures["serving_default"](words=words)["hidden"],
    "method": lambda model: model.serve(words)["hidden"],
    "other": lambda model: model.not_a_signature(x),
}
for name, call in calls.items():
    exact, lowered = call(before), call(after)
    assert lowered.dtype == tf.float32
    print(name, float(tf.norm(lowered - exact) / tf.norm(exact)))
def gradient(model):
    try:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model.serve(words)["hidden"])
        return tape.gradient(loss, model.weights).dtype.name
    except LookupError:
        return "missing"  # TensorFlow 1.15 has none of a While that was loaded.


print("gradient", gradient(before) + "-" + gradient(after))

exact = calls["signature"](before).numpy()
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    signature = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[2]).signature_def
    serve = signature["serving_default"]
    feed = {serve.inputs["words"].name: ["a", "c", "b", "not in the vocabulary"]}
    result = session.run(serve.outputs["hidden"].name, feed)
    print("tf1", np.linalg.norm(result - exact) / np.linalg.norm(exact))
assert not [name for name in sys.modules if name.startswith("npu")]
"""


def test_the_result_loads_and_runs_on_plain_tensorflow(saved, converted, run_python):
    process = run_python(LOAD, saved, converted[0], PYTHONPATH="")
    printed = dict(line.split() for line in process.stdout.splitlines())
    for call in ("signature", "method", "other", "tf1"):
        assert 1e-4 < float(printed[call]) < 2e-2
    assert printed["gradient"] in ("float32-float32", "missing-missing")


def test_every_file_but_the_graph_is_copied_byte_for_byte(saved, converted):
    # The fingerprint is a hash of the original graph.
    assert files(saved) - files(converted[0]) == files(saved) & {"fingerprint.pb"}
    assert files(converted[0]) <= files(saved)
    for name in files(converted[0]) - {"saved_model.pb"}:
        assert filecmp.cmp(saved / name, converted[0] / name, shallow=False), name


def test_a_folder_that_is_a_link_is_copied_with_what_is_in_it(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "linked")
    (tmp_path / "linked" / "variables").rename(tmp_path / "elsewhere")
    (tmp_path / "linked" / "variables").symlink_to(tmp_path / "elsewhere")
    convert_saved_model(tmp_path / "linked", tmp_path / "new", MIXED)
    assert files(tmp_path / "elsewhere") == files(tmp_path / "new" / "variables") != set()


def test_signatures_functions_and_object_graph_keep_their_names_and_types(saved, tmp_path):
    # Frozen signatures have fewer captures: test_frozen_signatures.py.
    convert_saved_model(saved, tmp_path / "new", MIXED, freeze=False)
    (before,), (after,) = read(saved).meta_graphs, read(tmp_path / "new").meta_graphs
    assert after.signature_def == before.signature_def
    assert after.object_graph_def == before.object_graph_def
    assert after.saver_def == before.saver_def
    assert after.asset_file_def == before.asset_file_def
    functions = [
        [(f.signature.name, dict(f.attr), dict(f.arg_attr)) for f in library.function]
        for library in (before.graph_def.library, after.graph_def.library)
    ]
    assert functions[0] == functions[1]
    # Loops and branches carry the low type. A loader finds other functions by their signatures.
    known = set(before.object_graph_def.concrete_functions)
    assert len(known) > 1
    signatures = [
        {f.signature.name: f.signature for f in library.function if f.signature.name in known}
        for library in (before.graph_def.library, after.graph_def.library)
    ]
    assert signatures[0] == signatures[1]
    listed = {op.name for op in after.meta_info_def.stripped_op_list.op}
    assert listed >= {node.op for f in after.graph_def.library.function for node in f.node_def}


def test_functions_are_lowered_whether_a_signature_calls_them_or_not(converted):
    (ledger,) = converted[1]
    lowered = {
        function.graph: function.totals["lowered"]
        for function in ledger.functions
        if function.totals["lowered"]
    }
    assert any(name.startswith("__inference_not_a_signature") for name in lowered)
    assert any("while_body" in name for name in lowered)
    assert ledger.graph == "serve"


def test_constants_shrink_and_variables_stay_float32(saved, converted):
    sizes = [(folder / "saved_model.pb").stat().st_size for folder in (saved, converted[0])]
    assert sizes[1] < 0.75 * sizes[0]
    checkpoint = str(converted[0] / "variables" / "variables")
    dtypes = tf.train.load_checkpoint(checkpoint).get_variable_to_dtype_map()
    assert {dtype for name, dtype in dtypes.items() if "VALUE" in name} == {tf.float32}


def test_the_source_is_not_changed_and_nothing_is_left_beside_the_result(saved, tmp_path):
    before = {name: (saved / name).read_bytes() for name in files(saved)}
    convert_saved_model(str(saved), str(tmp_path / "new"), MIXED)
    assert {name: (saved / name).read_bytes() for name in files(saved)} == before
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_converting_twice_changes_nothing_more(converted, tmp_path):
    convert_saved_model(converted[0], tmp_path / "again", MIXED)
    assert read(tmp_path / "again") == read(converted[0])


@pytest.fixture
def saved_by_tf1(tmp_path):
    """Two MetaGraphs, with ref and resource variables and a collection of the user's."""
    builder = tf1.saved_model.Builder(str(tmp_path / "tf1"))
    for tags, resource in ((["serve"], True), (["serve", "ref"], False)):
        with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
            x = tf1.placeholder(tf.float32, [None, 16], name="x")
            initializer = tf1.random_normal_initializer(seed=1)
            weights = tf1.get_variable(
                "weights", [16, 16], initializer=initializer, use_resource=resource
            )
            hidden = tf.matmul(x, weights, name="hidden")
            graph.add_to_collection("interesting", hidden)
            y = tf.matmul(tf.nn.relu(hidden), weights, name="y")
            session.run(weights.initializer)
            signature = tf1.saved_model.predict_signature_def({"x": x}, {"y": y})
            add = (
                builder.add_meta_graph
                if resource is False
                else builder.add_meta_graph_and_variables
            )
            arguments = () if resource is False else (session,)
            add(*arguments, tags, signature_def_map={"serving_default": signature})
    builder.save()
    return tmp_path / "tf1"


def run_tf1(folder, tags, fetch, x):
    with tf1.Session(graph=tf.Graph()) as session:
        meta_graph = tf1.saved_model.load(session, tags, str(folder))
        feed = {meta_graph.signature_def["serving_default"].inputs["x"].name: x}
        return session.run(fetch, feed)


def test_every_meta_graph_of_a_tf1_model_is_kept_and_converted(saved_by_tf1, tmp_path):
    ledgers = convert_saved_model(saved_by_tf1, tmp_path / "new", MIXED)
    assert [ledger.graph for ledger in ledgers] == ["serve", "serve_ref"]
    assert all(ledger.total("lowered") == 3 for ledger in ledgers)
    before, after = read(saved_by_tf1), read(tmp_path / "new")
    for old, new in strict_zip(before.meta_graphs, after.meta_graphs):
        assert new.signature_def == old.signature_def
        assert new.collection_def == old.collection_def
        assert new.meta_info_def.tags == old.meta_info_def.tags

    x = np.random.default_rng(1).normal(size=[3, 16]).astype(np.float32)
    for tags in (["serve"], ["serve", "ref"]):
        # "hidden" is fetched by the collection's name for it, so it keeps its dtype as well.
        for fetch in ("y:0", "hidden:0"):
            exact = run_tf1(saved_by_tf1, tags, fetch, x)
            lowered = run_tf1(tmp_path / "new", tags, fetch, x)
            assert lowered.dtype == np.float32
            error = np.linalg.norm(lowered - exact) / np.linalg.norm(exact)
            assert 1e-4 < error < 2e-2


def test_only_the_meta_graph_with_the_tags_is_converted(saved_by_tf1, tmp_path):
    (ledger,) = convert_saved_model(saved_by_tf1, tmp_path / "new", MIXED, tags=["ref", "serve"])
    assert ledger.graph == "serve_ref"
    before, after = read(saved_by_tf1), read(tmp_path / "new")
    assert after.meta_graphs[0] == before.meta_graphs[0]
    assert after.meta_graphs[1] != before.meta_graphs[1]
    with pytest.raises(ValueError, match=r"got \['gpu'\], but the SavedModel has .*'serve'"):
        convert_saved_model(saved_by_tf1, tmp_path / "other", MIXED, tags="gpu")
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_a_keras_model_is_converted(tmp_path):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(8, 3, activation=tf.nn.swish, input_shape=[8, 8, 3]),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(4, activation="softmax"),
        ]
    )
    tf.saved_model.save(model, str(tmp_path / "keras"))
    (ledger,) = convert_saved_model(tmp_path / "keras", tmp_path / "new", MIXED)
    assert ledger.total("lowered") > 0
    x = np.random.default_rng(0).normal(size=[2, 8, 8, 3]).astype(np.float32)
    loaded = tf.compat.v2.saved_model.load(str(tmp_path / "new"))
    lowered = loaded.signatures["serving_default"](tf.constant(x))
    assert next(iter(lowered.values())).numpy() == pytest.approx(model(x).numpy(), abs=2e-2)


@needs_saved_custom_gradients
def test_a_lowered_custom_gradient_fails_loudly_rather_than_lying(tmp_path):
    @tf.custom_gradient
    def square(x):
        return tf.matmul(x, x), lambda upstream: upstream * 2.0

    module = tf.Module()
    module.square = tf.function(square, input_signature=[tf.TensorSpec([2, 2])])
    tf.saved_model.save(module, str(tmp_path / "model"))
    convert_saved_model(tmp_path / "model", tmp_path / "new", MIXED)
    loaded = tf.compat.v2.saved_model.load(str(tmp_path / "new"))
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert loaded.square(x).numpy().tolist() == [[7.0, 10.0], [15.0, 22.0]]
    with tf.GradientTape() as tape:
        y = loaded.square(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="float"):
        tape.gradient(y, x)


@needs_saved_custom_gradients
@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "force_fp16"])
def test_what_a_custom_gradient_has_captured_keeps_name_and_dtype(mode, tmp_path):
    """swish captures its argument, which is lowered here, and a constant, which is folded."""

    class Swish(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([4, 4])])
        def serve(self, x):
            return tf.nn.swish(tf.matmul(x, x))

    tf.saved_model.save(Swish(), str(tmp_path / "model"))
    (ledger,) = convert_saved_model(tmp_path / "model", tmp_path / "converted", precision_mode=mode)
    assert ledger.total("lowered")
    x = tf.constant(np.random.default_rng(0).normal(size=[4, 4]).astype("f"))
    # The loader finds captured tensors by name.
    found, expected = (
        tf.saved_model.load(str(tmp_path / folder)).serve(x) for folder in ("converted", "model")
    )
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-2 * np.abs(expected).max())


def test_a_text_saved_model_stays_text(saved, tmp_path):
    source = tmp_path / "text"
    source.mkdir()
    (source / "saved_model.pbtxt").write_text(text_format.MessageToString(read(saved)))
    convert_saved_model(source, tmp_path / "new", MIXED)
    assert files(tmp_path / "new") == {"saved_model.pbtxt"}
    text_format.Parse(
        (tmp_path / "new" / "saved_model.pbtxt").read_text(), saved_model_pb2.SavedModel()
    )


def test_a_destination_that_exists_is_refused(saved, tmp_path):
    (tmp_path / "new").mkdir()
    with pytest.raises(FileExistsError, match="expected a folder to create"):
        convert_saved_model(saved, tmp_path / "new", MIXED)
    assert not files(tmp_path / "new")


def test_a_destination_inside_the_source_is_refused(saved):
    with pytest.raises(ValueError, match="inside src"):
        convert_saved_model(saved, saved / "new", MIXED)


def test_a_source_without_a_saved_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a folder with saved_model.pb"):
        convert_saved_model(tmp_path / "nowhere", tmp_path / "new", MIXED)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="no readable SavedModel"):
        convert_saved_model(tmp_path, tmp_path.parent / "new", MIXED)


def test_a_failed_conversion_leaves_nothing(saved, tmp_path):
    with pytest.raises(ValueError, match="did you mean"):
        convert_saved_model(saved, tmp_path / "new", precision_mode="allow_mix_precison")
    assert not list(tmp_path.iterdir())

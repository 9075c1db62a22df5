"""Models with lookup tables, and models that write variables, are compared and tuned too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_functions_by_default

from npu_precision.accuracy import comparison, frozen, model_run
from npu_precision.offline import model_file
from npu_precision.options import PrecisionOptions
from npu_precision.tuning import objective, step_time, trials

pytestmark = needs_functions_by_default
BF16 = PrecisionOptions(precision_mode="allow_mix_precision_bf16")
WORDS = np.array(["sun", "rain", "snow", "unknown"])


class Words(tf.Module):
    """Gives each word a row of weights, and a product of it."""

    def __init__(self, table):
        random = np.random.default_rng(0)
        self.table = table
        self.rows = tf.Variable(random.normal(size=[4, 8]), dtype=tf.float32)
        self.weights = tf.Variable(random.normal(size=[8, 3]), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def serve(self, words):
        return {"out": tf.matmul(tf.gather(self.rows, self.table.lookup(words)), self.weights)}


def constant_table():
    keys, values = tf.constant(["sun", "rain", "snow"]), tf.constant([0, 1, 2], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 3)


def mutable_table():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 3)
    table.insert(tf.constant(["sun", "rain", "snow"]), tf.constant([0, 1, 2], tf.int64))
    return table


@pytest.fixture(params=[constant_table, mutable_table])
def words(request, tmp_path):
    """The module, its frozen form, and a batch."""
    module = Words(request.param())
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    flat = frozen.freeze(model_file.load_model(tmp_path / "model"))
    return module, flat, [{flat.inputs["words"].tensor: WORDS}]


def test_a_frozen_model_looks_up_what_the_model_does(words):
    module, flat, batches = words
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(flat.graph_def, name="")
    (values,) = model_run.run_as_it_is(graph, flat.output_names, batches, flat.states)
    expected = module.serve(tf.constant(WORDS))
    np.testing.assert_allclose(values["out"], expected["out"], rtol=1e-6)


def test_both_precisions_look_up_the_same_rows(words):
    _, flat, batches = words
    assert 0 < comparison.Comparer(flat, BF16).run(batches).error() < 0.01


def test_trials_and_step_times_fill_the_table(words):
    _, flat, batches = words
    trial = trials.Trials(flat, batches, objective.MaxError(0.01)).run(BF16)
    assert trial.is_met
    assert trial.lowered > 0
    assert len(step_time.measure(flat, batches, 1, [BF16])) == 2


def test_a_table_whose_content_cannot_be_moved_is_named(tmp_path):
    table = tf.lookup.experimental.DenseHashTable(
        tf.string, tf.int64, 3, empty_key="", deleted_key="-"
    )
    table.insert(tf.constant(["sun"]), tf.constant([0], tf.int64))
    module = Words(table)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    with pytest.raises(ValueError, match=r"looks something up in a table .*--fetch"):
        frozen.freeze(model_file.load_model(tmp_path / "model"))


def test_a_table_without_content_is_named(tmp_path):
    with tf.Graph().as_default() as graph:
        words = tf.compat.v1.placeholder(tf.string, [None], "words")
        tf.cast(constant_table().lookup(words), tf.float32, name="out")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ValueError, match="whose content is not known.*--fetch"):
        frozen.freeze(model_file.load_model(path))


class Counter(tf.Module):
    """Yields a product, multiplied by the number of calls so far."""

    def __init__(self):
        random = np.random.default_rng(0)
        self.calls = tf.Variable(0.0)
        self.weights = tf.Variable(random.normal(size=[8, 3]), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def serve(self, x):
        self.calls.assign_add(1.0)
        return {"out": tf.matmul(x, self.weights) * self.calls}


@pytest.fixture
def counter(tmp_path):
    """The module, its frozen form, and two batches."""
    module = Counter()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.serve)
    flat = frozen.freeze(model_file.load_model(tmp_path / "model"))
    random = np.random.default_rng(1)
    tensor = flat.inputs["x"].tensor
    return module, flat, [{tensor: random.normal(size=[4, 8]).astype("f")} for _ in range(2)]


def test_a_variable_that_the_model_writes_begins_as_it_was_saved(counter):
    module, flat, batches = counter
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(flat.graph_def, name="")
    for _ in range(2):  # Each call runs in a session of its own.
        found = model_run.run_as_it_is(graph, flat.output_names, batches, flat.states)
        module.calls.assign(0.0)
        for values, feed in zip(found, batches):
            (x,) = feed.values()
            np.testing.assert_allclose(values["out"], module.serve(x)["out"], rtol=1e-5)


def test_each_precision_writes_variables_of_its_own(counter):
    _, flat, batches = counter
    assert comparison.Comparer(flat, PrecisionOptions()).run(batches).error() == 0
    assert 0 < comparison.Comparer(flat, BF16).run(batches).error() < 0.01
    assert trials.Trials(flat, batches, objective.MaxError(0.01)).run(BF16).is_met
    assert len(step_time.measure(flat, batches, 1, [BF16])) == 2

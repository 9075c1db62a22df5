"""Embeddings: gradients are IndexedSlices, and only the rows that were looked up are written."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.numeric_models import Layers
from support.training_runs import (
    MODES,
    STEPS,
    TOLERANCE,
    UNITS,
    Training,
    check_losses,
    check_variables,
    float32_run,
    train,
)

tf1 = tf.compat.v1

WORDS = 40
# Words from this number on are in no example.
USED = 30


def table_of(use_resource):
    return tf1.get_variable(
        "table",
        [WORDS, 16],
        initializer=tf1.random_uniform_initializer(-1, 1, seed=3),
        use_resource=use_resource,
    )


def examples():
    """Ids and labels; the first word of an example determines its class."""
    random = np.random.RandomState(0)
    for _ in range(STEPS):
        ids = random.randint(USED, size=[16, 6]).astype("i")
        yield ids, ids[:, 0] % 4


def loss_of(features, use_resource):
    """features(table, ids) -> [16, 16], in front of two dense layers: (loss, feeds, table)."""
    layers = Layers(training=True, use_resource=use_resource)
    ids = tf1.placeholder(tf.int32, [16, 6], name="ids")
    labels = tf1.placeholder(tf.int32, [16], name="labels")
    table = table_of(use_resource)
    hidden = tf.tanh(layers.dense(features(table, ids), 16, "hidden"))
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, layers.dense(hidden, 4, "logits"))
    return loss, [{ids: words, labels: classes} for words, classes in examples()], table


def mean_of_words(table, ids):
    return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)


def words_in_matrix_product(table, ids):
    """The embeddings are inputs of a lowered op, and their gradient comes from a lowered op."""
    words = tf.reshape(tf.nn.embedding_lookup(table, ids), [16, 96])
    return tf.matmul(
        words, tf.constant(np.random.RandomState(1).normal(size=[96, 16]) / 10, "float32")
    )


def sparse_ids(table, ids):
    where = tf.where(tf.ones([16, 6], tf.bool))
    sparse = tf.SparseTensor(where, tf.reshape(ids, [-1]), [16, 6])
    return tf.nn.embedding_lookup_sparse(table, sparse, None, combiner="sqrtn")


def tied_weights(table, ids):
    """The table is also a dense layer's weights: its gradient is dense and slices at once."""
    return tf.tanh(tf.matmul(tf.matmul(mean_of_words(table, ids), table, transpose_b=True), table))


LOOKUPS = {
    "mean_of_words": mean_of_words,
    "words_in_matrix_product": words_in_matrix_product,
    "sparse_ids": sparse_ids,
    "tied_weights": tied_weights,
}


@functools.lru_cache(maxsize=None)
def training_with(lookup, use_resource, optimizer=tf1.train.AdamOptimizer, rate=0.02):
    def build():
        loss, feeds, table = loss_of(LOOKUPS[lookup], use_resource)
        slices = isinstance(tf.gradients(loss, table)[0], tf.IndexedSlices)
        assert slices == (lookup != "tied_weights")
        return Training(loss, optimizer(rate).minimize(loss), feeds)

    return build


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_losses_follow_float32(lookup, mode, use_resource):
    build = training_with(lookup, use_resource)
    run, expected = train(build, mode), float32_run(build)
    check_losses(run, expected, mode)
    check_variables(run, mode)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("mode", MODES)
def test_rows_nobody_looked_up_are_not_touched(mode, use_resource):
    build = training_with(
        "words_in_matrix_product", use_resource, tf1.train.GradientDescentOptimizer, 0.3
    )
    run = train(build, mode)
    tables = run.variables["table"], float32_run(build).variables["table"]
    np.testing.assert_array_equal(tables[0][USED:], tables[1][USED:])
    np.testing.assert_allclose(tables[0][:USED], tables[1][:USED], rtol=0, atol=TOLERANCE[mode])


@pytest.mark.parametrize("mode", MODES)
def test_the_global_norm_of_slices_is_float32s(mode):
    def build():
        loss, feeds, table = loss_of(words_in_matrix_product, True)
        variables = tf1.trainable_variables()
        gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.1)
        step = tf1.train.AdamOptimizer(0.02).apply_gradients(zip(gradients, variables))
        return Training(loss, step, feeds, {"norm": norm})

    run, expected = train(build, mode), train(build, "float32")
    check_losses(run, expected, mode)
    np.testing.assert_allclose(run.watched["norm"], expected.watched["norm"], rtol=4 * UNITS[mode])

"""Input pipelines of TF1 before a training: they yield the same values as in float32 training."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.numeric_models import Layers
from support.training_runs import (
    FLOAT32,
    MODES,
    TOLERANCE,
    config_for,
)

tf1 = tf.compat.v1

BATCHES = 6


def examples():
    x = np.random.RandomState(0).normal(size=[BATCHES * 16, 12]).astype("f")
    return x, x[:, :4].argmax(1).astype("i")


def preprocess(x, label):
    return tf.clip_by_value(1.1 * x - 0.1, -2, 2), label


def dataset(tensors):
    data = tf1.data.Dataset.from_tensor_slices(tensors).map(preprocess)
    return data.shuffle(50, seed=1).batch(16, drop_remainder=True).prefetch(1)


def one_shot():
    iterator = tf1.data.make_one_shot_iterator(dataset(examples()))
    return iterator.get_next(), lambda session: {}


def initializable():
    """An iterator that gets its data from placeholders when it is initialized."""
    arrays = examples()
    placeholders = tuple(tf1.placeholder(array.dtype, array.shape) for array in arrays)
    iterator = tf1.data.make_initializable_iterator(dataset(placeholders))

    def start(session):
        session.run(iterator.initializer, dict(zip(placeholders, arrays)))
        return {}

    return iterator.get_next(), start


def reinitializable():
    data = dataset(examples())
    iterator = tf1.data.Iterator.from_structure(
        tf1.data.get_output_types(data), tf1.data.get_output_shapes(data)
    )
    initializer = iterator.make_initializer(data)
    return iterator.get_next(), lambda session: session.run(initializer) or {}


def feedable():
    data = dataset(examples())
    handle = tf1.placeholder(tf.string, [])
    iterator = tf1.data.Iterator.from_string_handle(
        handle, tf1.data.get_output_types(data), tf1.data.get_output_shapes(data)
    )
    string = tf1.data.make_one_shot_iterator(data).string_handle()
    return iterator.get_next(), lambda session: {handle: session.run(string)}


def queue():
    """A queue, the form of input pipelines before tf.data."""
    coordinator = tf1.train.Coordinator()
    example = tf1.train.slice_input_producer(examples(), num_epochs=1, shuffle=False)
    batch = tf1.train.batch(preprocess(*example), 16)

    def start(session):
        session.run(tf1.local_variables_initializer())
        tf1.train.start_queue_runners(session, coordinator)
        return {}

    return batch, start


ITERATORS = {
    "one_shot": one_shot,
    "initializable": initializable,
    "reinitializable": reinitializable,
    "feedable": feedable,
    "queue": queue,
}


def train_from(iterator, mode, reports):
    """The inputs and the losses of the steps until the data end."""
    inputs, losses = [], []
    with tf.Graph().as_default():
        tf1.set_random_seed(1)
        (x, labels), start = ITERATORS[iterator]()
        layers = Layers(training=True)
        logits = layers.dense(tf.tanh(layers.dense(x, 24, "hidden")), 4, "logits")
        loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
        step = tf1.train.AdamOptimizer(0.01).minimize(loss)
        with tf1.Session(config=config_for(mode, str(reports))) as session:
            session.run(tf1.global_variables_initializer())
            feeds = start(session)
            try:
                while True:
                    seen = session.run([x, loss, step], feeds)
                    inputs.append(seen[0])
                    losses.append(seen[1])
            except tf.errors.OutOfRangeError:
                return np.array(inputs), np.array(losses)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("iterator", ITERATORS)
def test_the_same_examples_arrive_and_losses_follow_float32(iterator, mode, tmp_path, ledgers):
    inputs, losses = train_from(iterator, mode, tmp_path)
    expected_inputs, expected = train_from(iterator, FLOAT32, tmp_path)
    assert len(losses) == BATCHES
    assert inputs.dtype == np.float32
    np.testing.assert_array_equal(inputs, expected_inputs)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[mode])
    assert not np.array_equal(losses, expected)
    nodes = [node for ledger in ledgers(tmp_path) for node in ledger.nodes]
    assert "MatMul" in {node.op for node in nodes if node.decision == "lowered"}
    sources = [node for node in nodes if node.op in ("IteratorGetNext", "QueueDequeueManyV2")]
    assert {node.reason for node in sources} == {"neutral_source"}

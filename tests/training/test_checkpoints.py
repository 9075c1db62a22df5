"""Checkpoints of mixed and float32 training have one format; each continues from the other."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    FLOAT32,
    MODES,
    STEPS,
    TOLERANCE,
    UNITS,
    Training,
    config_for,
    dense_loss,
    float32_run,
    train,
)

tf1 = tf.compat.v1

HALF = STEPS // 2


@functools.lru_cache(maxsize=None)
def adam(start, stop, use_resource=True):
    """Adam, for the steps from `start` on and before `stop`."""

    def build():
        loss, feeds = dense_loss(use_resource)
        step = tf1.train.AdamOptimizer(0.01).minimize(loss, tf1.train.get_or_create_global_step())
        return Training(loss, step, feeds[start:stop])

    return build


CHANGES = [(FLOAT32, mode) for mode in MODES] + [(mode, FLOAT32) for mode in MODES]


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_training_goes_on_from_the_others_checkpoint(before, after, use_resource, tmp_path):
    checkpoint = str(tmp_path / "model")
    mode = before if after == FLOAT32 else after
    first = train(adam(0, HALF, use_resource), before, save=checkpoint)
    second = train(adam(HALF, STEPS, use_resource), after, restore=checkpoint)
    losses = np.concatenate([first.losses, second.losses])
    whole = float32_run(adam(0, STEPS, use_resource))
    np.testing.assert_allclose(losses, whole.losses, rtol=0, atol=TOLERANCE[mode])
    assert whole.losses[HALF] < whole.losses[0] - 10 * TOLERANCE[MODES[0]], "it did not start anew"
    assert second.variables["global_step"] == STEPS


@pytest.mark.parametrize("sharded", [False, True], ids=["one_file", "sharded"])
@pytest.mark.parametrize("mode", MODES)
def test_names_shapes_and_dtypes_are_those_of_float32(mode, sharded, tmp_path):
    def saved_by(mode):
        with tf.Graph().as_default():
            with tf1.device("/cpu:0"):
                training = adam(0, HALF)()
            with tf1.device("/cpu:1"):
                average = tf.train.ExponentialMovingAverage(0.9)
                with tf.control_dependencies([training.step]):
                    step = average.apply(tf1.trainable_variables())
            saver = tf1.train.Saver(sharded=sharded)
            config = tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
            with tf1.Session(config=config_for(mode, config=config)) as session:
                session.run(tf1.global_variables_initializer())
                for feed in training.feeds:
                    session.run(step, feed)
                path = saver.save(session, str(tmp_path / mode))
        reader = tf.train.load_checkpoint(path)
        return tf.train.list_variables(path), reader.get_variable_to_dtype_map()

    variables, dtypes = saved_by(mode)
    assert (variables, dtypes) == saved_by(FLOAT32)
    assert {"hidden_w", "hidden_w/Adam", "hidden_w/ExponentialMovingAverage"} <= set(dtypes)
    assert set(dtypes.values()) == {tf.float32, tf.int64}


@pytest.mark.parametrize("mode", MODES)
def test_restoring_and_saving_again_changes_no_bit(mode, tmp_path):
    first, again = str(tmp_path / "first"), str(tmp_path / "again")
    values = train(adam(0, HALF), FLOAT32, save=first).variables
    train(adam(0, 0), mode, restore=first, save=again)
    reader = tf.train.load_checkpoint(again)
    assert set(reader.get_variable_to_shape_map()) == set(values)
    for name, value in values.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value)


@pytest.mark.parametrize("mode", MODES)
def test_a_model_starts_from_another_ones_weights(mode, tmp_path):
    """init_from_checkpoint puts the reading into the initializers, which are optimized too."""
    checkpoint = str(tmp_path / "model")
    pretrained = train(adam(0, STEPS), FLOAT32, save=checkpoint).variables

    def build():
        training = adam(0, 0)()
        tf1.train.init_from_checkpoint(checkpoint, {"hidden_w": "hidden_w"})
        return training

    found = train(build, mode).variables
    np.testing.assert_array_equal(found["hidden_w"], pretrained["hidden_w"])
    assert (found["logits_w"] != pretrained["logits_w"]).any()


@pytest.mark.parametrize("mode", MODES)
def test_what_is_exported_is_the_users_graph_in_float32(mode, tmp_path):
    """A MetaGraph, and a graph with constants for variables, after training in mixed precision."""
    path = str(tmp_path / "model")
    with tf.Graph().as_default() as graph, tf1.Session(config=config_for(mode)) as session:
        training = adam(0, HALF)()
        session.run(tf1.global_variables_initializer())
        for feed in training.feeds:
            session.run(training.step, feed)
        tf1.train.Saver().save(session, path)
        name = training.loss.name
        feed = {tensor.name: value for tensor, value in training.feeds[0].items()}
        losses = [session.run(name, feed)]
        frozen = tf1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [training.loss.op.name]
        )
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.train.import_meta_graph(path + ".meta").restore(session, path)
        losses.append(session.run(name, feed))
        ops = [op for op in graph.get_operations() if op.type == "Cast"]
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf.import_graph_def(frozen, name="")
        losses.append(session.run(name, feed))
        ops += [op for op in graph.get_operations() if op.type == "Cast"]
    assert not [op.name for op in ops if "npu" in op.name]
    # TensorFlow may fuse constants differently from variables.
    assert losses[1] == pytest.approx(losses[2], rel=1e-6)
    assert losses[1] != losses[0]
    assert abs(losses[0] - losses[1]) <= 4 * UNITS[mode]

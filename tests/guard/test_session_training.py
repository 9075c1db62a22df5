"""PrecisionGuard as a hook of MonitoredSession and of an Estimator."""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_estimator

import npu_precision
from npu_precision import TrainingFailed

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.normal(size=[16, 32, 8]).astype(np.float32)
DIGITS = np.argmax(IMAGES[..., :4], -1).astype(np.int32)


def losses_of(images, labels, size):
    """The loss of a classifier; one layer is the identity, computed through large values."""
    init = tf1.random_normal_initializer(stddev=0.3, seed=1)
    hidden_kernel = tf1.get_variable("hidden", [8, 16], initializer=init, use_resource=True)
    digits_kernel = tf1.get_variable("digits", [16, 4], initializer=init, use_resource=True)
    identity = tf1.get_variable(
        "identity", initializer=np.eye(16, dtype=np.float32), trainable=False, use_resource=True
    )
    hidden = tf.nn.relu(tf.matmul(images, hidden_kernel, name="hidden/MatMul"))
    large = tf.matmul(hidden * size, identity, name="large/product") / size
    logits = tf.matmul(large, digits_kernel, name="digits/MatMul")
    return tf1.losses.sparse_softmax_cross_entropy(labels, logits)


def batches(images=IMAGES, sizes=None):
    sizes = np.ones(len(images), np.float32) if sizes is None else np.asarray(sizes, np.float32)
    return tf.data.Dataset.from_tensor_slices((images, DIGITS, sizes))


def growing(at, size):
    sizes = np.ones(len(IMAGES), np.float32)
    sizes[at:] = size
    return sizes


def config_of(tmp_path, **fields):
    return npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", modify_mixlist=tmp_path / "healed.json", **fields
    )


def train(guard, config, feeds=False, **data):
    """The loss of each step of a MonitoredSession, with an iterator or with feeds."""
    losses = []
    with tf.Graph().as_default():
        if feeds:
            images = tf1.placeholder(tf.float32, [32, 8])
            labels, size = tf1.placeholder(tf.int32, [32]), tf1.placeholder(tf.float32, [])
        else:
            images, labels, size = tf1.data.make_one_shot_iterator(batches(**data)).get_next()
        loss = losses_of(images, labels, size)
        step = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(
            loss, tf1.train.get_or_create_global_step()
        )
        hooks = [] if guard is None else [guard]
        sizes = data.get("sizes", np.ones(len(IMAGES)))
        with tf1.train.SingularMonitoredSession(hooks, config=config) as session:
            for number in range(len(IMAGES)):
                feed = None
                if feeds:
                    feed = {images: IMAGES[number], labels: DIGITS[number], size: sizes[number]}
                losses.append(session.run([loss, step], feed)[0])
    return losses


def warnings_of(caplog):
    return [each.message for each in caplog.records if each.message.startswith("PrecisionGuard")]


@pytest.mark.parametrize("feeds", [False, True], ids=["iterator", "feeds"])
def test_an_op_that_overflows_is_kept_and_no_batch_is_lost(feeds, tmp_path, caplog):
    sizes = growing(9, 1e6)
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with caplog.at_level(logging.WARNING):
        healed = train(guard, config_of(tmp_path), feeds, sizes=sizes)
    exact = train(None, None, feeds, sizes=sizes)
    assert not np.isfinite(
        train(
            None,
            npu_precision.npu_config_proto(precision_mode="allow_mix_precision"),
            feeds,
            sizes=sizes,
        )
    ).all()
    np.testing.assert_allclose(healed, exact, rtol=5e-3)
    assert guard.heals == 1
    (message,) = warnings_of(caplog)
    assert message.startswith("PrecisionGuard: step 9: ")
    assert "it begins as overflow of float16 in" in message
    assert '"node:' in (tmp_path / "healed.json").read_text()


def test_an_input_that_overflows_behind_ops_that_move_it_is_healed(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with tf.Graph().as_default():
        images, labels, size = tf1.data.make_one_shot_iterator(
            batches(sizes=growing(3, 1e5))
        ).get_next()
        moved = tf.reshape(tf.transpose(tf.reshape(images * size, [8, 4, 8]), [1, 0, 2]), [32, 8])
        kernel = tf1.get_variable("first", [8, 8], use_resource=True)
        product = tf.matmul(moved, kernel, name="first/MatMul")
        loss = losses_of(product / size, labels, tf.constant(1.0))
        run_to_the_end([guard], config_of(tmp_path), minimized(loss))
    assert guard.heals == 1


def minimized(loss):
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    return optimizer.minimize(loss, tf1.train.get_or_create_global_step())


def in_a_branch(loss):
    """The step in a branch, as in loss scaling: only made if the gradients are finite."""
    return tf1.cond(tf.math.is_finite(loss), lambda: minimized(loss), tf.no_op)


@pytest.mark.parametrize("step_of", [minimized, in_a_branch])
def test_what_is_no_training_step_needs_no_feed_and_takes_no_batch(step_of, tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with tf.Graph().as_default():
        images, labels, _ = tf1.data.make_one_shot_iterator(batches()).get_next()
        size = tf1.placeholder(tf.float32, [])
        loss = losses_of(images, labels, size)
        step = step_of(loss)
        global_step = tf1.train.get_or_create_global_step()
        made = 0
        with tf1.train.SingularMonitoredSession([guard], config=config_of(tmp_path)) as session:
            while made < len(IMAGES):
                assert session.run({"step": global_step})["step"] == made
                session.run([step, loss], {size: 1.0})
                made += 1
            with pytest.raises(tf.errors.OutOfRangeError):
                session.raw_session().run(loss, {size: 1.0})
    assert guard.heals == 0
    assert made == len(IMAGES)


def test_a_step_in_a_branch_is_healed(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    with tf.Graph().as_default():
        loss = losses_of(
            *tf1.data.make_one_shot_iterator(batches(sizes=growing(3, 1e6))).get_next()
        )
        run_to_the_end([guard], config_of(tmp_path), in_a_branch(loss))
    assert guard.heals == 1


def test_a_nan_in_the_data_is_named(tmp_path):
    images = IMAGES.copy()
    images[6, 2, 2] = np.nan
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with pytest.raises(TrainingFailed) as raised:
        train(guard, config_of(tmp_path), images=images)
    assert str(raised.value).startswith("PrecisionGuard: step 6: ")
    assert "float32 fails on this batch too" in str(raised.value)
    assert re.search("begins as nan in .*IteratorGetNext", str(raised.value))


def run_to_the_end(hooks, config, step):
    with tf1.train.SingularMonitoredSession(hooks, config=config) as session:
        while not session.should_stop():
            session.run(step)


def test_the_checkpoint_never_has_a_bad_state(tmp_path):
    """The saver's hook comes before the guard, and saves after each step."""
    images = IMAGES.copy()
    images[6, 2, 2] = np.nan
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    with tf.Graph().as_default():
        iterator = tf1.data.make_one_shot_iterator(batches(images))
        loss = losses_of(*iterator.get_next())
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf1.train.get_or_create_global_step()
        )
        saver = tf1.train.CheckpointSaverHook(str(tmp_path / "model"), save_steps=1)
        with pytest.raises(TrainingFailed):
            run_to_the_end([saver, guard], config_of(tmp_path), step)
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert reader.get_tensor("global_step") == 6
    assert np.isfinite(reader.get_tensor("hidden")).all()


def test_a_mixlist_that_cannot_be_written_stops_a_session(tmp_path, monkeypatch):
    """The session's config has the name of the file, and nothing else can pass the mixlist on."""
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")

    def write(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(guard._mixlist, "_write", write)
    with pytest.raises(TrainingFailed, match="the mixlist cannot be written: No space left on"):
        train(guard, config_of(tmp_path), sizes=growing(3, 1e6))


def test_without_a_mode_a_session_is_guarded_and_not_healed(tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    images = IMAGES.copy()
    images[3] = np.inf
    with pytest.raises(TrainingFailed, match="float32 fails on this batch too"):
        train(guard, None, images=images)


@needs_estimator
def test_an_estimator_is_healed(tmp_path, caplog):
    def model_fn(features, labels, mode):
        loss = losses_of(features["images"], labels, features["size"])
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    def input_fn():
        return batches(sizes=growing(5, 1e6)).map(
            lambda images, labels, size: ({"images": images, "size": size}, labels)
        )

    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", snapshot_every=4)
    config = npu_precision.NPURunConfig(
        model_dir=str(tmp_path / "model"),
        precision_mode="allow_mix_precision",
        modify_mixlist=str(tmp_path / "healed.json"),
    )
    with caplog.at_level(logging.WARNING):
        npu_precision.NPUEstimator(model_fn, config=config).train(input_fn, hooks=[guard])
    assert guard.heals == 1
    assert "step 5: " in warnings_of(caplog)[0]
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert reader.get_tensor("global_step") == 16
    assert np.isfinite(reader.get_tensor("hidden")).all()


def test_another_mixlist_is_an_error(tmp_path, mixlist):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    config = npu_precision.npu_config_proto(
        precision_mode="allow_mix_precision", modify_mixlist=mixlist(black=["Tanh"])
    )
    with pytest.raises(ValueError, match="healed.json', the guard's, which is read anew when"):
        train(guard, config)


@pytest.mark.parametrize(
    ("loss", "message"),
    [(None, "the graph has no losses in its collection"), ("lost", "loss: got 'lost', which is")],
)
def test_a_graph_without_that_loss_is_an_error(loss, message, tmp_path):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json", loss=loss)
    with tf.Graph().as_default():
        tf1.get_variable("w", initializer=1.0)
        with pytest.raises(ValueError, match=message):
            guard.begin()


def test_over_ranks_it_says_that_it_is_for_one(tmp_path, monkeypatch):
    guard = npu_precision.PrecisionGuard(tmp_path / "healed.json")
    monkeypatch.setenv("RANK_SIZE", "2")
    monkeypatch.setenv("RANK_ID", "0")
    with pytest.raises(ValueError, match="in sessions, it is for one rank, got several"):
        guard.begin()

"""MonitoredTrainingSession with TensorFlow's hooks, in mixed precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    FLOAT32,
    MODES,
    STEPS,
    TOLERANCE,
    Training,
    config_for,
    dense_loss,
    float32_run,
)

tf1 = tf.compat.v1


def training():
    loss, feeds = dense_loss()
    step = tf1.train.AdamOptimizer(0.01).minimize(loss, tf1.train.get_or_create_global_step())
    return Training(loss, step, feeds)


def monitored(folder, mode, last_step, hooks=()):
    """The losses of the steps of a MonitoredTrainingSession, up to `last_step`."""
    losses = []
    with tf.Graph().as_default():
        tf1.set_random_seed(1)
        found = training()
        tf1.summary.scalar("loss", found.loss)
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            config=config_for(mode),
            save_checkpoint_steps=3,
            save_summaries_steps=2,
            log_step_count_steps=2,
            hooks=[tf1.train.StopAtStepHook(last_step=last_step), *[make(found) for make in hooks]],
        ) as session:
            while not session.should_stop():
                step = session.run_step_fn(
                    lambda step_context: step_context.session.run(tf1.train.get_global_step())
                )
                losses.append(session.run([found.loss, found.step], found.feeds[step])[0])
    return losses


@pytest.mark.parametrize("mode", MODES)
def test_a_monitored_session_trains_logs_counts_and_saves(mode, tmp_path):
    logged = []
    hooks = [
        lambda found: tf1.train.LoggingTensorHook(
            {"loss": found.loss, "logits": "BiasAdd_1:0"}, every_n_iter=2, formatter=logged.append
        ),
        lambda found: tf1.train.NanTensorHook(found.loss),
        lambda found: tf1.train.ProfilerHook(save_steps=4, output_dir=str(tmp_path)),
    ]
    losses = monitored(tmp_path, mode, STEPS, hooks)
    expected = float32_run(training).losses
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[mode])
    assert not np.array_equal(losses, expected)
    assert [values["loss"] for values in logged] == losses[::2]
    assert {values["logits"].dtype.name for values in logged} == {"float32"}
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-" + str(STEPS))
    assert list(tmp_path.glob("timeline-*.json"))
    events = [
        event
        for file in tmp_path.glob("events*")
        for event in tf1.train.summary_iterator(str(file))
    ]
    summaries = {(v.tag, e.step): v.simple_value for e in events for v in e.summary.value}
    assert [summaries["loss", step] for step in (1, 3, 5, 7)] == losses[::2]
    assert ("global_step/sec", 3) in summaries
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert set(reader.get_variable_to_dtype_map().values()) == {tf.float32, tf.int64}


@pytest.mark.parametrize(
    ("before", "after"), [(FLOAT32, MODES[0]), (MODES[0], FLOAT32), (MODES[0], MODES[1])]
)
def test_a_monitored_session_goes_on_where_another_mode_stopped(before, after, tmp_path):
    losses = monitored(tmp_path, before, 5) + monitored(tmp_path, after, STEPS)
    expected = float32_run(training).losses
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[MODES[1]])


@pytest.mark.parametrize(("mode", "fails"), [(FLOAT32, False), (MODES[0], True), (MODES[1], False)])
def test_the_nan_hook_stops_a_training_that_leaves_float16s_range(mode, fails):
    """Logits of 64 * 2^14 are infinite in float16; bfloat16 and float32 hold them."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [4, 64])
        weights = tf1.get_variable("weights", [64, 4], initializer=tf1.ones_initializer())
        loss = tf1.losses.sparse_softmax_cross_entropy([0, 1, 2, 3], tf.matmul(x, weights))
        step = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        with tf1.train.MonitoredSession(
            tf1.train.ChiefSessionCreator(config=config_for(mode)),
            hooks=[tf1.train.NanTensorHook(loss)],
        ) as session:
            feed = {x: np.full([4, 64], 2.0**14)}
            if fails:
                with pytest.raises(tf1.train.NanLossDuringTrainingError):
                    session.run(step, feed)
            else:
                session.run(step, feed)

"""Estimator in mixed precision: the caller's hooks and the EstimatorSpec's, and checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.numeric_models import Layers
from support.tf_versions import needs_estimator
from support.training_runs import FLOAT32, MODES, STEPS, TOLERANCE, config_for

pytestmark = [needs_estimator, pytest.mark.slow]  # They train.

tf1 = tf.compat.v1
estimator = getattr(tf1, "estimator", None)


class Remembered(tf1.train.SessionRunHook):
    """Remembers the value of a tensor in each step."""

    def __init__(self, tensor):
        self.values = []
        self._tensor = tensor

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._tensor)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def input_fn():
    x = np.random.RandomState(0).normal(size=[STEPS * 16, 12]).astype("f")
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :4].argmax(1).astype("i")))
    return data.batch(16, drop_remainder=True)


def model_fn(features, labels, mode, config):
    layers = Layers(training=mode == estimator.ModeKeys.TRAIN)
    hidden = tf.tanh(layers.dense(features, 24, "hidden"))
    logits = layers.dense(hidden, 4, "logits")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels, logits)
    minimize = tf1.train.AdamOptimizer(0.01).minimize(loss, tf1.train.get_global_step())
    averages = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([minimize]):
        train_op = averages.apply(tf1.trainable_variables())
    saver = tf1.train.SummarySaverHook(
        # With more steps, the saved step would depend on chance: the hook reads the global step
        # while it is incremented.
        save_steps=1,
        output_dir=config.model_dir,
        summary_op=tf1.summary.tensor_summary("logits", logits, collections=[]),
    )
    accuracy = tf1.metrics.accuracy(labels, tf.argmax(logits, 1))
    return estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=train_op,
        training_hooks=[saver, tf1.train.NanTensorHook(loss)],
        eval_metric_ops={"accuracy": accuracy},
    )


def classifier(mode, folder):
    config = estimator.RunConfig(
        model_dir=str(folder),
        session_config=config_for(mode),
        save_checkpoints_steps=3,
        save_summary_steps=2,
        log_step_count_steps=2,
        tf_random_seed=1,
    )
    return estimator.Estimator(model_fn, config=config)


def losses_of(mode, folder, max_steps):
    loss = Remembered("sparse_softmax_cross_entropy_loss/value:0")
    stop = tf1.train.StopAtStepHook(last_step=max_steps)
    classifier(mode, folder).train(input_fn, hooks=[loss, stop])
    return loss.values


def logits_in_summaries(folder):
    """The logits by the step that saved them."""
    return {
        event.step: tf.make_ndarray(value.tensor)
        for file in folder.glob("events*")
        for event in tf1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag.startswith("logits")
    }


@pytest.mark.parametrize("mode", MODES)
def test_hooks_see_float32_and_the_losses_of_float32(mode, tmp_path):
    mixed, plain = tmp_path / "mixed", tmp_path / "float32"
    losses, expected = losses_of(mode, mixed, STEPS), losses_of(FLOAT32, plain, STEPS)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=TOLERANCE[mode])
    assert losses != expected
    logits, wanted = logits_in_summaries(mixed), logits_in_summaries(plain)
    assert {value.dtype.name for value in logits.values()} == {"float32"}
    assert sorted(logits) == sorted(wanted) == list(range(1, STEPS + 1))
    for step in wanted:
        # The loss is a mean over the logits.
        atol = 4 * TOLERANCE[mode]
        np.testing.assert_allclose(logits[step], wanted[step], rtol=0, atol=atol)
    result, expected = (
        classifier(*args).evaluate(input_fn) for args in ((mode, mixed), (mode, plain))
    )
    assert result["global_step"] == expected["global_step"] == STEPS
    assert abs(result["loss"] - expected["loss"]) <= TOLERANCE[mode]


@pytest.mark.parametrize(("before", "after"), [(FLOAT32, MODES[0]), (MODES[1], FLOAT32)])
def test_an_estimator_goes_on_in_another_mode(before, after, tmp_path):
    first = losses_of(before, tmp_path, 4)
    dtypes = tf.train.load_checkpoint(str(tmp_path)).get_variable_to_dtype_map()
    assert "hidden_w/ExponentialMovingAverage" in dtypes
    assert set(dtypes.values()) == {tf.float32, tf.int64}
    second = losses_of(after, tmp_path, STEPS)
    assert len(first) == len(second) == 4
    # The data begin anew, the weights do not.
    assert second[0] < first[0] - 10 * TOLERANCE[MODES[0]]

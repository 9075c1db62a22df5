"""iterations_per_loop of NPUEstimator: one session.run makes several training steps."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
from support.tf_versions import needs_estimator

import npu_precision
from npu_precision.loss_scaling.managers import ExponentialUpdateLossScaleManager
from npu_precision.npu_bridge import keras_to_npu
from npu_precision.npu_bridge.npu_hook import NPUOutputTensorHook

tf1 = tf.compat.v1
pytestmark = [needs_estimator, pytest.mark.slow]  # They train.


class Steps(tf1.train.SessionRunHook):
    """Remembers the global step after each run."""

    def __init__(self):
        self.seen = []

    def after_run(self, run_context, run_values):
        self.seen.append(int(run_context.session.run(tf1.train.get_global_step())))


def input_fn():
    """Batches 0, 1, 2, ... 99."""
    return tf.data.Dataset.range(100).map(lambda i: (tf.cast(i, tf.float32), 0))


def model_fn(features, labels, mode):
    """A step adds its batch to `total`."""
    total = tf1.get_variable("total", initializer=0.0, use_resource=True)
    with tf.control_dependencies([total.assign_add(features)]):
        train_op = tf.group(tf1.assign_add(tf1.train.get_global_step(), 1))
    return tf.estimator.EstimatorSpec(mode, loss=total.read_value(), train_op=train_op)


def estimator(tmp_path, iterations, **arguments):
    config = npu_precision.NPURunConfig(
        model_dir=str(tmp_path), iterations_per_loop=iterations, **arguments
    )
    return npu_precision.NPUEstimator(model_fn, config=config)


def test_a_run_makes_several_steps_on_a_batch_each(tmp_path, caplog):
    hook = Steps()
    model = estimator(tmp_path, 4, precision_mode="allow_mix_precision")
    with caplog.at_level(logging.WARNING, "npu_precision"):
        model.train(input_fn, steps=12, hooks=[hook])
    assert hook.seen == [4, 8, 12]
    assert model.get_variable_value("total") == sum(range(12))
    assert not [each for each in caplog.records if each.name == "npu_precision"]
    # From the checkpoint on, which says that 12 steps are made.
    hook = Steps()
    model.train(input_fn, max_steps=20, hooks=[hook])
    assert hook.seen == [16, 20]


@pytest.mark.parametrize("arguments", [{"steps": 10}, {"max_steps": 10}])
def test_no_step_more_is_made_than_asked_for(tmp_path, caplog, arguments):
    hook = Steps()
    model = estimator(tmp_path, 4)
    with caplog.at_level(logging.WARNING, "npu_precision"):
        model.train(input_fn, hooks=[hook], **arguments)
    assert hook.seen == [4, 8, 10]
    assert model.get_variable_value("total") == sum(range(10))
    assert [each.getMessage() for each in caplog.records if each.name == "npu_precision"] == [
        "NPUEstimator: 2 steps are left to step 10, and iterations_per_loop is 4: this loop is "
        "shorter; an NPU needs a multiple"
    ]


def test_training_ends_with_the_data(tmp_path):
    model = estimator(tmp_path, 40)
    model.train(input_fn)
    assert model.get_variable_value("global_step") == 100


def test_checkpoints_are_saved_after_loops(tmp_path):
    estimator(tmp_path, 4, save_checkpoints_steps=8).train(input_fn, steps=24)
    found = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert [int(path.rpartition("-")[2]) for path in found] == [0, 8, 16, 24]


def test_evaluation_makes_one_step_a_run(tmp_path):
    model = estimator(tmp_path, 4)
    model.train(input_fn, steps=4)
    assert model.evaluate(input_fn, steps=3)["loss"] == 0 + 1 + 2 + 3


def test_skipped_steps_are_made_up_for(tmp_path):
    """Loss scaling skips the first step: the scaled loss does not fit into float32."""

    def model_fn(features, labels, mode):
        w = tf1.get_variable("w", initializer=1.0)
        manager = ExponentialUpdateLossScaleManager(2.0**126, 1000, 1, 2, 2.0**-20)
        optimizer = npu_precision.NPULossScaleOptimizer(
            tf1.train.GradientDescentOptimizer(1e-6), manager
        )
        loss = 100 * tf.square(w * (features + 1))
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = npu_precision.NPURunConfig(model_dir=str(tmp_path), iterations_per_loop=4)
    model = npu_precision.NPUEstimator(model_fn, config=config)
    hook = Steps()
    model.train(input_fn, steps=10, hooks=[hook])
    assert hook.seen[-1] == 10
    assert hook.seen[0] == 3


@pytest.mark.parametrize("iterations", [0, 2.5, "4", True])
def test_a_wrong_number_is_refused(tmp_path, iterations):
    with pytest.raises(ValueError, match="iterations_per_loop: got .*expected an integer"):
        estimator(tmp_path, iterations)


def test_a_keras_model_trains_in_loops_too(tmp_path):
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[3], name="dense")])
        model.compile(tf1.train.GradientDescentOptimizer(0.1), "mse")
        config = npu_precision.NPURunConfig(model_dir=str(tmp_path), iterations_per_loop=5)
        trained = keras_to_npu.model_to_npu_estimator(keras_model=model, config=config)
    x = np.ones([4, 3], np.float32)

    def data():
        batch = ({"dense_input": x}, np.zeros([4, 1], np.float32))
        return tf.data.Dataset.from_tensors(batch).repeat()

    hook = Steps()
    trained.train(data, steps=10, hooks=[hook])
    assert hook.seen == [5, 10]
    assert trained.evaluate(data, steps=1)["loss"] < 1e-3


def test_tensors_are_given_to_a_function_every_so_many_runs():
    given = []
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        train_op = tf1.assign_add(step, 1).op
        with tf.control_dependencies([train_op]):  # Without it, the read may come first.
            count = tf.identity(step)
        hook = NPUOutputTensorHook(
            {"step": count, "twice": 2 * count}, [train_op], given.append, output_every_n_steps=2
        )
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(5):
                session.run(train_op)
    assert [[each["step"] for each in call] for call in given] == [[1, 2], [3, 4], [5]]

"""util.set_iteration_per_loop: one session.run makes several training steps, each on a batch."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import npu_precision
from npu_precision import util

tf1 = tf.compat.v1


@pytest.fixture
def model():
    """A graph with a step, which adds the sum of a batch to `total`; batches are 0, 1, 2, ..."""
    with tf.Graph().as_default():
        batches = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(10)).get_next()
        factor = tf1.placeholder_with_default(1.0, [])
        step = tf1.train.get_or_create_global_step()
        total = tf1.get_variable("total", initializer=0.0, use_resource=True)
        with tf.control_dependencies([total.assign_add(factor * tf.cast(batches, tf.float32))]):
            train_op = step.assign_add(1)
        yield {"train_op": train_op, "step": step, "total": total, "factor": factor}


def test_a_run_makes_several_steps_on_a_batch_each(model):
    with tf1.Session(config=npu_precision.npu_config_proto()) as session:
        session.run(tf1.global_variables_initializer())
        train_op = util.set_iteration_per_loop(session, model["train_op"], 3)
        session.run(train_op)
        assert session.run([model["step"], model["total"]]) == [3, 0 + 1 + 2]
        # With other fetches, in any structure (tf.train's hooks are keys), and with feeds.
        hook = tf1.train.StopAtStepHook(1)
        _, named = session.run(
            [train_op, {"factor": model["factor"], hook: (model["factor"],)}],
            feed_dict={model["factor"]: 10.0},
        )
        assert named == {"factor": 10.0, hook: (10.0,)}
        assert session.run([model["step"], model["total"]]) == [6, 3 + 10 * (3 + 4 + 5)]
        session.run(model["train_op"])
        assert session.run(model["step"]) == 7
        session.run([train_op])
        # All ten batches are used up.
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run([train_op])
        assert session.run(model["step"]) == 10


def test_in_two_parts_for_a_graph_that_is_finalized(model):
    iteration = util.IterationPerLoop()
    train_op = iteration.create_iteration_per_loop_var(model["train_op"])
    with tf1.train.MonitoredTrainingSession(config=npu_precision.npu_config_proto()) as session:
        iteration.load_iteration_per_loop_var(session, 4)
        session.run(train_op)
        assert session.run(model["step"]) == 4
        iteration.load_iteration_per_loop_var(session, 2)
        session.run(train_op)
        np.testing.assert_array_equal(session.run(model["step"]), 6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda op: util.set_iteration_per_loop(None, op, 0),
            ValueError,
            "iterations_per_loop: got 0, expected at least 1",
        ),
        (
            lambda op: util.set_iteration_per_loop(None, op, "3"),
            ValueError,
            "iterations_per_loop: got '3' (str), expected an integer",
        ),
        (
            lambda op: util.set_iteration_per_loop(None, None, 3),
            ValueError,
            "train_op: got None (NoneType), expected an operation",
        ),
        (
            lambda op: util.IterationPerLoop().load_iteration_per_loop_var(None, 3),
            RuntimeError,
            "call create_iteration_per_loop_var() first",
        ),
    ],
)
def test_mistakes_are_named(call, error, message, model):
    with pytest.raises(error) as caught:
        call(model["train_op"])
    assert str(caught.value) == message

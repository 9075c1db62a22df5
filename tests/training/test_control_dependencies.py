"""Control dependencies: a node that depends on a write or a check still does behind a Cast."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.training_runs import (
    MODES,
    UNITS,
    Training,
    check_losses,
    check_variables,
    config_for,
    dense_loss,
    train,
)

tf1 = tf.compat.v1


def four_threads(mode):
    """A config with four threads: nodes without an order run in any order."""
    return config_for(mode, config=tf1.ConfigProto(inter_op_parallelism_threads=4))


@pytest.mark.parametrize("mode", MODES)
def test_lowered_ops_read_a_variable_before_and_after_it_is_written(mode):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        initial = np.zeros([64, 64], "f")
        count = tf1.get_variable("count", initializer=initial, use_resource=True)
        before = tf.reduce_max(tf.matmul(x, count.read_value(), name="before"))
        with tf.control_dependencies([before]):
            write = count.assign_add(np.ones([64, 64], "f"))
        with tf.control_dependencies([write]):
            after = tf.reduce_max(tf.matmul(x, count.read_value(), name="after"))
        with tf1.Session(config=four_threads(mode)) as session:
            session.run(tf1.global_variables_initializer())
            seen = [session.run([before, after], {x: np.eye(64)}) for _ in range(50)]
    assert seen == [[step, step + 1] for step in range(50)]


@pytest.mark.parametrize("mode", MODES)
def test_a_write_with_a_control_dependency_on_a_lowered_op_comes_after_it(mode):
    """The lowered op is the control input and is fetched, so its name is now that of a Cast."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        count = tf1.get_variable("count", initializer=np.zeros([64, 64], "f"), use_resource=True)
        product = tf.matmul(x, count.read_value())
        with tf.control_dependencies([product]):
            write = count.assign_add(np.ones([64, 64], "f"))
        with tf1.Session(config=four_threads(mode)) as session:
            session.run(tf1.global_variables_initializer())
            seen = [session.run([product, write.op], {x: np.eye(64)})[0].max() for _ in range(50)]
    assert seen == list(range(50))


@pytest.mark.parametrize("mode", MODES)
def test_a_lowered_op_behind_a_failing_check_does_not_run(mode):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [4, 4])
        done = tf1.get_variable("done", initializer=0.0, use_resource=True)
        with tf.control_dependencies([tf1.Assert(tf.reduce_all(x > 0), ["x is not positive"])]):
            product = tf.matmul(x, x)
        with tf.control_dependencies([product]):
            write = done.assign(1.0)
        # TensorFlow drops a product without a consumer.
        fetches = [product, write.op]
        with tf1.Session(config=config_for(mode)) as session:
            session.run(done.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match="x is not positive"):
                session.run(fetches, {x: -np.ones([4, 4])})
            assert session.run(done) == 0
            session.run(fetches, {x: np.ones([4, 4])})
            assert session.run(done) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_loss_behind_the_train_op_sees_the_new_weights(mode):
    """So it is the first loss of the next step on the same batch."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 32])
        initial = np.random.RandomState(0).normal(size=[32, 8]).astype("f")
        weights = tf1.get_variable("weights", initializer=initial, use_resource=True)

        def loss():
            return tf.reduce_mean(tf.square(tf.matmul(x, weights.read_value()) - 1.0))

        before = loss()
        step = tf1.train.MomentumOptimizer(0.3, 0.9).minimize(before)
        with tf.control_dependencies([step]):
            after = loss()
        with tf1.Session(config=four_threads(mode)) as session:
            session.run(tf1.global_variables_initializer())
            feeds = {x: np.random.RandomState(1).normal(size=[64, 32])}
            seen = [session.run([before, after], feeds) for _ in range(10)]
    losses = np.array(seen)
    # TensorFlow may fuse more in one of the two losses, and so round less often.
    np.testing.assert_allclose(losses[:-1, 1], losses[1:, 0], rtol=UNITS[mode])
    assert (np.abs(losses[:, 1] / losses[:, 0] - 1) > 4 * UNITS[mode]).all(), "each step counts"


@pytest.mark.parametrize("mode", MODES)
def test_no_gradient_is_computed_from_weights_that_were_written(mode):
    """tf.tuple delays the updates of references, which are read when their reader runs."""

    def build():
        loss, feeds = dense_loss(use_resource=False)
        variables = tf1.trainable_variables()
        gradients = tf.tuple(tf.gradients(loss, variables))
        return Training(
            loss,
            tf.group(*[v.assign_sub(0.3 * g) for v, g in zip(variables, gradients)]),
            feeds,
        )

    run, expected = train(build, mode), train(build, "float32")
    check_losses(run, expected, mode)
    check_variables(run, mode)

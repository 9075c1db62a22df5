"""Reads of TF1's references with a control dependency on a write: their Casts have it, too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support import training_runs
from support.training_runs import config_for

tf1 = tf.compat.v1
# A functional If would not take a reference.
pytestmark = pytest.mark.usefixtures("control_flow_v1")

# Forced, an Identity would be lowered, and so become a copy.
MODES = [*training_runs.MODES, "force_fp16"]

READS = {
    "read_value": lambda variable: variable.read_value(),
    # An Identity of the variable's own Identity, which forwards the same memory.
    "identity": tf.identity,
}

# Ops whose output is the memory of their input.
FORWARDED = {
    "identity": tf.identity,
    "stop_gradient": tf.stop_gradient,
    "prevent_gradient": lambda value: tf.raw_ops.PreventGradient(input=value),
    "with_default": lambda value: tf1.placeholder_with_default(value, [64, 64]),
    "reshape": lambda value: tf.reshape(value, [64, 64]),
    "squeezed": lambda value: tf.squeeze(tf.expand_dims(value, 0)),
    "with_shape": lambda value: tf.raw_ops.EnsureShape(input=value, shape=[64, 64]),
    "checked": lambda value: tf.raw_ops.CheckNumerics(tensor=value, message="not a number"),
    "cond": lambda value: tf1.cond(value[0, 0] >= 0, lambda: value, lambda: -value),
}


def zeros_variable():
    return tf1.get_variable("count", initializer=np.zeros([64, 64], "f"), use_resource=False)


def run_steps(mode, fetches, feeds, steps=20):
    config = tf1.ConfigProto(inter_op_parallelism_threads=4)
    with tf1.Session(config=config_for(mode, config=config)) as session:
        session.run(tf1.global_variables_initializer())
        return [session.run(fetches, feeds) for _ in range(steps)]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("mode", MODES)
def test_lowered_ops_read_a_reference_before_and_after_it_is_written(mode, read):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        count = zeros_variable()
        before = tf.reduce_max(tf.matmul(x, count.read_value()))
        with tf.control_dependencies([before]):
            write = count.assign_add(np.ones([64, 64], "f"))
        with tf.control_dependencies([write]):
            after = tf.reduce_max(tf.matmul(x, READS[read](count)))
        seen = run_steps(mode, [before, after], {x: np.eye(64)})
    assert seen == [[step, step + 1] for step in range(20)]


@pytest.mark.parametrize("how", FORWARDED)
@pytest.mark.parametrize("mode", MODES)
def test_what_hands_a_reference_on_is_read_before_and_after_it_is_written(mode, how):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        count = zeros_variable()
        forwarded = FORWARDED[how](count)
        before = tf.reduce_max(tf.matmul(x, forwarded))
        with tf.control_dependencies([before]):
            write = count.assign_add(np.ones([64, 64], "f"))
        with tf.control_dependencies([write]):
            after = tf.reduce_max(tf.matmul(x, forwarded))
        seen = run_steps(mode, [before, after], {x: np.eye(64)})
    assert seen == [[step, step + 1] for step in range(20)]


@pytest.mark.parametrize("mode", MODES)
def test_one_branch_of_a_cond_reads_a_reference_before_and_after_it_writes_it(mode):
    """tf.cond makes the Switch behind the read; both products read it."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        chosen = tf1.placeholder(tf.bool, [])
        count = zeros_variable()

        def count_on():
            before = tf.reduce_max(tf.matmul(x, count))
            with tf.control_dependencies([before]):
                write = count.assign_add(np.ones([64, 64], "f"))
            with tf.control_dependencies([write]):
                return before, tf.reduce_max(tf.matmul(x, count))

        seen = tf1.cond(chosen, count_on, lambda: (tf.constant(-1.0), tf.constant(-1.0)))
        assert run_steps(mode, seen, {x: np.eye(64), chosen: False}, 2) == [(-1, -1)] * 2
        seen = run_steps(mode, seen, {x: np.eye(64), chosen: True})
    assert seen == [(step, step + 1) for step in range(20)]


@pytest.mark.parametrize("mode", MODES)
def test_an_iteration_reads_what_the_former_one_wrote(mode):
    """Both through the reference itself and through the Identity outside of the loop."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        count = zeros_variable()

        def body(i, total):
            # This product without a consumer makes each iteration begin after the last one's write.
            ready = tf.matmul(x, total)
            inside = tf.matmul(tf.ones_like(ready), count.read_value())
            outside = tf.matmul(tf.ones_like(ready), count)
            with tf.control_dependencies([inside, outside]):
                write = count.assign_add(np.ones([64, 64], "f"))
            with tf.control_dependencies([write]):
                return i + 1, total + (inside + outside) / 64.0

        total = tf.while_loop(
            lambda i, _: i < 4, body, [0, tf.zeros([64, 64])], parallel_iterations=1
        )[1]
        seen = run_steps(mode, tf.reduce_max(total), {x: np.eye(64)}, 4)
    firsts = [4 * step for step in range(4)]
    assert seen == [sum(2 * (first + i) for i in range(4)) for first in firsts]

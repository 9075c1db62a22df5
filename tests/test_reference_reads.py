"""Reads of TF1's references that wait for a write: a Cast behind them waits for it too."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from training_runs import MODES, config_for

tf1 = tf.compat.v1

READS = {
    "read_value": lambda variable: variable.read_value(),
    # An Identity of the variable's own Identity, which forwards the same memory.
    "identity": tf.identity,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("mode", MODES)
def test_lowered_ops_read_a_reference_before_and_after_it_is_written(mode, read):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [64, 64])
        count = tf1.get_variable("count", initializer=np.zeros([64, 64], "f"), use_resource=False)
        before = tf.reduce_max(tf.matmul(x, count.read_value()))
        with tf.control_dependencies([before]):
            write = count.assign_add(np.ones([64, 64], "f"))
        with tf.control_dependencies([write]):
            after = tf.reduce_max(tf.matmul(x, READS[read](count)))
        config = tf1.ConfigProto(inter_op_parallelism_threads=4)
        with tf1.Session(config=config_for(mode, config=config)) as session:
            session.run(tf1.global_variables_initializer())
            seen = [session.run([before, after], {x: np.eye(64)}) for _ in range(20)]
    assert seen == [[step, step + 1] for step in range(20)]

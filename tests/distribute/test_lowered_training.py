"""Training with lower_collectives has the same result as without it, except for rounding."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.replicas import MULTI_WORKER, shown
from support.tf_versions import needs_cluster_store

pytestmark = [needs_cluster_store, pytest.mark.slow]

STEPS, BATCH = 60, 32

# A classifier of three classes: train() shows the loss of each step and the weights at the end.
TRAIN = f"""
rng = np.random.default_rng(0)
x = rng.normal(size=[{STEPS}, {BATCH}, 32]).astype(np.float32)
y = np.argmax(x @ rng.normal(size=[32, 3]), axis=-1)


def train(strategy, mode, **options):
    npu_precision.enable(precision_mode=mode, report_dir="reports", **options)
    rng = np.random.default_rng(1)
    with strategy.scope():
        first, second = (
            tf.Variable(rng.normal(size=shape).astype(np.float32) / 6)
            for shape in ([32, 64], [64, 3])
        )
        bias = tf.Variable(tf.zeros([64]))
    weights = [first, bias, second]
    count, rank = strategy.num_replicas_in_sync, globals().get("WORKER", 0)

    def replica(x, y):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(tf.matmul(x, first) + bias)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, tf.matmul(hidden, second))
            loss = tf.reduce_sum(losses) / {BATCH}
        gradients = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        gradients, loss = context.all_reduce("sum", [gradients, loss])
        for weight, gradient in zip(weights, gradients):
            weight.assign_sub(0.3 * gradient)
        return loss

    step = tf.function(lambda x, y: strategy.run(replica, args=(x, y)))
    losses = []
    for one_x, one_y in zip(x, y):
        mine = slice(rank * {BATCH} // count, (rank + 1) * {BATCH} // count)
        losses.append(float(step(tf.constant(one_x[mine]), tf.constant(one_y[mine]))))
    show(losses, [weight.numpy() for weight in weights])
"""

WORKERS = f"""{MULTI_WORKER}{TRAIN}
train(strategy, sys.argv[1])
train(strategy, sys.argv[1], lower_collectives=True)
"""
ALONE = f"""
import json
import sys

import numpy as np
import tensorflow as tf

import npu_precision


def show(*values):
    print("SHOWN " + json.dumps(values, default=lambda value: np.asarray(value).tolist()))

{TRAIN}
train(tf.distribute.get_strategy(), sys.argv[1])
"""

# The largest error of a weight, as a fraction of how far training moved the weights. Both types
# round each gradient once more; the rest comes from other orders of additions.
DISTANCE = {"allow_mix_precision_bf16": 0.04, "allow_mix_precision": 0.03}


def start():
    rng = np.random.default_rng(1)
    first, second = (rng.normal(size=shape) / 6 for shape in ([32, 64], [64, 3]))
    return [first, np.zeros(64), second]


def distance(one, other):
    """The distance of two results, as a fraction of how far the first one moved from its start."""
    pairs = list(zip(map(np.array, one), map(np.array, other), start()))
    off = sum(np.sum((a - b) ** 2) for a, b, _ in pairs)
    return np.sqrt(off / sum(np.sum((a - begin) ** 2) for a, _, begin in pairs))


@pytest.mark.parametrize("mode", sorted(DISTANCE))
def test_two_workers_with_half_batches_are_one_with_the_whole(
    mode, run_workers, run_python, tmp_path
):
    one, other = (shown(printed) for printed in run_workers(WORKERS, mode))
    assert one == other, "the workers differ"
    (alone,) = shown(run_python(ALONE, mode).stdout)
    for losses, weights in one:
        assert losses[-1] < 0.35 * losses[0]
        assert distance(alone[1], weights) < DISTANCE[mode]
    (_, in_float32), (_, lowered) = one
    assert 0 < distance(in_float32, lowered) < DISTANCE[mode]

    collectives = [
        collective
        for report in tmp_path.glob("workers*/reports/*.json")
        for collective in json.loads(report.read_text())["collectives"]
    ]
    # One per worker: the weights of the first layer. Those of the second are few, like the biases.
    lowered = [each for each in collectives if each["lowered"]]
    assert [each["lowered"] for each in lowered] == [1, 1]
    size = 4 * 32 * 64
    assert all(each["bytes_before"] - each["bytes_after"] == size // 2 for each in lowered)
